"""Which MCP servers does the framework find for an agent, and which does a call go to?

Rules of this module:

1. `servers_for` answers what the framework's own look-up answers now. In a project that takes
   15 ms, nearly all of it to gather settings that have nothing to do with servers. The framework
   keeps the servers that it has made of a project's merged settings; where these settings are
   the same now, letter by letter, it would answer with what it has kept, and so does
   `servers_for`. Where anything is not as known, or where somebody has wrapped one of the
   functions concerned, the framework is asked itself.
2. A tool that runs has the framework look its servers up once more, and an edit of the project
   in between would lead the call to a server that nobody has checked. So while a call is held
   (`Hold`), the look-up is answered with the servers that were checked. That answer is given in
   the context of the call only, for its agent only, and until the tool has answered: tasks and
   threads of others, and what outlives the call, get the framework's own.
3. What is held is a copy: an update of the global settings changes one object in place, and
   reaches no call that has been checked. The servers in it are the framework's own; whoever
   changes one of these in place is seen by comparing them when the tool has answered.
4. A tool that has never called the servers it was held to, because somebody has put another way
   in place, went nobody knows where; `Hold.was_called` tells.
5. Our function stands in front of the framework's only while calls are held.
"""

from __future__ import annotations

import copy
from contextvars import ContextVar
from typing import Any, Final

from helpers import mcp_handler, projects, settings
from helpers.mcp_handler import MCPConfig

from .seam import Seam, behind, was_written_in

LOOK_UP: Final = "get_for_agent"

# Where the framework keeps what it has made of a project's settings, and the settings.
KEPT_SERVERS: Final = "_MCPConfig__project_instances"
KEPT_SETTINGS: Final = "_settings"

_held: ContextVar[Hold | None] = ContextVar("agent_guild_preflight_held", default=None)


def servers_for(agent: Any) -> Any:
    """Look up the MCP configuration that the framework would use for an agent now.

    Args:
        agent: the calling agent; its project chooses the MCP settings.

    Returns:
        The framework's configuration, whatever this call or another holds.
    """
    look_up = behind(vars(MCPConfig)[LOOK_UP])
    kept = _kept_servers(agent, look_up)
    return look_up.__get__(None, MCPConfig)(agent) if kept is None else kept


def _kept_servers(agent: Any, look_up: Any) -> Any:
    """Return what the framework has kept and would answer with; None where nobody can tell."""
    try:
        name = projects.get_context_project_name(agent.context)
        if not name or not _is_known(look_up):
            return None
        name = projects.validate_project_name(name)
        _, merged = MCPConfig.merge_config_strings(
            getattr(settings, KEPT_SETTINGS)["mcp_servers"], projects.load_project_mcp_servers(name)
        )
        text, servers = getattr(MCPConfig, KEPT_SERVERS)[name]
    except Exception:  # another version of the framework, or no such project: it knows
        return None
    return servers if text == merged else None


def _is_known(look_up: Any) -> bool:
    """Whether the functions that look servers up are the framework's own."""
    return (
        was_written_in(mcp_handler, look_up)
        and was_written_in(mcp_handler, vars(MCPConfig)["get_project_instance"])
        and was_written_in(settings, settings.get_settings)
    )


class Hold:
    """Holds a call to the servers that were checked, from now on until it is released.

    Made and released in the context that the tool runs in.

    Attributes:
        servers: what the framework's look-up answers with, for this call.
        was_called: one of them has been called.
    """

    def __init__(self, agent: Any, servers: Any) -> None:
        """Begin to hold a call.

        Args:
            agent: whose look-ups are answered.
            servers: a configuration of the call's own, see `frozen`.
        """
        self.servers = servers
        self.was_called = False
        call_tool = servers.call_tool

        async def noted(*arguments: Any, **named: Any) -> Any:
            self.was_called = True
            return await call_tool(*arguments, **named)

        object.__setattr__(servers, "call_tool", noted)  # the framework's class lets nobody else
        self._agent = agent
        self._outer = _held.get()
        _seam.enter(self)
        _held.set(self)
        self._is_over = False

    def answers(self, agent: Any = None, **_: Any) -> bool:
        """Whether a look-up in this context is one of the call's."""
        return not self._is_over and agent is self._agent

    def release(self) -> None:
        """Let every look-up go to the framework again, also those of what outlives the call."""
        self._is_over = True
        _held.set(self._outer)
        _seam.leave(self)


def frozen(servers: Any) -> Any:
    """Return a copy of a configuration, which no update of the settings reaches."""
    found = copy.copy(servers)
    found.servers = list(servers.servers)
    return found


def _in_front_of(theirs: Any) -> Any:
    def get_for_agent(cls: type[Any], *arguments: Any, **named: Any) -> Any:
        hold = _held.get()
        if hold is not None and hold.answers(*arguments, **named):
            return hold.servers
        return theirs.__get__(None, cls)(*arguments, **named)

    return classmethod(get_for_agent)


_seam: Final = Seam(MCPConfig, LOOK_UP, _in_front_of)
