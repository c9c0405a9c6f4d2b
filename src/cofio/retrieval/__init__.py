"""From a query to hits and injected context: hybrid search, recall, episodes, sessions, retrieval log."""
