"""Comparison of cofio with other memories and search engines: one run, one embedder, the same data, a process each."""
