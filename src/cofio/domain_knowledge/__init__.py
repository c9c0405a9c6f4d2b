"""Exact lookup of domain knowledge, without vectors: pure functions over the types of `models.knowledge`."""
