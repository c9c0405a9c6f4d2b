"""Stores for memories. Each is an adapter of the Store port, selected by the scheme of its URL."""
