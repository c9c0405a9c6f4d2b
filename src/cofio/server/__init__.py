"""The service: HTTP, MCP, the OpenAI-compatible proxy, background threads, the daemon and the web pages."""
