"""Drives a host as a model and its operator do; the same on either host.

Import it only after `boot`. Calls run on one loop in a thread of its own, as the
framework's agents do, so that callers are plain functions.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from agent import AgentConfig, AgentContext, AgentContextType, LoopData
from helpers import extension, parallel_tools, responses_tools, settings
from helpers.llm_result import LLMResult, ResponseItem
from helpers.mcp_handler import MCPConfig

from .boot import PLUGIN

PROFILE = "agent0"
CALL_SECONDS = 60

# What `Operator.add_hook` has other extensions do, by extension point.
hooks: dict[str, Callable[..., object]] = {}
HOOK = """
from helpers.extension import Extension
from stage.chats import hooks

class Later(Extension):
    async def execute(self, **kwargs):
        hooks["{point}"](self.agent, **kwargs)
"""

_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, name="chats", daemon=True).start()


def begin(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Begin a coroutine on the chats' loop."""
    return asyncio.run_coroutine_threadsafe(work, _loop)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the chats' loop and give its result."""
    return begin(work).result(CALL_SECONDS)


class Operator:
    """Writes what an operator writes: the plugin's and the MCP configuration."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._mcp: str | None = None

    def config_path(self, project: str | None = None, profile: str | None = None) -> Path:
        """Return where a scoped config.json belongs."""
        base = self.root / "usr"
        if project:
            base = base / "projects" / project / ".a0proj"
        if profile:
            base = base / "agents" / profile
        return base / "plugins" / PLUGIN / "config.json"

    def configure(
        self, raw: object, project: str | None = None, profile: str | None = None
    ) -> None:
        """Write a config.json; a text is written as it stands."""
        path = self.config_path(project, profile)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")

    def unconfigure(self) -> None:
        """Remove every config.json and every project."""
        self.config_path().unlink(missing_ok=True)
        for folder in ("projects", "agents"):
            shutil.rmtree(self.root / "usr" / folder)
            (self.root / "usr" / folder).mkdir()

    def set_mcp(self, servers: dict[str, Any] | list[Any], *, anew: bool = False) -> None:
        """Set the global MCP servers; connects to each, unless they are the same as before."""
        text = json.dumps({"mcpServers": servers})
        if anew or text != self._mcp:
            MCPConfig.update(text)
            self._mcp = text

    def set_project_mcp(self, project: str, servers: dict[str, Any]) -> None:
        """Write a project's MCP servers; it inherits the global ones.

        It gets a header, without which the framework takes no parallel child into it.
        """
        file = self.project_mcp_path(project)
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "project.json").write_text(json.dumps({"title": project}))
        self.edit_project_mcp(project, servers)
        current = {**settings.get_settings(), "mcp_servers": self._mcp or "{}"}
        (self.root / "usr" / "settings.json").write_text(json.dumps(current))
        settings.reload_settings()

    def project_mcp_path(self, project: str) -> Path:
        """Return where a project's MCP servers stand."""
        return self.root / "usr" / "projects" / project / ".a0proj" / "mcp_servers.json"

    def edit_project_mcp(self, project: str, servers: dict[str, Any]) -> None:
        """Edit the MCP servers of a project that is there, at one stroke."""
        file = self.project_mcp_path(project)
        edited = file.with_suffix(".edited")
        edited.write_text(json.dumps({"mcpServers": servers}))
        edited.replace(file)

    def tool_path(self, name: str) -> Path:
        """Return where a local tool of the user's own belongs."""
        return self.root / "usr" / "tools" / f"{name}.py"

    def live_server(self, name: str) -> Any:
        """Return the live global server object of a name."""
        return next(server for server in MCPConfig.get_instance().servers if server.name == name)

    def add_hook(self, point: str, work: Callable[..., object]) -> Path:
        """Add an extension of the user's own, after ours; gives its file."""
        path = self.root / "usr" / "extensions" / "python" / point / "_50_later.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HOOK.format(point=point))
        hooks[point] = work
        self.forget_extensions()
        return path

    def forget_extensions(self) -> None:
        """Have extension files found anew, after one was added or removed."""
        if hasattr(extension, "clear_caches"):
            extension.clear_caches()
        else:
            # The framework alone has it.
            cache = importlib.import_module("helpers.cache")
            cache.clear("*(extensions)*")
            cache.clear("*(plugins)*")


class Chat:
    """One chat with one agent, spoken to as a model speaks."""

    def __init__(
        self,
        project: str | None = None,
        profile: str = PROFILE,
        type: AgentContextType = AgentContextType.USER,
    ) -> None:
        config = AgentConfig(mcp_servers="", profile=profile)
        self.context = AgentContext(config=config, type=type)
        if project:
            self.context.set_data("project", project)
        self.agent = self.context.agent0
        self.agent.loop_data = LoopData()

    def close(self) -> None:
        """Remove the chat."""
        AgentContext.remove(self.context.id)

    def native(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Make native function calls, all in one turn."""
        run(self.native_turn(*calls))

    async def native_turn(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Make native function calls on the current loop."""
        items = [
            ResponseItem(
                "function_call",
                {
                    "type": "function_call",
                    "name": name,
                    "arguments": json.dumps(arguments),
                    "call_id": f"call_{number}",
                },
            )
            for number, (name, arguments) in enumerate(calls)
        ]
        await self._turn(self.agent.process_llm_result_tools(LLMResult(output_items=items)))

    def legacy(self, name: str, arguments: dict[str, Any]) -> None:
        """Make a call as a text with one JSON object."""
        text = json.dumps({"tool_name": name, "tool_args": arguments})
        run(self._turn(self.agent.process_tools(text)))

    def parallel(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Make calls in parallel children and give their results."""
        return list(run(self._parallel(calls)))

    def use_aliases(self) -> dict[str, str]:
        """Tell the agent its native tool names, as before a model call; alias by name."""
        _, names = responses_tools.build_responses_function_tools(self.agent)
        self.agent.set_data("responses_tool_name_map", names)
        return {name: alias for alias, name in names.items()}

    async def _turn(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except Exception as error:
            await self.agent.handle_exception("message_loop", error)

    async def _parallel(self, calls: Any) -> Any:
        normal = parallel_tools.normalize_parallel_tool_calls(
            [{"tool_name": name, "tool_args": arguments} for name, arguments in calls]
        )
        jobs = await parallel_tools.start_parallel_jobs(self.agent, normal)
        return await parallel_tools.await_parallel_jobs(self.agent, [job.id for job in jobs])

    @property
    def shown(self) -> list[str]:
        """What the model is shown of its calls, in order."""
        texts = []
        for message in self.agent.history.output():
            content = message["content"]
            values = content.values() if isinstance(content, dict) else [content]
            texts.append("\n".join(str(value) for value in values))
        return texts

    @property
    def records(self) -> list[dict[str, Any]]:
        """The plugin's records on the agent."""
        return self.agent.get_data(f"{PLUGIN}.decisions") or []

    @property
    def last_observation(self) -> dict[str, Any] | None:
        """What the latest decision rested on."""
        found: dict[str, Any] | None = self.agent.get_data(f"{PLUGIN}.last_observation")
        return found

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """The plugin's lines in the chat log."""
        items = [item.output() for item in self.context.log.logs]
        return [item for item in items if item["heading"].startswith("Agent Guild")]
