"""Native function calls: providers allow plain names only, so other tools get an alias."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from helpers import mcp_handler  # as a module: the two rooms need each other

if TYPE_CHECKING:
    from agent import Agent

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SLUG_LENGTH = 52  # characters: with "_" and 8 hex digits an alias stays below 64


def original_tool_name(native_name: str, name_map: dict[str, str] | None) -> str:
    """Return the tool that a native name stands for; a name that is no alias is its own."""
    return (name_map or {}).get(native_name, native_name)


def build_responses_function_tools(agent: Agent) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the MCP tools as function definitions, and the map from native to original names.

    They are those of the global servers, whatever project the agent works in.
    """
    tools: list[dict[str, Any]] = []
    name_map: dict[str, str] = {}
    for server_tool in mcp_handler.MCPConfig.get_instance().get_tools():
        for name, tool in server_tool.items():
            native = _native_name(name)
            name_map[native] = name
            tools.append(
                {
                    "type": "function",
                    "name": native,
                    "description": tool["description"] or name,
                    "parameters": tool["input_schema"],
                }
            )
    return tools, name_map


def _native_name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_SLUG_LENGTH]
    digest = hashlib.sha1(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{slug or 'a0_tool'}_{digest}"
