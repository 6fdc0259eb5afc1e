"""What the tests of the local preflight service share: processes, scripts, and how to ask."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx
from local_guild.wire import ECHOED_ID, Send, Wait, answer

RELEASE_SUPPORT = Path(__file__).resolve().parents[1]

PATIENCE_SECONDS = 20.0
USER_AGENT = "agent_guild_preflight/0.1.0"

# The official Python SDK, in one of its ways.
MCP_SERVER = """
import socket, sys
import uvicorn
from mcp.server.fastmcp import FastMCP
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Mount
way = sys.argv[1]
options = {"api": {"streamable_http_path": "/api"}, "mounted": {"streamable_http_path": "/"}}
if way == "unguarded":
    options[way] = {
        "transport_security": TransportSecuritySettings(enable_dns_rebinding_protection=False)
    }
if way == "stateless":
    options[way] = {"stateless_http": True, "json_response": True}
server = FastMCP("real", **options.get(way, {}))
application = server.sse_app() if way == "sse" else server.streamable_http_app()
if way == "mounted":
    application = Starlette(
        routes=[Mount("/mcp", application)], lifespan=lambda _: server.session_manager.run()
    )
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(application, log_level="critical")).run(sockets=[listener])
"""

PROBER = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from local_guild.probe import probe
async def visit(target, deadline_seconds):
    probed = await probe(target, deadline_seconds=deadline_seconds)
    await probed.leave()
    return probed.answer
print("ready", flush=True)
for line in sys.stdin:
    target, deadline_seconds = json.loads(line)
    print(json.dumps(asyncio.run(visit(target, deadline_seconds))), flush=True)
"""

KEYS = [
    "target", "verdict", "headline", "checks", "failed", "unknowns", "scored", "method", "limits",
    "preflight_id", "observed_at", "probe_latency_ms", "freshness", "outcome_report",
]  # fmt: skip
CHECKS = [
    "endpoint_reachable", "protocol_handshake", "agent_card_resolves",
    "agent_card_signed", "payment_claim_holds", "independent_evidence",
]  # fmt: skip


# Every name of these answers its look-ups in turn with these addresses, and the last ones again;
# "stuck" is a name whose look-up takes a minute.
NAMES = """
import json, os, socket, sys, time
sys.path.insert(0, os.environ["SUPPORT"])
answers, asked, ask = json.loads(os.environ["ANSWERS"]), [], socket.getaddrinfo
def getaddrinfo(host, port, *rest, **more):
    host = host.decode() if isinstance(host, bytes) else host
    if host == "stuck":
        time.sleep(60)
    if host not in answers:
        return ask(host, port, *rest, **more)
    asked.append(host)
    given = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
    return [found for address in given for found in ask(address, port, *rest, **more)]
socket.getaddrinfo = getaddrinfo
"""

# Prints the answer about one target, and how many look-ups it took.
NAMED_PROBER = (
    NAMES
    + """
import asyncio
from local_guild.probe import probe
async def visit():
    probed = await probe(sys.argv[1])
    await probed.leave()
    return probed.answer
print(json.dumps([asyncio.run(visit()), len(asked)]))
"""
)

# The service, in a world of such names.
NAMED_GUILD = (
    NAMES
    + """
from local_guild.__main__ import main
sys.argv = ["local_guild", "--port", "0"]
main()
"""
)


def world(**answers: list[list[str]]) -> dict[str, str]:
    """What `NAMES` needs in its environment."""
    return {"SUPPORT": str(RELEASE_SUPPORT), "ANSWERS": json.dumps(answers)}


@contextmanager
def process(
    *command: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run Python with `command`, and these variables beside the rest of the environment; gives the
    last word of the first line it prints, and the process."""
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        [sys.executable, *command],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=os.environ | dict(environment or {}),
    )
    try:
        assert running.stdout is not None
        words = running.stdout.readline().split()
        assert words, "the process ended before it said anything"
        yield words[-1], running
    finally:
        running.kill()
        running.communicate()


def run(
    *command: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run Python with `command` to its end, with these variables beside the environment."""
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env=os.environ | dict(environment or {}),
    )


class Probed(Protocol):
    def __call__(
        self, target: str, deadline_seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]: ...


def ask(origin: str, target: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        return client.get(
            f"{origin}/preflight?url={quote(target, safe='')}",
            headers={"User-Agent": USER_AGENT} | headers,
        )


def request_head(origin: str, target: str) -> bytes:
    """The request for which `ask` waits, as it goes over the wire."""
    line = f"GET /preflight?url={quote(target, safe='')} HTTP/1.1"
    host = origin.removeprefix("http://")
    return f"{line}\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\n\r\n".encode()


def connect(origin: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(origin.rpartition(":")[2])), PATIENCE_SECONDS)


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def statuses(document: dict[str, Any]) -> dict[str, str]:
    """The statuses in an answer by check, once everything else about the answer was found to keep
    the contract."""
    assert list(document)[: len(KEYS)] == KEYS
    assert [check["check"] for check in document["checks"]] == CHECKS
    found = {check["check"]: check["status"] for check in document["checks"]}
    assert all(isinstance(check["detail"], str) and check["detail"] for check in document["checks"])
    assert document["failed"] == [name for name in CHECKS if found[name] == "failed"]
    assert document["unknowns"] == [name for name in CHECKS if found[name] == "unknown"]
    assert document["scored"] == [name for name in CHECKS if found[name] in ("proven", "failed")]
    if "failed" in (found["endpoint_reachable"], found["protocol_handshake"]):
        assert document["verdict"] == "do_not_delegate"
    else:
        assert document["verdict"] == (
            "delegate_with_caution" if document["failed"] else "no_failed_checks"
        )
    return found


def by_path(**responses: bytes) -> Callable[[bytes], list[Send]]:
    """A script that answers `<method>_<last part of the path before any dot>` as given, and
    everything else with a 404."""

    def choose(head: bytes) -> list[Send]:
        method, path, _ = head.decode().split(" ", 2)
        name = method + "_" + path.rpartition("/")[2].partition(".")[0].replace("-", "_")
        return [Send(responses.get(name, answer(b"{}", status=b"404 Not Found")))]

    return choose


def initialize_result(version: str = "2025-06-18", request_id: Any = ECHOED_ID) -> bytes:
    result = {
        "protocolVersion": version,
        "capabilities": {},
        "serverInfo": {"name": "scripted", "version": "1"},
    }
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


def card_answer(**content: Any) -> bytes:
    return answer(json.dumps({"name": "Scripted agent"} | content).encode())


def event_stream(
    address: bytes, posted: threading.Event, status: bytes = b"202 Accepted"
) -> Callable[[bytes], list[Any]]:
    """A server of the older transport whose stream gives out `address` and answers once `posted` is
    set, which any second POST does; that is answered with `status`."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    message = b"event: message\r\ndata: " + initialize_result() + b"\r\n\r\n"

    def choose(request: bytes) -> list[Any]:
        if request.startswith(b"GET /sse "):
            return [
                Send(head + b": hi\nevent: endpoint\ndata: " + address + b"\n\n"),
                Wait(posted),
                Send(message),
            ]
        if request.startswith(b"POST /messages"):
            posted.set()
            return [Send(answer(b"", status=status))]
        return [Send(answer(b"", status=b"404 Not Found"))]

    return choose
