"""How is a call checked as its tool begins to run, and again when it has run?

Rules of this module:

1. What is checked is checked in front of everything that the tool does, and for this call only.
2. Two dispatches of one tool may interleave on an agent; then the hook of one finds the instance
   that the other will run. So the check waits in two places: on the instance that the hook has
   found, and, in the context of the call, for any other instance of the same tool and agent.
3. Our function stands in front of the framework's from the hook until the tool begins. Where the
   tool never begins, it lets everything else through until the call is gone from memory and the
   next protected call takes it away.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from helpers.mcp_handler import MCPTool

from .look_up import Hold
from .seam import Seam

EXECUTE: Final = "execute"


def around_execution(tool: Any, before: Callable[[], Hold], after: Callable[[Hold], None]) -> None:
    """Have something checked as the tool of this call begins to run, and again when it has run.

    Args:
        tool: the bound tool, as the hook has found it.
        before: runs first of all, and holds the call to what it has checked; what it raises
            leaves the dispatcher, and nothing is sent.
        after: runs when the tool has answered; what it raises takes the answer's place.
    """
    check = _Check(tool, before, after)
    check.put_before(tool, tool.execute)
    _due.set(check)
    _seam.enter(check)


def forget() -> None:
    """Let no check wait that an earlier call of this context has left.

    Its tool has never begun, since a later hook has refused it; whatever runs now is another call.
    """
    _due.set(None)


class _Check:
    """What a call is checked by, until its tool begins and each time that it does."""

    def __init__(
        self, tool: Any, before: Callable[[], Hold], after: Callable[[Hold], None]
    ) -> None:
        self._agent = tool.agent
        self._name = tool.name
        self._before = before
        self._after = after

    def is_for(self, tool: Any) -> bool:
        """Whether an instance is one of the tool that was judged."""
        return tool.agent is self._agent and tool.name == self._name

    def put_before(self, tool: Any, execute: Callable[..., Any]) -> Callable[..., Any]:
        """Put the check in front of what an instance does; return what does both.

        Args:
            tool: the instance.
            execute: what it does.
        """

        async def execute_checked(**arguments: Any) -> Any:
            self._begin()
            hold = self._before()
            try:
                response = await execute(**arguments)
            finally:
                hold.release()
            self._after(hold)
            return response

        tool.execute = execute_checked
        return execute_checked

    def _begin(self) -> None:
        """Wait for no instance any more."""
        if _due.get() is self:
            _due.set(None)
        _seam.leave(self)


def _in_front_of(theirs: Callable[..., Any]) -> Callable[..., Any]:
    async def execute(self: Any, **arguments: Any) -> Any:
        run = theirs.__get__(self)
        check = _due.get()
        if check is not None and check.is_for(self):
            run = check.put_before(self, run)
        return await run(**arguments)

    return execute


_due: Final[ContextVar[_Check | None]] = ContextVar("agent_guild_preflight_due", default=None)
_seam: Final = Seam(MCPTool, EXECUTE, _in_front_of)
