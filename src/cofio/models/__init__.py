"""Frozen value types: memories, exchanges, knowledge rows, access, maintenance, notes, dashboard."""
