"""MCP server: memory that an agent queries itself, beside what the hooks inject.

    client ─ request ─▶ sdk_server ─▶ dispatcher ─ tools, resources, prompts ─ methods of the keeper ─▶ client

`tools`, `resources` and `prompts` declare what is offered, `listings` formats them for clients, `tool_handlers`
implements the tools, `tool_results` formats results, and `dispatcher` dispatches requests; none of them knows the
protocol. `sdk_server` does, with the official SDK, which is slow to import: the service loads it with the first request
to /mcp.
"""

SDK = "mcp>=2.3,<3"  # the requirement of the extra `mcp`
