"""The reference host: the seams of Agent Zero that a plugin meets, small enough to read in one
sitting.

It exists so that a plugin, its tests and its demonstration run where the framework is not: contexts
and agents, the two tool dispatchers, the parallel worker, extensions, scoped plugin configuration,
projects, MCP through the real client SDK, and the saving of chats. Public names and observable
behaviour follow the framework; the code was written independently of it, from a description of that
behaviour.

Left out: prompts, model providers and streaming; memory, knowledge, scheduler, skills and the web
interface; secrets and their masking; the framework's tool policy; tools other than `response` (no
code execution, no in-chat `call_subordinate`, no `parallel` tool around the parallel worker); the
forgiving parser for broken JSON; reloading of changed plugin code; the compressing of history. A
call from a running loop that has to connect to MCP servers blocks that loop, where the framework
lets it go on.

Its modules keep the framework's own shape, so that a plugin finds each name where the framework has
it. The framework's modules import each other in a circle (agent, extension, mcp_handler, plugins,
projects, tool and others), and so do these; the rules of the plugin's own rooms hold for those only.

The state lives below the folder that the environment variable REFERENCE_HOST_ROOT names. This
folder must come first on `sys.path`; the state root must be on it too, for
`usr.plugins.<name>.helpers.<room>`.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from helpers.errors import InterventionException, RepairableException, format_error
from helpers.extension import call_extensions_async
from helpers.extract_tools import parse_tool_request
from helpers.history import History, Message
from helpers.llm_result import LLMResult, parse_arguments
from helpers.log import Log
from helpers.mcp_handler import MCPConfig
from helpers.responses_tools import original_tool_name
from helpers.tool import Response, Tool, find_tool_class

PAUSE_POLL_SECONDS = 0.05
MISFORMAT_WARNING = "The message is not a tool request: it must be one JSON object with `tool_name` and `tool_args`."


class AgentContextType(Enum):
    """Who a context is for."""

    USER = "user"
    TASK = "task"
    BACKGROUND = "background"


@dataclass
class AgentConfig:
    """What an agent is set up with."""

    mcp_servers: str
    profile: str = ""


@dataclass
class UserMessage:
    """What the user said."""

    message: str
    attachments: list[str] = field(default_factory=list)


class LoopData:
    """The state of one turn; any field may be given or added."""

    def __init__(self, **kwargs: Any):
        self.iteration = 0
        self.user_message: Message | None = None
        self.params_temporary: dict[str, Any] = {}
        self.params_persistent: dict[str, Any] = {}
        self.current_tool: Tool | None = None
        for key, value in kwargs.items():
            setattr(self, key, value)


class AgentContext:
    """A chat: its agents, its data and its log."""

    _contexts: dict[str, AgentContext] = {}

    def __init__(
        self,
        config: AgentConfig,
        id: str | None = None,
        name: str | None = None,
        type: AgentContextType = AgentContextType.USER,
    ):
        self.id = id or uuid.uuid4().hex[:8]
        self.name = name
        self.type = type
        self.config = config
        self.data: dict[str, Any] = {}
        self.output_data: dict[str, Any] = {}
        self.log = Log()
        self.paused = False
        self.task: Any = None
        self.streaming_agent: Agent | None = None
        self.agent0 = Agent(0, config, self)
        AgentContext._contexts[self.id] = self

    @staticmethod
    def get(id: str) -> AgentContext | None:
        """Return the living context of that id."""
        return AgentContext._contexts.get(id)

    @staticmethod
    def remove(id: str) -> AgentContext | None:
        """Forget a context."""
        return AgentContext._contexts.pop(id, None)

    @staticmethod
    def all() -> list[AgentContext]:
        """Return every living context."""
        return list(AgentContext._contexts.values())

    def reset(self) -> None:
        """Begin anew with a fresh agent and an empty log; the context's own data stays."""
        self.log.reset()
        self.paused = False
        self.streaming_agent = None
        self.agent0 = Agent(0, self.config, self)

    def get_data(self, key: str) -> Any:
        """Return a value that is saved with the chat."""
        return self.data.get(key)

    def set_data(self, key: str, value: Any) -> None:
        """Keep a value with the chat."""
        self.data[key] = value

    def get_output_data(self, key: str) -> Any:
        """Return a value that is shown with the chat."""
        return self.output_data.get(key)

    def set_output_data(self, key: str, value: Any) -> None:
        """Show a value with the chat."""
        self.output_data[key] = value


class Agent:
    """One agent of a context.

    `loop_data` is set by whoever begins a turn, not here.
    """

    DATA_NAME_SUPERIOR = "_superior"
    DATA_NAME_SUBORDINATE = "_subordinate"
    DATA_NAME_RESPONSES_TOOL_NAME_MAP = "responses_tool_name_map"

    model: Callable[[Agent], Any] | None = None
    """Gives an `LLMResult`, awaitable or not; a context's data `_model` comes before it."""

    loop_data: LoopData

    def __init__(self, number: int, config: AgentConfig, context: AgentContext):
        self.number = number
        self.agent_name = f"A{number}"
        self.config = config
        self.context = context
        self.history = History()
        self.data: dict[str, Any] = {}
        self.intervention: UserMessage | None = None

    def get_data(self, key: str) -> Any:
        """Return a value that is saved with the agent."""
        return self.data.get(key)

    def set_data(self, key: str, value: Any) -> None:
        """Keep a value with the agent."""
        self.data[key] = value

    # History

    def hist_add_message(self, ai: bool, content: Any, **kwargs: Any) -> Message:
        """Add a message as it is."""
        return self.history.add_message(ai, content, **kwargs)

    def hist_add_user_message(self, message: UserMessage) -> Message:
        """Add what the user said."""
        return self.hist_add_message(
            False, {"user_message": message.message, "attachments": message.attachments}
        )

    def hist_add_warning(self, message: Any) -> Message:
        """Add a warning from the host."""
        return self.hist_add_message(False, {"system_warning": message})

    def hist_add_tool_result(
        self,
        tool_name: str,
        tool_result: str,
        responses_item: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Message:
        """Add what a tool gave back; `responses_item` is kept beside the content, not in it."""
        content = {"tool_name": tool_name, "tool_result": tool_result, **kwargs}
        return self.hist_add_message(False, content, responses_item=responses_item)

    # The loop

    async def monologue(self) -> str:
        """Turn after turn until a tool's result, or a plain answer, ends the run."""
        self.loop_data = LoopData()
        self.context.streaming_agent = self
        while True:
            self.loop_data.iteration += 1
            try:
                result = await self._ask_model()
                if result.response:
                    self.hist_add_message(True, result.response)
                answer = await self.process_llm_result_tools(result)
                if answer is not None:
                    return answer
            except InterventionException:
                continue
            except Exception as error:
                await self.handle_exception("message_loop", error)

    async def _ask_model(self) -> LLMResult:
        model = self.context.data.get("_model") or type(self).model
        if model is None:
            raise RuntimeError("no model: set Agent.model or the context's data '_model'")
        given = model(self)
        result: LLMResult = await given if inspect.isawaitable(given) else given
        return result

    async def handle_intervention(self) -> None:
        """Wait while the context is paused, and leave the turn when the user spoke."""
        while self.context.paused:
            await asyncio.sleep(PAUSE_POLL_SECONDS)
        if self.intervention:
            message, self.intervention = self.intervention, None
            self.hist_add_user_message(message)
            raise InterventionException(message.message)

    async def handle_exception(self, location: str, exception: Exception) -> None:
        """Show a repairable error to the model and the operator; let every other one go on its
        way."""
        if not isinstance(exception, RepairableException):
            raise exception
        message = format_error(exception)
        self.hist_add_warning(message)
        self.context.log.log(type="warning", content=message)

    # Dispatch

    async def process_llm_result_tools(self, llm_result: LLMResult) -> str | None:
        """Run the turn's native calls in order; without any, its text.

        A result ends the run.
        """
        if not llm_result.function_calls:
            text = llm_result.response
            return await self.process_tools(text) if parse_tool_request(text) else text
        name_map = self.get_data(self.DATA_NAME_RESPONSES_TOOL_NAME_MAP)
        for call in llm_result.function_calls:
            answer = await self._execute_tool_request(
                original_tool_name(call.name, name_map),
                parse_arguments(call.arguments),
                llm_result.response,
                raw_tool_name=call.name,
                responses_item_factory=_output_factory(call.call_id),
            )
            # An exception leaves the loop here: the turn's later calls are not made.
            if answer is not None:
                return answer
        return None

    async def _execute_tool_request(
        self,
        tool_name: str,
        tool_args: dict[str, Any],
        message: str,
        raw_tool_name: str = "",
        responses_item_factory: Callable[[str], dict[str, Any]] | None = None,
    ) -> str | None:
        """Dispatch one native call; an MCP tool's own `args` stay empty."""
        tool = self._resolve_tool(tool_name or raw_tool_name, None, tool_args, message)
        response = await self._run_tool(tool, tool_name, tool_args, responses_item_factory)
        return response.message if response.break_loop else None

    async def process_tools(self, text: str) -> str | None:
        """Dispatch the one call that a legacy text is; the hooks are told the name as it is
        written."""
        request = parse_tool_request(text)
        if request is None:
            self.hist_add_warning(MISFORMAT_WARNING)
            return None
        tool_name, tool_args = request
        tool_name, _, action = tool_name.partition(":")
        if action:
            tool_args.setdefault("action", action)
        tool = self._resolve_tool(tool_name, action or None, tool_args, text)
        tool.args = tool_args
        response = await self._run_tool(tool, tool_name, tool_args)
        return response.message if response.break_loop else None

    def get_tool(
        self,
        name: str,
        method: str | None,
        args: dict[str, Any],
        message: str,
        loop_data: LoopData | None,
    ) -> Tool:
        """Return a local tool; an `Unknown` one for a name that does not exist."""
        tool_class = find_tool_class(name)
        return tool_class(
            agent=self, name=name, method=method, args=args, message=message, loop_data=loop_data
        )

    def _resolve_tool(
        self, name: str, method: str | None, args: dict[str, Any], message: str
    ) -> Tool:
        try:
            mcp_tool = MCPConfig.get_instance().get_tool(self, name)
        except Exception:
            mcp_tool = None  # a broken MCP configuration must not take the local tools away
        return mcp_tool or self.get_tool(name, method, args, message, self.loop_data)

    async def _run_tool(
        self,
        tool: Tool,
        tool_name: str,
        tool_args: dict[str, Any],
        responses_item_factory: Callable[[str], dict[str, Any]] | None = None,
    ) -> Response:
        """Return the sequence that every dispatcher follows.

        Two of them may interleave on one agent.
        """
        self.loop_data.current_tool = tool
        try:
            await self.handle_intervention()
            await tool.before_execution(**tool_args)
            await self.handle_intervention()
            await call_extensions_async(
                "tool_execute_before", self, tool_args=tool_args or {}, tool_name=tool_name
            )
            response = await tool.execute(**tool_args)
            await self.handle_intervention()
            await call_extensions_async(
                "tool_execute_after", self, response=response, tool_name=tool_name
            )
            if responses_item_factory:
                item = responses_item_factory(response.message)
                response.additional = {**(response.additional or {}), "responses_item": item}
            await tool.after_execution(response)
            return response
        finally:
            self.loop_data.current_tool = None


def _output_factory(call_id: str) -> Callable[[str], dict[str, Any]]:
    """Makes the function output that answers one native call."""
    return lambda output: {"type": "function_call_output", "call_id": call_id, "output": output}
