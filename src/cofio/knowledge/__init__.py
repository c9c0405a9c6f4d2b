"""What can be told exactly from domain knowledge, with no vector: pure functions over the words of `domain`."""
