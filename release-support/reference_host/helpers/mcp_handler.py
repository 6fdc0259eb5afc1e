"""MCP: the configured servers, their merge per project, and the tool that calls them."""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from helpers import mcp_session, projects, responses_tools, settings
from helpers.tool import Response, Tool
from mcp.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from agent import Agent
    from helpers.log import LogItem


def normalize_name(name: str) -> str:
    """Lower case, every non-word character an underscore."""
    return re.sub(r"\W", "_", name.strip().lower())


class ToolError(Exception):
    """The server answered that the tool failed."""


class MCPTool(Tool):
    """A call of `server.tool`.

    It looks its server up again when it runs.
    """

    async def execute(self, **kwargs: Any) -> Response:
        try:
            result = await MCPConfig.get_for_agent(self.agent).call_tool(self.name, kwargs)
            message = "\n\n".join(
                item.text for item in result.content if isinstance(item, TextContent)
            )
            if result.isError:
                raise ToolError(message)
        except Exception as error:
            message = f"ERROR: {str(error) or type(error).__name__}"
            self.agent.context.log.log(
                type="warning", heading=f"MCP tool '{self.name}' failed", content=message
            )
        return Response(message=message, break_loop=False)

    def get_log_object(self) -> LogItem:
        return self.agent.context.log.log(
            type="mcp", heading=f"{self.agent.agent_name}: Using tool '{self.name}'", kvps=self.args
        )


class _MCPServer(ABC):
    """What servers of both kinds have in common."""

    def __init__(self, config: dict[str, Any]):
        everywhere = settings.get_settings()
        self.name = normalize_name(config["name"])
        self.description: str = config.get("description", "")
        self.scope: str = config.get("scope", "global")
        self.disabled_tools: list[str] = list(config.get("disabled_tools") or [])
        self.init_timeout: float = (
            config.get("init_timeout") or everywhere["mcp_client_init_timeout"]
        )
        self.tool_timeout: float = (
            config.get("tool_timeout") or everywhere["mcp_client_tool_timeout"]
        )
        self.error = ""
        self._tools: list[dict[str, Any]] = []

    @abstractmethod
    def _connect(self) -> Any:
        """Return the streams of a new connection."""

    async def initialize(self) -> None:
        """List the server's tools; when that fails there are none, and `error` says why."""
        try:
            self._tools, self.error = (
                await mcp_session.list_tools(self._connect, self.init_timeout),
                "",
            )
        except Exception as error:
            self._tools, self.error = [], str(error) or type(error).__name__

    def get_tools(self) -> list[dict[str, Any]]:
        """Return the tools that are not disabled."""
        return [tool for tool in self._tools if tool["name"] not in self.disabled_tools]

    def has_tool(self, name: str) -> bool:
        """Whether the server has the tool and it is not disabled."""
        return any(tool["name"] == name for tool in self.get_tools())

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call the tool in a session of its own."""
        return await mcp_session.call_tool(self._connect, self.tool_timeout, name, arguments)


class MCPServerRemote(_MCPServer):
    """A server behind a URL.

    Every field may change between two calls.
    """

    def __init__(self, config: dict[str, Any]):
        super().__init__(config)
        self.type: str = config.get("type", "sse")
        self.url: str = config.get("url") or config["serverUrl"]
        self.headers: dict[str, str] | None = config.get("headers")
        self.verify: bool = config.get("verify", True)

    def _connect(self) -> Any:
        return mcp_session.connect_remote(self)


class MCPServerLocal(_MCPServer):
    """A server that is a child process, spoken to over its standard streams."""

    def __init__(self, config: dict[str, Any]):
        super().__init__(config)
        self.type: str = config.get("type", "stdio")
        self.command: str = config["command"]
        self.args: list[str] = list(config.get("args") or [])
        self.env: dict[str, str] | None = config.get("env")

    def _connect(self) -> Any:
        return mcp_session.connect_local(self)


class MCPConfig:
    """The servers of the whole host (one instance) or of one project (an instance each)."""

    _instance: MCPConfig | None = None
    # By project: the merged configuration as text, and the instance made of it.
    __project_instances: dict[str, tuple[str, MCPConfig]] = {}

    def __init__(self) -> None:
        self.servers: list[MCPServerRemote | MCPServerLocal] = []
        self.disconnected_servers: list[dict[str, Any]] = []

    @classmethod
    def get_instance(cls) -> MCPConfig:
        """Return the global instance; always the same object."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    @classmethod
    def update(cls, json_text: str) -> None:
        """Replace the global servers.

        Connects to each of them before it returns.
        """
        cls.get_instance()._replace_servers(_parse_servers(json_text, "global"))
        cls.clear_project_instances()

    @classmethod
    def get_for_agent(cls, agent: Agent) -> MCPConfig:
        """Return the configuration of the agent's project; on any error, and without a project, the global
        one."""
        try:
            project = projects.get_context_project_name(agent.context)
            return cls.get_project_instance(project) if project else cls.get_instance()
        except Exception:
            return cls.get_instance()

    @classmethod
    def get_project_instance(cls, name: str) -> MCPConfig:
        """Return the project's servers over those of the global settings; after an edit a new instance,
        which connects inside the call."""
        name = projects.validate_project_name(name)
        merged, text = cls.merge_config_strings(
            settings.get_settings()["mcp_servers"], projects.load_project_mcp_servers(name)
        )
        kept = cls.__project_instances.get(name)
        if kept and kept[0] == text:
            return kept[1]
        instance = cls()
        instance._replace_servers(merged)
        cls.__project_instances[name] = (text, instance)
        return instance

    @classmethod
    def merge_config_strings(
        cls, global_config: str, project_config: str
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the project's servers over the global ones, and the same as text."""
        configs = _parse_servers(global_config, "global")
        configs += _parse_servers(project_config, "project")
        merged = list({normalize_name(config["name"]): config for config in configs}.values())
        return merged, json.dumps(merged)

    @classmethod
    def clear_project_instances(cls) -> None:
        """Forget the projects' servers."""
        cls.__project_instances = {}

    def has_tool(self, name: str) -> bool:
        """Whether a live server exposes `server.tool`."""
        return self._find_server(name) is not None

    def get_tool(self, agent: Agent, name: str) -> MCPTool | None:
        """Return the tool of that name or native alias, as far as the agent's configuration has it."""
        config = MCPConfig.get_for_agent(agent)
        if not config.has_tool(name):
            name_map = agent.get_data(agent.DATA_NAME_RESPONSES_TOOL_NAME_MAP)
            name = responses_tools.original_tool_name(name, name_map)
        if not config.has_tool(name):
            return None
        return MCPTool(agent=agent, name=name, method=None, args={}, message="", loop_data=None)

    def get_tools(self) -> list[dict[str, dict[str, Any]]]:
        """Return every exposed tool, each as `{"server.tool": its description}`."""
        return [
            {f"{server.name}.{tool['name']}": tool}
            for server in self.servers
            for tool in server.get_tools()
        ]

    async def call_tool(self, tool_name: str, input_data: dict[str, Any]) -> CallToolResult:
        """Call `server.tool` on the first server of that name that has it."""
        server = self._find_server(tool_name)
        if server is None:
            raise ValueError(f"Tool {tool_name} not found")
        return await server.call_tool(tool_name.partition(".")[2], input_data)

    def _find_server(self, tool_name: str) -> MCPServerRemote | MCPServerLocal | None:
        server_name, _, name = tool_name.partition(".")
        matches = (
            server
            for server in self.servers
            if server.name == server_name and server.has_tool(name)
        )
        return next(matches, None)

    def _replace_servers(self, configs: list[dict[str, Any]]) -> None:
        servers, disconnected = [], []
        for config in configs:
            try:
                if config.get("disabled"):
                    raise ValueError("disabled")
                remote = config.get("url") or config.get("serverUrl")
                servers.append(MCPServerRemote(config) if remote else MCPServerLocal(config))
            except Exception as error:
                entry = {
                    "name": normalize_name(config["name"]),
                    "config": config,
                    "error": str(error),
                }
                disconnected.append(entry)
        _initialize_all(servers)
        self.servers, self.disconnected_servers = servers, disconnected


def _parse_servers(json_text: str, scope: str) -> list[dict[str, Any]]:
    """Return the servers in order, each with its name and scope; both forms of the list are understood."""
    servers = json.loads(json_text or "{}").get("mcpServers", {})
    if isinstance(servers, dict):
        servers = [{**config, "name": name} for name, config in servers.items()]
    return [{**config, "scope": scope} for config in servers]


def _initialize_all(servers: list[MCPServerRemote | MCPServerLocal]) -> None:
    """Connect to all servers at once, in a thread: the caller's own loop may be running."""

    async def initialize() -> None:
        await asyncio.gather(*(server.initialize() for server in servers))

    if servers:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(initialize())).result()
