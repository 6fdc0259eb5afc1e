"""One MCP session per request, through the real SDK, each in a worker thread with a loop of its
own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CallToolResult

if TYPE_CHECKING:
    from helpers.mcp_handler import MCPServerLocal, MCPServerRemote

Result = TypeVar("Result")
Connect = Callable[[], AbstractAsyncContextManager[Any]]

STREAMABLE_TYPES = ("http-stream", "streaming-http", "streamable-http", "http-streaming")


def connect_remote(server: MCPServerRemote) -> AbstractAsyncContextManager[Any]:
    """Return the SDK's transport for a server.

    Reads the server's fields now, so call it as late as possible.
    """

    def client_factory(
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, verify=server.verify, follow_redirects=True
        )

    open_transport = streamablehttp_client if server.type in STREAMABLE_TYPES else sse_client
    return open_transport(
        url=server.url,
        headers=server.headers,
        timeout=server.init_timeout,
        sse_read_timeout=server.tool_timeout,
        httpx_client_factory=client_factory,
    )


def connect_local(server: MCPServerLocal) -> AbstractAsyncContextManager[Any]:
    """Return the SDK's transport for a server that is a child process."""
    return stdio_client(
        StdioServerParameters(command=server.command, args=server.args, env=server.env)
    )


async def list_tools(connect: Connect, seconds: float) -> list[dict[str, Any]]:
    """Return the server's tools as plain values."""
    listing = await _in_worker(connect, seconds, lambda session: session.list_tools())
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.inputSchema}
        for tool in listing.tools
    ]


async def call_tool(
    connect: Connect, seconds: float, name: str, arguments: dict[str, Any]
) -> CallToolResult:
    """Call one tool."""
    return await _in_worker(connect, seconds, lambda session: session.call_tool(name, arguments))


async def _in_worker(
    connect: Connect, seconds: float, work: Callable[[ClientSession], Awaitable[Result]]
) -> Result:
    async def whole_session() -> Result:
        with anyio.fail_after(seconds):
            async with connect() as (read, write, *_), ClientSession(read, write) as session:
                await session.initialize()
                return await work(session)

    try:
        return await asyncio.to_thread(lambda: asyncio.run(whole_session()))
    except BaseExceptionGroup as group:
        raise _first_cause(group) from None


def _first_cause(error: BaseException) -> BaseException:
    """Return what really happened, without the groups that the SDK's task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
