"""Tools that run in the host itself, and what every tool has in common."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers import files, modules

if TYPE_CHECKING:
    from agent import Agent, LoopData
    from helpers.log import LogItem


@dataclass
class Response:
    """What a tool gives back; `break_loop` ends the agent's run with it."""

    message: str
    break_loop: bool
    additional: dict[str, Any] | None = None


class Tool(ABC):
    """One call of one tool."""

    def __init__(
        self,
        agent: Agent,
        name: str,
        method: str | None,
        args: dict[str, Any],
        message: str,
        loop_data: LoopData | None,
        **kwargs: Any,
    ):
        self.agent = agent
        self.name = name
        self.method = method
        self.args = args
        self.message = message
        self.loop_data = loop_data
        self.log: LogItem | None = None

    @abstractmethod
    async def execute(self, **kwargs: Any) -> Response:
        """Do the work."""

    async def before_execution(self, **kwargs: Any) -> None:
        """Tell the operator that the call begins."""
        self.log = self.get_log_object()

    async def after_execution(self, response: Response, **kwargs: Any) -> None:
        """Tell the model and the operator what came of it."""
        self.agent.hist_add_tool_result(self.name, response.message, **(response.additional or {}))
        if self.log:
            self.log.update(content=response.message)

    def get_log_object(self) -> LogItem:
        """Return a log entry of the type that fits this tool."""
        return self.agent.context.log.log(
            type="tool",
            heading=f"{self.agent.agent_name}: Using tool '{self.name}'",
            kvps=self.args,
        )


class ResponseTool(Tool):
    """Ends the run with an answer to the user."""

    async def execute(self, text: str = "", **kwargs: Any) -> Response:
        return Response(message=text, break_loop=True)


class Unknown(Tool):
    """Stands in for a tool that does not exist, so that the model learns of it."""

    async def execute(self, **kwargs: Any) -> Response:
        return Response(message=f"Tool '{self.name}' does not exist.", break_loop=False)


def find_tool_class(name: str) -> type[Tool]:
    """Return the class of a local tool, `Unknown` when there is none."""
    # The name is a model's text: only a plain one may become part of a path.
    if re.fullmatch(r"\w+", name, re.ASCII):
        path = files.get_abs_path("usr", "tools", f"{name}.py")
        found = modules.load_last_subclass(path, Tool) if os.path.isfile(path) else None
        if found:
            return found
    return ResponseTool if name == "response" else Unknown
