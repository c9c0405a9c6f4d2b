"""Maintenance decisions: merge duplicates, archive unused memories, find problems. Nothing here writes to the store."""
