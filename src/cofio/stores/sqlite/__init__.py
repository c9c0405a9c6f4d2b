"""The embedded store: one SQLite file, with a vector index and BM25 in memory."""
