"""Retrieval: how much of what answers a question is found."""
