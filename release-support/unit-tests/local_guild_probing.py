"""What the tests of the local preflight service share: processes, scripts, and how to ask."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx
from local_guild.wire import Send, answer

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


@contextmanager
def process(*command: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run Python with `command`; gives the last word of the first line it prints, and the
    process."""
    pipe = subprocess.PIPE
    running = subprocess.Popen(
        [sys.executable, *command], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    try:
        assert running.stdout is not None
        words = running.stdout.readline().split()
        assert words, "the process ended before it said anything"
        yield words[-1], running
    finally:
        running.kill()
        running.communicate()


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


def initialize_result(version: str = "2025-06-18", request_id: Any = 1) -> bytes:
    result = {
        "protocolVersion": version,
        "capabilities": {},
        "serverInfo": {"name": "scripted", "version": "1"},
    }
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


def card_answer(**content: Any) -> bytes:
    return answer(json.dumps({"name": "Scripted agent"} | content).encode())
