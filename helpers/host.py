"""The one seam to the framework: what is bound, what is configured, where to write.

Rules of this module:

1. The identity of a call is the bound tool. The name that the hook is told may be an
   alias, or belong to another call; it is only ever compared.
2. Servers are looked up as the framework itself does when the tool runs, and turned into
   a plain view at once; nothing of the framework goes further into the gate, except the
   agent itself.
3. Header values decide where a call goes, so a view changes with them; they are secrets,
   so only a keyed digest of them is kept, and the key dies with the process.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from helpers import plugins
from helpers.mcp_handler import MCPConfig, MCPServerRemote, MCPTool, normalize_name
from helpers.responses_tools import original_tool_name

from . import configuration
from .binding import ServerView, View
from .configuration import Configuration, InvalidConfiguration, Problem

PLUGIN_NAME: Final = "agent_guild_preflight"
ALIAS_MAP_KEY: Final = "responses_tool_name_map"

# Headers by which a server or a proxy in front of it may choose another host.
HOST_HEADERS: Final = frozenset(
    {
        "host",
        ":authority",
        "forwarded",
        "x-forwarded-host",
        "x-forwarded-server",
        "x-host",
        "x-original-host",
    }
)

_DIGEST_KEY: Final = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call that may be protected.

    Attributes:
        agent: the calling agent.
        announced: the name the hook was told, its alias resolved.
        bound: the qualified name of the bound tool; None when none is bound.
        is_mcp: the bound tool is one of an MCP server.
    """

    agent: Any
    announced: str
    bound: str | None
    is_mcp: bool

    @property
    def may_be_mcp(self) -> bool:
        """One of the names is that of an MCP tool, or has the form of one."""
        return self.is_mcp or "." in self.announced

    @property
    def is_consistent(self) -> bool:
        """The announced and the bound tool are the same."""
        return self.announced == self.bound

    @property
    def names(self) -> tuple[str, ...]:
        """Every qualified name that the call may go by, the bound one first."""
        names = (self.bound, self.announced)
        return tuple(dict.fromkeys(name for name in names if name is not None))


def bound_call(agent: Any, tool_name: object) -> Call | None:
    """Tell a call that may be protected from a plain local one.

    Args:
        agent: the calling agent.
        tool_name: the name that the hook was told.

    Returns:
        The call; None when the bound tool is the announced one and not of an MCP server.
    """
    tool = getattr(getattr(agent, "loop_data", None), "current_tool", None)
    is_mcp = isinstance(tool, MCPTool)
    bound = None if tool is None else str(getattr(tool, "name", ""))
    if tool_name == bound and not is_mcp:
        return None
    announced = str(tool_name)
    if announced != bound:
        aliases = agent.get_data(ALIAS_MAP_KEY)
        announced = str(
            original_tool_name(announced, aliases if isinstance(aliases, dict) else None)
        )
    if announced == bound and not is_mcp:
        return None
    return Call(agent=agent, announced=announced, bound=bound, is_mcp=is_mcp)


def read_configuration(agent: Any) -> Configuration:
    """Read the settings in force for an agent.

    Args:
        agent: the calling agent; its project and profile choose the file.

    Returns:
        The validated settings.

    Raises:
        InvalidConfiguration: the file cannot be read or does not validate.
    """
    try:
        raw = plugins.get_plugin_config(PLUGIN_NAME, agent=agent)
    except Exception:  # malformed JSON or YAML, an unreadable file: whatever the loaders raise
        unreadable = True
    else:
        unreadable = False
    if unreadable:
        raise InvalidConfiguration((("", Problem.UNREADABLE),), None)
    return configuration.parse(raw, normalize_name=normalize_name)


def local_service(settings: Configuration) -> str | None:
    """Give the local preflight service in force.

    A project's file must not be able to choose who is asked, so the service counts only
    when the global file names it too.

    Args:
        settings: the settings in force.

    Returns:
        Its origin, or None: the public service is in force.
    """
    origin = settings.fixture_guild_origin
    if origin is None:
        return None
    everywhere = plugins.get_plugin_config(PLUGIN_NAME, project_name="", agent_profile="")
    return origin if configuration.local_origin(everywhere) == origin else None


def look(agent: Any, qualified_name: str) -> View:
    """See what servers there are under the name that a call goes to.

    Args:
        agent: the calling agent; its project chooses the MCP settings.
        qualified_name: "server.tool"; the tool's part may hold dots.

    Returns:
        The view.
    """
    server_name, _, tool_name = qualified_name.partition(".")
    servers = MCPConfig.get_for_agent(agent).servers
    return View(
        server=normalize_name(server_name),
        tool=tool_name,
        servers=tuple(_view(server, tool_name) for server in servers if server.name == server_name),
    )


def _view(server: Any, tool_name: str) -> ServerView:
    headers = getattr(server, "headers", None) or {}
    return ServerView(
        name=server.name,
        is_remote=isinstance(server, MCPServerRemote),
        url=str(getattr(server, "url", "")),
        transport=str(getattr(server, "type", "")),
        scope=str(getattr(server, "scope", "")),
        verifies_tls=getattr(server, "verify", None) is True,
        named_hosts=_named_hosts(headers),
        headers_digest=_digest(headers),
        exposes_tool=bool(server.has_tool(tool_name)),
    )


def _named_hosts(headers: Mapping[object, object]) -> tuple[str, ...]:
    return tuple(
        str(value).strip().lower()
        for name, value in headers.items()
        if str(name).strip().lower() in HOST_HEADERS
    )


def _digest(headers: Mapping[object, object]) -> bytes:
    text = repr([(str(name), str(value)) for name, value in headers.items()])
    return blake2b(
        text.encode("utf-8", "backslashreplace"), digest_size=16, key=_DIGEST_KEY
    ).digest()
