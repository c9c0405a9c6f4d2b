"""Lists of tools, prompts and resource templates, as sent to clients."""

from __future__ import annotations

from typing import Any

from cofio.server.mcp.prompts import PROMPTS
from cofio.server.mcp.resources import TEMPLATES
from cofio.server.mcp.tools import TOOLS, Tool


def tools() -> dict[str, Any]:
    """Return the tools as listed to clients."""
    return {"tools": [_describe_tool(tool) for tool in TOOLS]}


def prompts() -> dict[str, Any]:
    """Return the prompts as listed to clients."""
    return {"prompts": [dict(prompt) for prompt in PROMPTS]}


def templates() -> dict[str, Any]:
    """Return the resource templates as listed to clients."""
    return {"resourceTemplates": [dict(template) for template in TEMPLATES]}


def input_schema(name: str) -> dict[str, Any] | None:
    """Return the input schema of a tool."""
    return next((_describe_input(tool) for tool in TOOLS if tool.name == name), None)


def _describe_tool(tool: Tool) -> dict[str, Any]:
    following = {"next": {"type": "integer", "description": "The cursor of the next page."}} if tool.pages else {}
    gives = {"says": {"type": "string"}, "notice": {"type": "string"}, **tool.gives, **tool.may_give, **following}
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.says,
        "inputSchema": _describe_input(tool),
        "outputSchema": {"type": "object", "properties": gives, "required": ["says", *tool.gives]},
        "annotations": {
            "readOnlyHint": tool.reads,
            "destructiveHint": tool.replaces,
            "idempotentHint": tool.reads or tool.repeats,
            "openWorldHint": False,
        },
    }


def _describe_input(tool: Tool) -> dict[str, Any]:
    properties = {"properties": dict(tool.takes), "required": list(tool.needs)}
    return {"type": "object", **properties, "additionalProperties": False}
