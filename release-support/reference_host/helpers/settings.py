"""The host's global settings, read from their file on every call."""

from __future__ import annotations

from typing import Any

from helpers import files

DEFAULTS: dict[str, Any] = {
    "mcp_servers": '{"mcpServers": {}}',  # JSON text
    "mcp_client_init_timeout": 10,  # seconds
    "mcp_client_tool_timeout": 120,  # seconds
}


def get_settings() -> dict[str, Any]:
    """Return the defaults, overlaid with usr/settings.json."""
    changed: dict[str, Any] = files.read_json(files.get_abs_path("usr", "settings.json"), {})
    return DEFAULTS | changed
