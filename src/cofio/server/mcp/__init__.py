"""MCP server: memory that an agent queries itself, beside what the hooks inject.

    client ─ request ─▶ sdk_server ─▶ dispatcher ─ tools, resources, prompts ─ methods of the keeper ─▶ client

`tools`, `resources` and `prompts` declare and implement what is offered, `tool_results` formats results, and
`dispatcher` dispatches requests; none of them knows the protocol. `sdk_server` does, with the official SDK, which is
slow to import: `cofio mcp` loads it at its start, and the service with the first request to /mcp.
"""

SDK = "mcp>=2.3,<3"  # the requirement of the extra `mcp`
