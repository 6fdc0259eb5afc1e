"""A real MCP server in a process of its own, built with the official SDK.

As a script it serves streamable HTTP at /mcp and SSE at /sse on one free loopback port,
which it prints once it listens. Tools: `echo`, and one for each further argument. With the
argument `stdio` it serves its standard streams instead.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any


def stdio_server() -> dict[str, Any]:
    """Give the MCP settings of a local server: the framework starts a process for each call."""
    return {"command": sys.executable, "args": [__file__, "stdio"]}


@contextlib.contextmanager
def running(*tools: str) -> Iterator[int]:
    """Run a tool server.

    Args:
        tools: names of further tools, each of which answers with its arguments.

    Yields:
        The port that it listens on.
    """
    command = [sys.executable, __file__, json.dumps(tools)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _server(tools: list[str]) -> Any:
    from mcp.server.fastmcp import FastMCP
    from mcp.server.transport_security import TransportSecuritySettings

    # It answers to every Host, as a server of many sites does.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server = FastMCP("tools", transport_security=security)

    def echo(text: str = "") -> str:
        return f"echo: {text}"

    for name in ("echo", *tools):
        server.add_tool(echo, name=name, description=f"Answers with its text ({name}).")
    return server


def _serve(tools: list[str]) -> None:
    import uvicorn
    from starlette.applications import Starlette

    server = _server(tools)
    streamable = server.streamable_http_app()

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with server.session_manager.run():
            yield

    app = Starlette(routes=[*streamable.routes, *server.sse_app().routes], lifespan=lifespan)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # it already listens: nobody has to wait
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        _server([]).run("stdio")
    else:
        _serve(json.loads(sys.argv[1]))
