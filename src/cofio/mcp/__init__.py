"""Memory that an agent asks for, over the Model Context Protocol. The hooks do it unasked; this is for the rest.

    client ─ hello, what is there? ─▶ front ─▶ client
    client ─ tools/call ─▶ wire ─▶ tools ─▶ acts ─ the keeper's words ─▶ answers ─▶ wire ─▶ client

`tools` says what there is, `acts` does it, `answers` words what comes of it; none of them knows the protocol. `wire`
does, by the official SDK, which is large: it is loaded by `cofio mcp` alone, while `front` answers the client.
"""
