"""The in-memory store that `cofio.testing` exports, for tests."""
