"""The seam to the framework: what is bound, what is configured, where to write.

Rules of this module:

1. The identity of a call is the bound tool. The name that the hook is told may be an
   alias, or belong to another call; it is only ever compared.
2. Servers, which `look_up` finds, are turned into plain views. Of the framework only the agent,
   the bound tool and the configuration that `look` reads are handed to rooms that do not import
   it. `gate` reads the tool's `agent` and `name`, `records` the agent's data and log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from agent import AgentContext
from helpers import files, plugins, projects
from helpers.mcp_handler import MCPConfig, MCPServerRemote, MCPTool, normalize_name
from helpers.responses_tools import original_tool_name
from helpers.tool import Tool

from .binding.alias import alias_of, is_alias, may_be_of
from .binding.headers import header_names, headers_digest, named_hosts
from .binding.pins import digest
from .binding.view import ServerView, View
from .defaults import layers_of_defaults
from .product import NAME as PLUGIN_NAME
from .settings.files import UNREADABLE
from .settings.in_force import MISREAD, UNREAD, Layer, layers_in_force
from .settings.presence import (
    GLOBAL_PLACES,
    Place,
    Stamp,
    is_broken,
    misread_places,
    places,
    stamp,
    stamps_at,
)

ALIAS_MAP_KEY: Final = "responses_tool_name_map"
TAKEN: Final = "_agent_guild_preflight_taken"
PARENT_CONTEXT_KEY: Final = "_parallel_parent_context_id"
MISSING_TOOL: Final = "Unknown"  # the class that the framework binds where there is no tool

# The same few names again and again, and each call needs one.
_normalized = lru_cache(maxsize=64)(normalize_name)

MAX_TOOLS: Final = 10_000  # of one server; a digest of each name takes 3 us
MAX_READINGS: Final = 4  # of settings that change while they are read
MAX_REMEMBERED: Final = 64  # agents' projects, profiles and plugins

# What stood at the places of settings at the end of the last reading, by whose places they are.
_seen: Final[dict[tuple[Any, ...], tuple[Stamp | None, ...]]] = {}

_ROOT: Final = files.get_abs_path("")  # the framework's folder, the same for a whole process


class Call(NamedTuple):
    """One tool call that may be protected.

    Attributes:
        agent: the calling agent.
        announced: the name the hook was told, its alias resolved.
        bound: the qualified name of the bound tool; None when none is bound.
        is_mcp: the bound tool is one of an MCP server.
        tool: the bound tool.
    """

    agent: Any
    announced: str
    bound: str | None
    is_mcp: bool
    tool: Any

    @property
    def names(self) -> tuple[str, ...]:
        """Every qualified name that the call may go by, the bound one first."""
        if self.bound is None or self.bound == self.announced:
            return (self.announced,)
        return self.bound, self.announced


def bound_call(agent: Any, tool_name: object) -> Call | None:
    """Tell a call that may be protected from a plain local one.

    A tool that is not found is bound as a local one of the same name, and two dispatches
    may interleave. So a local tool is plain only when no name of the call could be that of
    an MCP tool.

    Args:
        agent: the calling agent.
        tool_name: the name that the hook was told.

    Returns:
        The call; None when it can be none of an MCP server.
    """
    tool = getattr(getattr(agent, "loop_data", None), "current_tool", None)
    is_mcp = isinstance(tool, MCPTool)
    bound = None if tool is None else str(getattr(tool, "name", ""))
    announced = str(tool_name)
    if announced != bound or is_alias(announced):
        aliases = agent.get_data(ALIAS_MAP_KEY)
        known = aliases if isinstance(aliases, dict) else None
        announced = str(original_tool_name(announced, known))
    if not is_mcp and not any(_is_qualified(name) for name in (announced, bound or "")):
        return None
    return Call(agent, announced, bound, is_mcp, tool)


def _is_qualified(name: str) -> bool:
    return "." in name or is_alias(name)


def tool_behind(name: str, servers: Any) -> str | None:
    """Return the MCP tool whose alias a name is, as far as any server is known to have it.

    Args:
        name: any name.
        servers: the configuration of the calling agent. The framework makes its aliases from the
            global one, which is looked at as well.

    Returns:
        "server.tool"; None where the name is no alias, or that of a tool that nobody knows, or that
        stands behind the first `MAX_TOOLS` of a server.
    """
    if not is_alias(name):
        return None
    for server in (*servers.servers, *MCPConfig.get_instance().servers):
        if may_be_of(name, server.name):
            for tool in islice(server.get_tools(), MAX_TOOLS):
                qualified_name = f"{server.name}.{tool['name']}"
                if alias_of(qualified_name) == name:
                    return qualified_name
    return None


def is_local(tool: Any) -> bool:
    """Whether a bound tool is one of the framework itself, or of a plugin, that it has found."""
    is_missing = type(tool).__name__ == MISSING_TOOL
    return isinstance(tool, Tool) and not isinstance(tool, MCPTool) and not is_missing


def layers_for(agent: Any) -> tuple[Layer, ...]:
    """Read the settings that a call of an agent must satisfy.

    The framework looks for two files, one after the other, and takes for absent what it cannot
    follow. So what stands at the places is looked at after each reading, and has to be what stood
    there before it: at the end of the last one, or, the first time, just before.

    Args:
        agent: the calling agent; its project and profile choose the file in force.

    Returns:
        The layer of that file, then that of the floor, if there is one. `MISREAD` alone where the
        framework takes a path for a pattern; `UNREAD` alone where nobody can look, or where the
        files change as often as they are read.
    """
    project = projects.get_context_project_name(agent.context) or ""
    profile = agent.config.profile or ""
    try:
        whose = project, profile, tuple(plugins.get_enabled_plugin_paths(None))
    except Exception:  # whatever the framework raises over its files
        return (UNREAD,)
    at = places(_ROOT, *whose)
    if any(stamp(place.steps) is not None for place in misread_places(_ROOT, *whose)):
        return (MISREAD,)
    stamps = _seen.get(whose) or stamps_at(at)
    for _ in range(MAX_READINGS):
        layers = _read_layers(agent, at, stamps)
        before, stamps = stamps, stamps_at(at)
        if stamps == before:
            _remember(whose, stamps)
            return layers
    return (UNREAD,)


def _remember(whose: tuple[Any, ...], stamps: tuple[Stamp | None, ...]) -> None:
    if len(_seen) >= MAX_REMEMBERED:
        _seen.clear()
    _seen[whose] = stamps


def _read_layers(
    agent: Any, at: Sequence[Place], stamps: Sequence[Stamp | None]
) -> tuple[Layer, ...]:
    if stamps.count(None) == len(stamps):
        known = layers_of_defaults(agent, at)
        if known is not None:
            return known
    everywhere = stamps[-GLOBAL_PLACES:]
    return layers_in_force(
        UNREADABLE if is_broken(stamps) else _read(agent=agent),
        UNREADABLE if is_broken(everywhere) else _read(project_name="", agent_profile=""),
        normalize_name=normalize_name,
    )


def _read(**scope: Any) -> object:
    try:
        return plugins.get_plugin_config(PLUGIN_NAME, **scope)
    except Exception:  # malformed JSON or YAML, an unreadable file: whatever the loaders raise
        return UNREADABLE


def look(servers: Any, qualified_name: str, *, pinned: bool = False) -> View:
    """See what servers there are under the name that a call goes to.

    Args:
        servers: the framework's configuration.
        qualified_name: "server.tool"; the tool's part may hold dots.
        pinned: look at the tool's definition as well; it may change at any time, so nothing
            of it is remembered.

    Returns:
        The view.
    """
    server_name, _, tool_name = qualified_name.partition(".")
    seen = [
        _view(server, tool_name, pinned) for server in servers.servers if server.name == server_name
    ]
    return View(_normalized(server_name), tool_name, tuple(seen))


def concerned_agents(agent: Any) -> tuple[Any, ...]:
    """Return the agents with whom a decision is kept.

    Args:
        agent: the calling agent.

    Returns:
        The agent, and for a parallel child also the main agent of the parent chat: which
        agent of that chat asked for the child is not recorded.
    """
    parent_id = agent.context.get_data(PARENT_CONTEXT_KEY)
    parent = AgentContext.get(parent_id) if parent_id else None
    return (agent,) if parent is None else (agent, parent.agent0)


def take(tool: Any) -> bool:
    """Take the bound tool for one call.

    Two dispatches of one tool may interleave on an agent; then the hook of one finds the
    instance of the other, and only the other's hook can notice, by finding it taken.

    Args:
        tool: the bound tool; dispatchers make one for each call.

    Returns:
        False when a call has taken it before.
    """
    if TAKEN in vars(tool):
        return False
    setattr(tool, TAKEN, True)
    return True


def _view(server: Any, tool_name: str, pinned: bool) -> ServerView:
    headers = getattr(server, "headers", None)
    return ServerView(
        name=server.name,
        is_remote=isinstance(server, MCPServerRemote),
        url=str(getattr(server, "url", "")),
        transport=str(getattr(server, "type", "")),
        scope=str(getattr(server, "scope", "")),
        verifies_tls=getattr(server, "verify", None) is True,
        named_hosts=named_hosts(headers),
        headers_digest=headers_digest(headers),
        exposes_tool=bool(server.has_tool(tool_name)),
        definitions=_definitions(server, tool_name) if pinned else (),
        header_names=header_names(headers),
    )


def _definitions(server: Any, tool_name: str) -> tuple[str, ...]:
    return tuple([digest(tool) for tool in server.get_tools() if tool["name"] == tool_name])
