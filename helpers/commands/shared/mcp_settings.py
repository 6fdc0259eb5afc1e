"""The MCP servers that the settings name, read as data.

Rules of this module:

1. A project's servers lie over the global ones, by normalised name, as the framework merges
   them; without a project two names that normalise alike stay two servers.
2. Nothing is connected to, so which tools a server exposes is not known here.
3. Header values are secrets: they are kept for the binding and for `pin`, and never shown.
4. The framework reads its settings with a lenient parser, this room with a strict one. What
   only the lenient one can read is reported, never guessed.

Sources: the framework's `MCPConfig.normalize_config`, `merge_config_strings` and `__init__`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ...binding.headers import header_names, headers_digest, named_hosts
from ...binding.view import ServerView, View
from ...settings.files import read_json, read_text
from ...settings.locations import Locations, normalize_name


@dataclass(frozen=True, slots=True)
class McpServer:
    """One configured MCP server.

    Attributes:
        name: as it is written.
        where: the file that names it.
        raw: all that the file says of it.
    """

    name: str
    where: Path
    raw: Mapping[str, Any]

    @property
    def normalized(self) -> str:
        return normalize_name(self.name)

    @property
    def is_remote(self) -> bool:
        """It has a URL, under either key."""
        return bool(self.raw.get("url") or self.raw.get("serverUrl"))

    @property
    def url(self) -> str:
        """The URL; of the two keys the later one counts. Empty for a local server."""
        urls = [self.raw[key] for key in self.raw if key in ("url", "serverUrl")]
        return str(urls[-1]) if self.is_remote else ""

    @property
    def is_disabled(self) -> bool:
        return bool(self.raw.get("disabled", False))

    def view(self) -> ServerView:
        """Return the server as the binding sees it; its tools are taken to be there."""
        headers = self.raw.get("headers")
        return ServerView(
            name=self.normalized,
            is_remote=self.is_remote,
            url=self.url,
            transport=str(self.raw.get("type", "sse")),
            scope="",
            verifies_tls=self.raw.get("verify", True) is True,
            named_hosts=named_hosts(headers),
            headers_digest=headers_digest(headers),
            exposes_tool=True,
            header_names=header_names(headers),
        )


@dataclass(frozen=True)
class McpSettings:
    """What the MCP settings name for one agent.

    Attributes:
        servers: every server, disabled ones too.
        unreadable: the files that a strict parser cannot read.
    """

    servers: tuple[McpServer, ...]
    unreadable: tuple[Path, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[McpServer]]:
        """Every server by its normalised name, in the order of the settings."""
        found: dict[str, list[McpServer]] = {}
        for server in self.servers:
            found.setdefault(server.normalized, []).append(server)
        return found

    def live(self, name: str) -> list[McpServer]:
        """Return the servers of a normalised name that are not disabled."""
        return [server for server in self.by_name.get(name, ()) if not server.is_disabled]

    def view(self, name: str) -> View:
        """Return what there is under a normalised name, without any tool."""
        return View(name, "", tuple(server.view() for server in self.live(name)))


def read_mcp_settings(locations: Locations) -> McpSettings:
    """Read the MCP servers that are configured for an agent.

    Args:
        locations: the Agent Zero folder, with the agent's project.

    Returns:
        The servers, and which files could not be read.
    """
    everywhere = locations.root / "usr" / "settings.json"
    of_project = locations.project_folder / "mcp_servers.json"
    unreadable = []
    servers: list[McpServer] = []
    settings = read_json(everywhere) if os.path.exists(everywhere) else {}
    try:
        text = settings.get("mcp_servers") or "" if isinstance(settings, dict) else None
        servers = _servers(text, everywhere)
    except ValueError:
        unreadable.append(everywhere)
    if locations.project:
        merged = {server.normalized: server for server in servers}
        try:
            text = read_text(of_project) if os.path.exists(of_project) else ""
            merged |= {server.normalized: server for server in _servers(text, of_project)}
        except ValueError:
            unreadable.append(of_project)
        servers = list(merged.values())
    return McpSettings(tuple(servers), tuple(unreadable))


def _servers(text: object, where: Path) -> list[McpServer]:
    """Read one list of servers.

    Raises:
        ValueError: it is no JSON text of the form that the framework documents.
    """
    if not isinstance(text, str):
        raise ValueError("the MCP settings are no text")
    if not text.strip():
        return []
    try:
        parsed = json.loads(text)
    except RecursionError:
        raise ValueError("the MCP settings are nested too deeply") from None
    return [
        McpServer(str(raw["name"]), where, raw)
        for raw in _normalized(parsed)
        if raw.get("name") not in (None, "")
    ]


def _normalized(parsed: Any) -> list[dict[str, Any]]:
    """Return a list of servers, each with its name, in whichever form they are written."""
    if isinstance(parsed, dict) and "mcpServers" not in parsed:
        return [parsed]  # a single server
    listed = parsed["mcpServers"] if isinstance(parsed, dict) else parsed
    if isinstance(listed, dict):
        return [{**raw, "name": name} for name, raw in listed.items() if isinstance(raw, dict)]
    return [raw for raw in listed if isinstance(raw, dict)] if isinstance(listed, list) else []
