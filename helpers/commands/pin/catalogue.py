"""Which tools does an MCP server expose now? Asked as Agent Zero asks.

Rules of this module:

1. The connection is the one that Agent Zero would make, with its MCP client: the configured
   type, URL and headers, and only the first page of the list. What differs, `mcp_client` says.
2. One deadline over everything, and at most 1,000 tools. A name lookup that already runs cannot
   be ended; nothing follows it.
3. What a server says is data, or ends here: of a failure only its class leaves this room. The
   MCP client's own log would hold remote text, and is off.

Sources: the framework's `MCPClientBase.update_tools`, `MCPClientRemote._create_stdio_transport`
and `_normalize_disabled_tools`. anyio is the MCP client's own part. The module imports nothing
of the framework.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Final, NamedTuple

import anyio
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client

from ..shared import network
from ..shared.mcp_settings import McpServer
from .client import NotListed, Watch, why_not_listed

MAX_TOOLS: Final = 1000
STREAMABLE_TYPES: Final = frozenset(
    {"http-stream", "streaming-http", "streamable-http", "http-streaming"}
)


class NoCatalogue(Exception):
    """The server did not name its tools; holds nothing that it said.

    Attributes:
        why: the cause.
        status: the HTTP status, where that is why.
    """

    def __init__(self, why: NotListed, status: int | None) -> None:
        super().__init__(why.value)
        self.why = why
        self.status = status


class Catalogue(NamedTuple):
    """The tools that Agent Zero would expose.

    Attributes:
        tools: name, description and input schema of each, in the server's order, disabled
            ones left out. Two may have one name.
        has_more: the server has further pages, which Agent Zero does not read.
    """

    tools: tuple[dict[str, Any], ...]
    has_more: bool


def list_tools(server: McpServer, seconds: float) -> Catalogue:
    """Connect to a server and let it name its tools.

    Args:
        server: a remote server of the MCP settings, whose URL has passed the screen.
        seconds: the deadline.

    Returns:
        The catalogue.

    Raises:
        NoCatalogue: with the cause.
    """
    with _no_log():
        found = network.run(_list_tools(server, seconds))
    if isinstance(found, Watch):
        raise NoCatalogue(found.why or NotListed.TIMEOUT, found.status)
    return found


async def _list_tools(server: McpServer, seconds: float) -> Catalogue | Watch:
    """Return the catalogue; or what was watched, where there is none."""
    found: list[Catalogue] = []
    with anyio.move_on_after(seconds) as scope:
        is_streamable = server.view().transport.lower() in STREAMABLE_TYPES
        watch = Watch(scope, is_streamable=is_streamable)
        try:
            async with AsyncExitStack() as stack:
                session = await _connect(stack, server, watch, is_streamable=is_streamable)
                await session.initialize()
                found.append(_catalogue(server, await session.list_tools()))
        except Exception as error:  # whatever the client, a library or a server brings about
            watch.fail(why_not_listed(error))
    if found and len(found[0].tools) > MAX_TOOLS:
        watch.why = NotListed.TOO_MANY
        return watch
    # The goodbye may fail, or last too long: the catalogue is there nevertheless.
    return found[0] if found else watch


async def _connect(
    stack: AsyncExitStack, server: McpServer, watch: Watch, *, is_streamable: bool
) -> ClientSession:
    headers: Any = server.raw.get("headers")
    if is_streamable:
        streams = streamablehttp_client(server.url, headers, httpx_client_factory=watch.client)
        read, write, _ = await stack.enter_async_context(streams)
    else:
        read, write = await stack.enter_async_context(
            sse_client(server.url, headers, httpx_client_factory=watch.client)
        )

    async def hear(message: object) -> None:
        """Nothing that a server says unasked matters, but what is no MCP."""
        if isinstance(message, Exception):
            watch.fail(NotListed.PROTOCOL)

    return await stack.enter_async_context(ClientSession(read, write, message_handler=hear))


def _catalogue(server: McpServer, listed: Any) -> Catalogue:
    disabled = server.raw.get("disabled_tools")
    left_out = {str(name).strip() for name in disabled} if isinstance(disabled, list) else set()
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.inputSchema}
        for tool in listed.tools
        if tool.name not in left_out
    ]
    return Catalogue(tuple(tools), listed.nextCursor is not None)


@contextmanager
def _no_log() -> Iterator[None]:
    """Keep every log quiet: without a handler, warnings would go to standard error."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
