"""Projects: a folder of an operator's files that a context may work in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from helpers import files

if TYPE_CHECKING:
    from agent import AgentContext

NO_MCP_SERVERS = '{"mcpServers": {}}'


def get_context_project_name(context: AgentContext) -> str | None:
    """Return the project that a context works in."""
    name: str | None = context.get_data("project")
    return name


def validate_project_name(name: str | None) -> str:
    """Return a name that can be that of a folder; a `ValueError` for any other."""
    candidate = (name or "").strip()
    if candidate in ("", ".", "..") or os.path.basename(candidate) != candidate:
        raise ValueError("no name of a project")
    return candidate


def get_project_meta(name: str, *sub: str) -> str:
    """Return a path below the project's folder of settings."""
    return files.get_abs_path("usr", "projects", name, ".a0proj", *sub)


def load_project_mcp_servers(name: str) -> str:
    """Return the project's MCP configuration as JSON text."""
    path = get_project_meta(name, "mcp_servers.json")
    if not os.path.isfile(path):
        return NO_MCP_SERVERS
    with open(path, encoding="utf-8") as file:
        return file.read()
