"""The hook in front of every tool call; hands it to the gate and does nothing else.

45: after the framework has put secrets into the arguments (10), before other plugins'
hooks (50 by convention), so that nothing they do is spent on a call that is refused.

A hook that fails to import makes every tool of the framework fail. So where the gate cannot be
had, MCP tools are refused, in a word of `_wrong`, and local tools go on. The framework keys
settings by the folder's name; under another one the gate would look for them elsewhere.
"""

from pathlib import Path
from typing import Any

from helpers.errors import RepairableException
from helpers.extension import Extension
from helpers.mcp_handler import MCPTool

NAME = "agent_guild_preflight"
PACKAGES = ("httpx", "yaml", "mcp")
DIGITS = frozenset("0123456789abcdef")  # an alias ends with _ and eight of them


class GuildPreflightError(RepairableException):
    """An MCP call was refused because the gate cannot run; see `helpers/denial.py`."""

    __traceback__ = property(lambda _: None, lambda *_: None)
    __cause__ = property(lambda _: None, lambda *_: None)
    __context__ = property(lambda _: None, lambda *_: None)


def _wrong(error: Exception) -> str:
    """Return what keeps the gate from being imported, in one of a few words."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    package = missing.partition(".")[0]
    if package in PACKAGES:
        return f"package_missing ({package})"
    return "plugin_incomplete" if package == "usr" else "plugin_broken"


def _refusing(wrong: str) -> Any:
    async def guard(agent: Any, tool_name: object) -> None:
        tool = getattr(getattr(agent, "loop_data", None), "current_tool", None)
        told, bound = str(tool_name), str(getattr(tool, "name", ""))
        is_alias = told != bound and told[-9:-8] == "_" and DIGITS.issuperset(told[-8:])
        if isinstance(tool, MCPTool) or is_alias or "." in told or "." in bound:
            raise GuildPreflightError(
                f"Agent Guild preflight refused this call: {wrong}. Next step: operator. "
                "Do not repeat this call; only the operator can change this. Tell the user. "
                "Local tools are not concerned."
            )

    return guard


if Path(__file__).parents[3].name != NAME:
    guard = _refusing("folder_name")
else:
    try:
        from usr.plugins.agent_guild_preflight.helpers.gate import guard
    except Exception as failed:
        guard = _refusing(_wrong(failed))


class AgentGuildPreflight(Extension):
    async def execute(self, tool_name: str = "", **kwargs: Any) -> None:
        await guard(self.agent, tool_name)
