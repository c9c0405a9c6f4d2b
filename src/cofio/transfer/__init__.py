"""Moving memories: exports, imports, and copies of the store."""
