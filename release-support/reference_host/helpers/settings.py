"""The host's global settings: read from their file once, and kept until `reload_settings`.

Every `get_settings` makes a new object of what is kept, as the framework does, which spends
milliseconds on it.
"""

from __future__ import annotations

from typing import Any

from helpers import files

DEFAULTS: dict[str, Any] = {
    "mcp_servers": '{"mcpServers": {}}',  # JSON text
    "mcp_client_init_timeout": 10,  # seconds
    "mcp_client_tool_timeout": 120,  # seconds
}

_settings: dict[str, Any] | None = None


def get_settings() -> dict[str, Any]:
    """Return the defaults, overlaid with usr/settings.json as it was when it was read."""
    global _settings
    if not _settings:
        changed: dict[str, Any] = files.read_json(files.get_abs_path("usr", "settings.json"), {})
        _settings = DEFAULTS | changed
    return dict(_settings)


def reload_settings() -> dict[str, Any]:
    """Read the settings anew."""
    global _settings
    _settings = None
    return get_settings()
