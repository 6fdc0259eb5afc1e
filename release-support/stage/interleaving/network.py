"""What stands in for the network: the preflight service, and sessions with MCP servers.

Nothing here opens a socket, and nothing in the process can: the attempt ends the schedule.
Import it only after `boot`.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from local_guild.answers import answer_body
from mcp.types import CallToolResult, TextContent

from . import awaits
from .ledger import Answer, Delivery, Ledger
from .oracle import ANSWER
from .scheduler import Loop

TOOLS: Final = ("echo", "read")
DENIED: Final = {"protocol_handshake": "failed"}

Service = Mapping[tuple[str, str], Mapping[str, str]]


class Network:
    """What is said and noted while a schedule is played.

    Attributes:
        service: what a preflight service says of a URL: the checks by origin and URL. Of any
            other URL it says that the handshake failed.
        ledger: what happened.
        loop: where requests run.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.service: Service = {}
        self.ledger = Ledger()
        sys.addaudithook(_no_socket)

    def loaded(self, end: str, namespace: dict[str, Any]) -> None:
        """Replace what reaches the network or a clock in a file of ours that was just loaded."""
        if "time" in namespace:
            namespace["time"] = _StoppedClock()
        if end.endswith("/single_flight.py"):
            namespace["_start_loop"] = lambda: self.loop
        elif end.endswith("/request.py"):
            namespace["PreflightRequest"].run = self.preflight

    @property
    def preflight(self) -> Any:
        """What `PreflightRequest.run` is replaced by."""

        async def run(request: Any) -> bytes:
            origin, _, quoted = request._url.partition("/preflight?url=")
            await point("the service is asked")
            url = unquote(quoted)
            checks = self.service.get((origin, url), DENIED)
            self.ledger.answers.append(Answer(origin, url, checks))
            await point("the service has answered")
            return _body(url, tuple(checks.items()))

        return run

    async def session(self, server: Any, arguments: Mapping[str, Any]) -> CallToolResult:
        """Note who gets the bytes; the URL is read late, as in the worker of a real session."""
        await point("the MCP session opens")
        call, seen = str(arguments.get("call", "")), len(self.ledger.answers)
        self.ledger.deliveries.append(Delivery(call, server.name, server.url, seen))
        await point("the MCP server answers")
        return CallToolResult(content=[TextContent(type="text", text=f"{ANSWER}{server.url}")])


def listing() -> list[dict[str, Any]]:
    """Return the tools that every MCP server has."""
    return [{"name": name, "description": name, "input_schema": {}} for name in TOOLS]


async def point(label: str) -> None:
    """End a step here, while a schedule is played."""
    if awaits.playing is not None:
        await awaits.playing.point(label)


def moment(label: str, *, is_long: bool = False) -> None:
    """Let others act here, while a schedule is played."""
    if awaits.playing is not None:
        awaits.playing.moment(label, is_long=is_long)


@functools.cache
def _body(url: str, checks: tuple[tuple[str, str], ...]) -> bytes:
    return answer_body(url, dict(checks))


class _StoppedClock:
    """The module `time`, in which no time passes: not even that of a machine that is held up."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def monotonic() -> float:
        return 0.0

    @staticmethod
    def clock_gettime(_: int) -> float:
        return 0.0


def _no_socket(event: str, _: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        raise RuntimeError("a schedule has no network")
