"""Where the two hosts differ: how they list tools, open sessions and remember extensions.

Import it only after `boot`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from helpers import extension, mcp_handler, responses_tools, settings

from .network import Network, listing, moment

# What only one of the hosts has is looked up by name.
_handler: Any = mcp_handler
_extension: Any = extension

IS_FRAMEWORK: Final = hasattr(mcp_handler, "MCPClientBase")


def replace_sessions(network: Network) -> None:
    """Have MCP servers listed and called without a network."""
    if IS_FRAMEWORK:
        _replace_framework_sessions(network)
        return

    def initialize_all(servers: list[Any]) -> None:
        moment("connects to the MCP servers", is_long=True)
        for server in servers:
            server._tools = listing()

    async def call_tool(connect: Any, _: float, __: str, arguments: dict[str, Any]) -> Any:
        return await network.session(connect.__self__, arguments)

    _handler._initialize_all = initialize_all
    _handler.mcp_session.call_tool = call_tool


def _replace_framework_sessions(network: Network) -> None:
    client = _handler.MCPClientBase

    async def update_tools(self: Any) -> Any:
        self.tools = listing()
        return self

    async def run(_: Any, __: str, operation: Callable[[], Awaitable[Any]], **___: Any) -> Any:
        return await operation()

    async def execute_with_session(self: Any, work: Any, **_: Any) -> Any:
        return await work(_Session(network, self.server))

    client.update_tools = update_tools
    client._run_isolated_operation = run
    client._execute_with_session = execute_with_session
    _handler.asyncio = _AtOnce()
    for name in ("print", "stream", "warning"):
        setattr(_handler.PrintStyle, name, lambda *_, **__: None)


class _Session:
    """What the framework takes for a session of the MCP client."""

    def __init__(self, network: Network, server: Any) -> None:
        self._network, self._server = network, server

    async def call_tool(self, _: str, arguments: dict[str, Any], **__: Any) -> Any:
        return await self._network.session(self._server, arguments)


class _AtOnce:
    """The framework's asyncio, where it connects to servers: without a loop of its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    def run(work: Coroutine[Any, Any, Any]) -> None:
        moment("connects to the MCP servers", is_long=True)
        try:
            work.send(None)
        except StopIteration:
            return
        raise RuntimeError("listing tools was to need no loop")

    @staticmethod
    async def gather(*works: Awaitable[Any]) -> list[Any]:
        return [await work for work in works]


def freeze_settings(values: dict[str, Any]) -> None:
    """Have the host's own settings come from a dictionary; reading them takes up to 14 ms.

    The gate looks whether the function is the host's own, so the new one names the same file.
    """
    vars(settings)["_settings"] = values
    code = compile("def get_settings():\n    return _settings", str(settings.__file__), "exec")
    exec(code, vars(settings))
    if hasattr(mcp_handler, "get_settings"):
        _handler.get_settings = settings.get_settings


def alias(name: str) -> str:
    """Return the native name that the host gives a tool."""
    native = "_native_tool_name" if IS_FRAMEWORK else "_native_name"
    found: str = getattr(responses_tools, native)(name)
    return found


def extensions_found() -> dict[Any, Any]:
    """Return a copy of what the host remembers of extensions."""
    areas = _extension_cache()
    return {
        area: dict(found) if isinstance(found, dict) else found for area, found in areas.items()
    }


def remember_extensions(found: dict[Any, Any]) -> None:
    """Have the host remember what `extensions_found` returned."""
    areas = _extension_cache()
    areas.clear()
    areas.update(
        {area: dict(each) if isinstance(each, dict) else each for area, each in found.items()}
    )


def forget_extensions() -> None:
    """Have extensions found and loaded anew."""
    if IS_FRAMEWORK:
        for area in ("*(plugins)*", "*(extensions)*"):
            _framework_cache().clear(area)
    else:
        _extension.clear_caches()


def _extension_cache() -> dict[Any, Any]:
    found: dict[Any, Any] = (_framework_cache() if IS_FRAMEWORK else _extension)._cache
    return found


def _framework_cache() -> Any:
    return importlib.import_module("helpers.cache")
