"""cofio beside other memories and searches: one run, one embedder, the same data, a process for each."""
