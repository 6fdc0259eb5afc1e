"""A host without a network, in which one schedule after another is played.

Rules of this module:

1. What runs is real: the host's dispatchers, extensions, MCP look-ups and scoped configuration, the
   hook, the gate and all its rooms, the contract, the cache and the shared requests.
2. What is replaced: `network` and `hosts` say by what; beside them local tools, by one that only
   notes that it ran, and the chat's history, by what was shown last.
3. Before each schedule everything is as it was before the first.

Import it only after `boot` and `awaits.install`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from agent import Agent, AgentConfig, AgentContext, LoopData
from helpers import extension, mcp_handler, plugins, projects, settings
from helpers.llm_result import LLMResult, ResponseItem
from helpers.mcp_handler import MCPConfig
from helpers.tool import Response, Tool

from ..boot import PLUGIN
from . import awaits, hosts
from .generations import ROOMS, Generations
from .ledger import Ledger, Read
from .network import Network, Service, moment, point
from .scheduler import Scheduler
from .schedules import Choose

SECOND_NS: Final = 1_000_000_000
DECISIONS: Final = f"{PLUGIN}.decisions"
PROJECT: Final = "harbour"

# Local tools; no digest of a tool that a server of the scenes has is the second one's.
LIKE_AN_ALIAS: Final = "notes_0a1b2c3d"
LOCAL_TOOLS: Final = ("memo", LIKE_AN_ALIAS)


class World:
    """The host, its operator's files, and one chat with one agent.

    Attributes:
        ledger: what happened in the current schedule.
        scheduler: the one of the current schedule.
        ran: the calls whose local tool has run.
    """

    def __init__(self, root: Path, network: Network) -> None:
        self.root, self.network = root, network
        self.scheduler = Scheduler(network.loop, lambda _: 0)
        self.ran: list[str] = []
        self._settings: dict[str, Any] = {**settings.get_settings()}
        self._files: dict[Path, str | None] = {}
        self._writes = 0
        project = root / "usr" / "projects" / PROJECT / ".a0proj"
        self._config = root / "usr" / "plugins" / PLUGIN / "config.json"
        self._project_config = project / "plugins" / PLUGIN / "config.json"
        self._project_mcp = project / "mcp_servers.json"
        self._install()
        self.context = AgentContext(config=AgentConfig(mcp_servers="", profile="agent0"))
        self.agent = self.context.agent0
        self._watch_agent()
        MCPConfig.update(_mcp_text({}))
        self.generations = Generations(self._find_hook, (MCPConfig, mcp_handler.MCPTool, Agent))

    @property
    def ledger(self) -> Ledger:
        return self.network.ledger

    @property
    def caller(self) -> str:
        """The name of the dispatch whose step it is; empty when it is nobody's."""
        running = self.scheduler.running
        return running.name if running else ""

    # Before a schedule

    def reset(
        self,
        choose: Choose,
        config: object,
        servers: Mapping[str, str],
        project: Mapping[str, Any] | None,
        service: Service,
    ) -> Scheduler:
        """Make everything as before the first schedule, and begin one.

        Args:
            choose: chooses who takes the next step.
            config: our global config.json; None for none.
            servers: the global MCP servers, each with its URL.
            project: what the chat's project has: "mcp" and "config"; None without a project.
            service: what the preflight services say.
        """
        awaits.playing = None
        self.generations.take_back()
        self.configure(config)
        self.configure(project["config"] if project else None, PROJECT)
        self.set_mcp(servers)
        self.set_project_mcp(project["mcp"] if project else {})
        self.context.data.pop("project", None)
        if project:
            self.context.set_data("project", PROJECT)
        self.agent.data.clear()
        self.agent.loop_data = LoopData()
        self.context.log.logs.clear()
        MCPConfig.clear_project_instances()
        MCPConfig.get_for_agent(self.agent)  # so that no schedule begins by connecting
        self.use_aliases()
        self.network.service, self.network.ledger, self.ran = service, Ledger(), []
        self.scheduler = awaits.playing = Scheduler(self.network.loop, choose)
        return self.scheduler

    def end(self) -> None:
        """End whatever the schedule has left."""
        awaits.playing = None
        self.scheduler.end()

    # What the operator does

    def configure(self, raw: object, project: str = "") -> None:
        """Write our global config.json, or a project's; None removes it."""
        text = raw if isinstance(raw, str) or raw is None else json.dumps(raw)
        self._write(self._project_config if project else self._config, text)

    def set_mcp(self, servers: Mapping[str, str]) -> None:
        """Set the global MCP servers, as the settings page does: all at once, in place."""
        text = _mcp_text(servers)
        if text != self._settings["mcp_servers"]:
            self._settings["mcp_servers"] = text
            MCPConfig.update(text)

    def set_project_mcp(self, servers: Mapping[str, str]) -> None:
        """Write the project's MCP servers; the next look-up makes a new instance."""
        self._write(self._project_mcp, _mcp_text(servers))

    def _write(self, path: Path, text: str | None) -> None:
        """Write a file, or remove it, unless it is so already."""
        if path in self._files and self._files[path] == text:
            return
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            # A clock that is coarse, or another in each run, must not decide who sees the edit.
            self._writes += SECOND_NS
            os.utime(path, ns=(self._writes, self._writes))
        self._files[path] = text

    # What the agent does

    def use_aliases(self) -> dict[str, str]:
        """Tell the agent its native tool names, as before a model call; alias by name."""
        tools = [name for entry in MCPConfig.get_instance().get_tools() for name in entry]
        names = {hosts.alias(name): name for name in tools}
        self.agent.set_data("responses_tool_name_map", names)
        return {name: alias for alias, name in names.items()}

    async def native(self, name: str) -> None:
        """Dispatch a native call."""
        item = {"type": "function_call", "name": name, "call_id": "call_1"}
        item["arguments"] = json.dumps({"call": self.caller})
        result = LLMResult(output_items=[ResponseItem("function_call", item)])
        await self.agent.process_llm_result_tools(result)

    async def legacy(self, name: str) -> None:
        """Dispatch a call that is written as text."""
        text = json.dumps({"tool_name": name, "tool_args": {"call": self.caller}})
        await self.agent.process_tools(text)

    # Once

    def _install(self) -> None:
        hosts.freeze_settings(self._settings)
        hosts.replace_sessions(self.network)
        plugins.get_plugin_config = self._noting(plugins.get_plugin_config)
        vars(projects)["load_project_mcp_servers"] = _watched(projects.load_project_mcp_servers)
        MCPConfig.call_tool = _seeking(MCPConfig.call_tool)  # type: ignore[method-assign]
        world = self

        class LocalTool(Tool):
            async def execute(self, **_: Any) -> Response:
                await point("the local tool runs")
                world.ran.append(world.caller)
                return Response(message="noted", break_loop=False)

        # As the hosts call what they bind where there is no tool.
        unknown = type("Unknown", (LocalTool,), {})

        def get_tool(agent: Agent, *values: Any, **named: Any) -> Tool:
            named.update(
                zip(("name", "method", "args", "message", "loop_data"), values, strict=False)
            )
            bound = LocalTool if named["name"] in LOCAL_TOOLS else unknown
            return bound(agent=agent, **named)  # type: ignore[no-any-return]

        Agent.get_tool = get_tool  # type: ignore[method-assign,assignment]

    def _noting(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Note what settings each call reads; an outside process may edit them before."""

        @functools.wraps(read)
        def get_plugin_config(plugin_name: str, **scope: Any) -> Any:
            if plugin_name != PLUGIN:
                return read(plugin_name, **scope)
            which = "selected" if scope.get("agent") is not None else "everywhere"
            moment(f"reads the {which} config.json")
            found: Any = "unreadable"
            try:
                found = read(plugin_name, **scope)
            finally:
                noted = self.ledger.read.setdefault(self.caller, {})
                noted[which] = Read(found, len(self.ledger.answers))
            return found

        return get_plugin_config

    def _watch_agent(self) -> None:
        """Note which records each call keeps, and what the model is shown of it."""
        keep = self.agent.set_data

        def set_data(key: str, value: Any, *arguments: Any, **named: Any) -> None:
            if key == DECISIONS:
                known = self.agent.get_data(key) or []
                for record in value:
                    if record not in known:
                        self.ledger.kept.setdefault(self.caller, {})[record["id"]] = record
            keep(key, value, *arguments, **named)

        def show(tool_name: str, tool_result: str, *_: Any, **__: Any) -> None:
            self.ledger.shown[self.caller] = tool_result

        self.agent.set_data = set_data  # type: ignore[method-assign]
        self.agent.hist_add_tool_result = show  # type: ignore[method-assign,assignment]

    def _find_hook(self) -> None:
        """Have the hook found and everything of the plugin imported."""
        self.agent.loop_data = LoopData()
        work = extension.call_extensions_async(
            "tool_execute_before", self.agent, tool_args={}, tool_name="memo"
        )
        with contextlib.suppress(StopIteration):
            work.send(None)
        if f"{ROOMS}gate" not in sys.modules:
            raise RuntimeError("the host does not call the plugin's hook")


def _watched(read: Callable[[str], str]) -> Callable[[str], str]:
    """Let an outside process act just before the project's MCP servers are read."""

    @functools.wraps(read)
    def load_project_mcp_servers(name: str) -> str:
        moment("reads the project's mcp_servers.json")
        return read(name)

    return load_project_mcp_servers


def _seeking(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let another thread act after the framework's last look-up, before it seeks the server in it."""

    @functools.wraps(call)
    async def call_tool(config: Any, tool_name: str, input_data: dict[str, Any]) -> Any:
        moment("seeks the server")
        return await call(config, tool_name, input_data)

    return call_tool


def _mcp_text(servers: Mapping[str, str]) -> str:
    named = {name: {"type": "streamable-http", "url": url} for name, url in servers.items()}
    return json.dumps({"mcpServers": named})
