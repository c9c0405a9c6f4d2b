"""Stores: where memories are kept. Each is an adapter of the Store port, found by the scheme of its URL."""
