"""Memory that an agent asks for, over the Model Context Protocol. The hooks do it unasked; this is for the rest.

    client ─ hello, what is there? ─▶ front ─▶ client                    (standard input and output)
    client ─ a question ─▶ wire ─▶ counter ─ tools, resources, questions ─ the keeper's words ─▶ answers ─▶ client

`tools`, `resources` and `questions` say what there is, `acts` does what a tool does, `answers` words what comes of it,
and at the `counter` they are asked; none of them knows the protocol. `wire` does, by the official SDK, which is large:
`cofio mcp` loads it while `front` answers the client, and the service with the first request to /mcp.
"""

SDK = "mcp>=2.3,<3"  # the requirement, as the extra `mcp` has it
