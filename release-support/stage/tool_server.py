"""A real MCP server in a process of its own, built with the official SDK.

As a script it serves streamable HTTP at /mcp and SSE at /sse on one free loopback port,
which it prints once it listens. Tools: `echo`, and one for each further name, which does the
same, save for the special ones. With the argument `stdio` it serves its standard streams instead.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

# Tool names are the server's free text: these hold what must never reach a model or split wrongly.
HOSTILE_TOOLS = ("dotted.na.me", "co:lon", "MARKER line\nbreak", 'MARKER <b>\x1b[31m"quoted"')
SPECIAL_TOOLS = ("picture", "fail", "stall")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def stdio_server() -> dict[str, Any]:
    """Return the MCP settings of a local server: the framework starts a process for each call."""
    return {"command": sys.executable, "args": [__file__, "stdio"]}


@contextlib.contextmanager
def running(*tools: str) -> Iterator[int]:
    """Run a tool server.

    Args:
        tools: names of further tools.

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
    from mcp.server.fastmcp import FastMCP, Image
    from mcp.server.transport_security import TransportSecuritySettings

    # It answers to every Host, as a server of many sites does.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server = FastMCP("tools", transport_security=security)

    def echo(text: str = "") -> str:
        return f"echo: {text}"

    def picture(text: str = ""):  # type: ignore[no-untyped-def]  # else it must be JSON
        return [f"echo: {text}", Image(data=PIXEL, format="png")]

    def fail(text: str = "") -> str:
        raise ValueError(f"echo: {text}")

    async def stall(text: str = "") -> str:
        await asyncio.Event().wait()
        return text

    special = {"picture": picture, "fail": fail, "stall": stall}
    for name in ("echo", *tools):
        server.add_tool(
            special.get(name, echo), name=name, description=f"Answers with its text ({name})."
        )
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
