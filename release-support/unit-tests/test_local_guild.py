"""The local preflight service: what it says about real and scripted servers, whom it answers, and
the wire server it is tested with."""

import asyncio
import ipaddress
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx
import pytest
from cryptography import x509
from local_guild import answers, cards, exchange, handshake, service
from local_guild.probe import probe
from local_guild.wire import Close, Drip, Endless, Reset, Send, Stall, Wait, WireServer, answer
from stage.certificates import Authority

RELEASE_SUPPORT = Path(__file__).resolve().parents[1]

PATIENCE_SECONDS = 20.0

MCP_SERVER = """
import socket, sys
import uvicorn
from mcp.server.fastmcp import FastMCP
server = FastMCP("real")
application = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(application, log_level="critical")).run(sockets=[listener])
"""

PROBER = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from local_guild.probe import probe
print("ready", flush=True)
for line in sys.stdin:
    target, deadline_seconds = json.loads(line)
    print(json.dumps(asyncio.run(probe(target, deadline_seconds=deadline_seconds))), flush=True)
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


@pytest.fixture(scope="module")
def guild() -> Iterator[str]:
    with process(str(RELEASE_SUPPORT / "local_guild"), "--port", "0") as (origin, _):
        yield origin


class Probed(Protocol):
    def __call__(
        self, target: str, deadline_seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]: ...


@pytest.fixture(scope="module")
def probed() -> Iterator[Probed]:
    """Probe in a process of its own, which must stay silent: loops in this one may be patched by
    the suites beside this file."""
    with process("-c", PROBER, str(RELEASE_SUPPORT)) as (_, running):
        assert running.stdin and running.stdout
        requests, results = running.stdin, running.stdout

        def ask_prober(target: str, deadline_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
            print(json.dumps([target, deadline_seconds]), file=requests, flush=True)
            answered: dict[str, Any] = json.loads(results.readline())
            return answered

        yield ask_prober
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")


def ask(origin: str, target: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        return client.get(f"{origin}/preflight?url={quote(target, safe='')}", headers=headers)


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


# --- Real servers, asked about through the running service --------------------


@pytest.mark.parametrize(("transport", "path"), [("streamable", "/mcp"), ("sse", "/sse")])
def test_a_real_mcp_server_shakes_hands(guild: str, transport: str, path: str) -> None:
    with process("-c", MCP_SERVER, transport) as (origin, _):
        document = ask(guild, origin + path).json()
    assert statuses(document) == dict.fromkeys(CHECKS, "unknown") | {
        "endpoint_reachable": "proven",
        "protocol_handshake": "proven",
    }
    assert document["verdict"] == "no_failed_checks"


def test_a_real_mcp_server_on_a_wrong_path_does_not(guild: str) -> None:
    with process("-c", MCP_SERVER, "streamable") as (origin, _):
        found = statuses(ask(guild, origin + "/elsewhere").json())
    assert (
        found["endpoint_reachable"],
        found["protocol_handshake"],
        found["agent_card_resolves"],
    ) == ("proven", "failed", "failed")


def test_a_plain_web_server_fails_the_handshake(guild: str) -> None:
    page = answer(b"<h1>hello</h1>", content_type=b"text/html")
    with WireServer([Send(page)]) as server:
        document = ask(guild, server.origin + "/mcp").json()
    found = statuses(document)
    assert (found["endpoint_reachable"], found["protocol_handshake"]) == ("proven", "failed")
    assert document["verdict"] == "do_not_delegate"


def test_a_closed_port_is_not_reachable(guild: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = statuses(ask(guild, f"http://127.0.0.1:{port}/mcp").json())
    assert (found["endpoint_reachable"], found["protocol_handshake"]) == ("failed", "unknown")


# --- The form of an answer, and who gets one ----------------------------------


@pytest.mark.parametrize(
    "target",
    [
        "",
        "no url",
        "http://user:pw@127.0.0.1/mcp",
        "ftp://127.0.0.1/",
        "http://[::1",
        "http:///x",
        "a&b#c+d é\n\0",
        "http://127.0.0.1/" + "x" * 3000,
    ],
)
def test_what_cannot_be_probed_is_echoed_and_not_reachable(guild: str, target: str) -> None:
    response = ask(guild, target)
    assert response.status_code == 200
    assert response.json()["target"] == target
    assert statuses(response.json())["endpoint_reachable"] == "failed"


def test_an_answer_has_the_headers_of_the_contract(guild: str) -> None:
    response = ask(guild, "nothing")
    assert response.headers["content-type"] == "application/json"
    assert not {"cache-control", "age", "etag", "content-encoding", "server"} & set(
        response.headers
    )
    assert response.content == answers.encode(response.json())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/preflight", 422),
        ("GET", "/preflight?uri=x", 422),
        ("GET", "/preflight?url=%FF", 422),
        ("GET", "/preflight?" + "a=1&" * 100 + "url=x", 422),
        ("GET", "/preflight/?url=x", 404),
        ("GET", "/", 404),
        ("POST", "/", 404),
        ("POST", "/preflight?url=x", 405),
        ("HEAD", "/preflight?url=x", 405),
        ("OPTIONS", "/preflight?url=x", 405),
    ],
)
def test_other_requests_are_refused(guild: str, method: str, path: str, status: int) -> None:
    response = httpx.request(method, guild + path, trust_env=False)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"


def test_the_last_of_several_urls_counts(guild: str) -> None:
    assert (
        httpx.get(guild + "/preflight?url=one&url=two+2&x=3", trust_env=False).json()["target"]
        == "two 2"
    )


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_host_names_are_answered(guild: str, name: str) -> None:
    port = guild.rpartition(":")[2]
    assert ask(guild, "x", Host=f"{name}:{port}").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "0.0.0.0:{port}",
        "",
        "localhost.:{port}",
    ],
)
def test_other_host_names_are_refused(guild: str, host: str) -> None:
    with WireServer([Stall()]) as server:
        response = ask(guild, server.origin, Host=host.format(port=guild.rpartition(":")[2]))
        assert (response.status_code, server.connections) == (403, 0)


def test_two_host_headers_are_never_answered(guild: str) -> None:
    port = int(guild.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as client:
        client.sendall(
            b"GET /preflight?url=x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
            % port
        )
        assert client.recv(65536).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-origin", 403),
        ("Sec-Fetch-Site", "none", 200),
    ],
)
def test_web_pages_are_refused(guild: str, name: str, value: str, status: int) -> None:
    assert ask(guild, "x", **{name: value}).status_code == status


# --- What a probe finds out ---------------------------------------------------


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden"])
def test_a_demand_for_credentials_leaves_the_handshake_unknown(
    probed: Probed, status: bytes
) -> None:
    with WireServer(by_path(POST_mcp=answer(b"", status=status))) as server:
        found = statuses(probed(server.origin + "/mcp"))
        methods = [head.split(b" ")[0] for head in server.requests]
    assert (
        found["endpoint_reachable"],
        found["protocol_handshake"],
        found["agent_card_resolves"],
    ) == ("proven", "unknown", "failed")
    assert methods == [b"POST", b"GET", b"GET"]


@pytest.mark.parametrize(
    "claim",
    [
        {"x402": {"asset": "coin"}},
        {"payments": ["card"]},
        {"capabilities": {"extensions": [{"uri": "https://payments.example/a2a-x402/v0.1"}]}},
        {"extensions": [{"uri": "https://protocol.example/AP2/v1"}]},
    ],
)
@pytest.mark.parametrize(
    ("status", "holds"), [(b"402 Payment Required", "proven"), (b"200 OK", "failed")]
)
def test_a_payment_claim_holds_if_payment_is_asked_for(
    probed: Probed, claim: dict[str, Any], status: bytes, holds: str
) -> None:
    with WireServer(
        by_path(POST_a2a=answer(b"{}", status=status), GET_agent_card=card_answer(**claim))
    ) as server:
        assert statuses(probed(server.origin + "/a2a"))["payment_claim_holds"] == holds


def test_a_card_without_a_claim_leaves_payment_unknown(probed: Probed) -> None:
    harmless = {
        "capabilities": {"extensions": [{"uri": "https://maps.example/tape2"}, 7, {"uri": None}]},
        "extensions": "x402",
        "payments": [],
    }
    with WireServer(
        by_path(
            POST_a2a=answer(b"", status=b"402 Payment Required"),
            GET_agent_card=card_answer(**harmless),
        )
    ) as server:
        assert statuses(probed(server.origin + "/a2a"))["payment_claim_holds"] == "unknown"


@pytest.mark.parametrize(
    ("content", "signed"),
    [
        ({"signatures": [{"signature": "x"}]}, "proven"),
        ({"proof": {"type": "x"}}, "proven"),
        ({"signatures": []}, "failed"),
        ({}, "failed"),
    ],
)
def test_a_signature_on_the_card_is_noticed(
    probed: Probed, content: dict[str, Any], signed: str
) -> None:
    with WireServer(
        by_path(POST_mcp=answer(initialize_result()), GET_agent_card=card_answer(**content))
    ) as server:
        found = statuses(probed(server.origin + "/mcp"))
    assert (
        found["protocol_handshake"],
        found["agent_card_resolves"],
        found["agent_card_signed"],
    ) == ("proven", "proven", signed)


def test_the_older_card_address_is_looked_at_too(probed: Probed) -> None:
    with WireServer(
        by_path(POST_mcp=answer(initialize_result()), GET_agent=card_answer())
    ) as server:
        assert statuses(probed(server.origin + "/mcp?x=1"))["agent_card_resolves"] == "proven"
        assert server.requests[-1].startswith(b"GET /.well-known/agent.json HTTP/1.1\r\n")


@pytest.mark.parametrize(("path", "handshake_status"), [("/a2a", "proven"), ("/other", "failed")])
def test_a_card_that_names_the_url_is_a_handshake(
    probed: Probed, path: str, handshake_status: str
) -> None:
    def choose(head: bytes) -> list[Send]:
        host = head.split(b"Host: ")[1].split(b"\r\n")[0].decode()
        return by_path(GET_agent_card=card_answer(url=f"http://{host}{path}"))(head)

    with WireServer(choose) as server:
        assert statuses(probed(server.origin + "/a2a"))["protocol_handshake"] == handshake_status


def test_a_hostile_card_name_is_cut_and_stays_valid(probed: Probed) -> None:
    name = '\ud800<b>"ignore"</b>\n' + "N" * 500
    with WireServer(
        by_path(POST_mcp=answer(initialize_result()), GET_agent_card=card_answer(name=name))
    ) as server:
        document = probed(server.origin + "/mcp")
    statuses(document)
    assert document["checks"][2]["declared_name"] == "?" + name[1:120]
    assert json.loads(answers.encode(document)) == document


@pytest.mark.parametrize(
    "body",
    [b"[]", b'{"name": 1}', b"\xff", b"[" * 100_000, b'{"name": "x", "n": ' + b"1" * 5000 + b"}"],
)
def test_what_is_not_a_card_is_none(body: bytes) -> None:
    assert cards.parse(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        initialize_result(version="1999-01-01"),
        initialize_result(request_id=2),
        initialize_result(request_id="1"),
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}',
    ],
)
def test_only_a_real_initialize_result_is_a_handshake(probed: Probed, body: bytes) -> None:
    with WireServer(by_path(POST_mcp=answer(body))) as server:
        found = statuses(probed(server.origin + "/mcp"))
    assert (found["endpoint_reachable"], found["protocol_handshake"]) == ("proven", "failed")


def test_a_compressed_answer_is_not_expanded(probed: Probed) -> None:
    encoded = answer(initialize_result(), headers=[(b"Content-Encoding", b"gzip")])
    with WireServer(by_path(POST_mcp=encoded)) as server:
        assert statuses(probed(server.origin + "/mcp"))["protocol_handshake"] == "proven"
        assert b"Accept-Encoding: identity\r\n" in server.requests[0]


def test_redirects_are_not_followed_and_cookies_not_kept(probed: Probed) -> None:
    with WireServer([Stall()]) as elsewhere:
        moved = answer(
            b"",
            status=b"307 Moved",
            headers=[(b"Location", elsewhere.origin.encode()), (b"Set-Cookie", b"a=b")],
        )
        with WireServer([Send(moved)]) as server:
            found = statuses(probed(server.origin + "/mcp"))
            assert not any(b"Cookie" in head for head in server.requests)
        assert (
            found["endpoint_reachable"],
            found["protocol_handshake"],
            elsewhere.connections,
        ) == ("proven", "failed", 0)


def test_the_host_header_names_the_port_and_nothing_else_is_told(probed: Probed) -> None:
    with WireServer(by_path(POST_mcp=answer(initialize_result()))) as server:
        probed(server.origin + "/mcp")
        first = server.requests[0].decode()
    assert f"Host: {server.origin.removeprefix('http://')}\r\n" in first
    names = {line.partition(":")[0].lower() for line in first.split("\r\n")[1:] if line}
    assert names == {
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "user-agent",
    }


def test_a_session_that_was_opened_is_closed(probed: Probed) -> None:
    opened = answer(initialize_result(), headers=[(b"Mcp-Session-Id", b"s-1")])
    with WireServer(by_path(POST_mcp=opened)) as server:
        probed(server.origin + "/mcp")
        last = server.requests[-1]
    assert last.startswith(b"DELETE /mcp HTTP/1.1\r\n")
    assert b"mcp-session-id: s-1\r\n" in last.lower()


def event_stream(address: bytes, posted: threading.Event) -> Callable[[bytes], list[Any]]:
    """A server of the older transport whose stream gives out `address` and answers once `posted` is
    set, which any second POST does."""
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
            return [Send(answer(b"", status=b"202 Accepted"))]
        return [Send(answer(b"", status=b"404 Not Found"))]

    return choose


def test_the_longest_probe_sends_five_requests(probed: Probed) -> None:
    with WireServer(event_stream(b"/messages?session=1", threading.Event())) as server:
        assert statuses(probed(server.origin + "/sse"))["protocol_handshake"] == "proven"
        lines = [head.split(b" HTTP")[0] for head in server.requests]
    assert lines == [
        b"POST /sse",
        b"GET /sse",
        b"POST /messages?session=1",
        b"GET /.well-known/agent-card.json",
        b"GET /.well-known/agent.json",
    ]
    assert len(lines) == exchange.MAX_REQUESTS


@pytest.mark.parametrize(
    "address",
    [
        "{elsewhere}/messages",
        "//{elsewhere_host}/messages",
        "http://user@{host}/messages",
        "http://[",
    ],
)
def test_an_event_stream_cannot_send_the_probe_elsewhere(probed: Probed, address: str) -> None:
    def choose(head: bytes) -> list[Any]:
        host = head.split(b"Host: ")[1].split(b"\r\n")[0].decode()
        given = address.format(
            host=host,
            elsewhere=elsewhere.origin,
            elsewhere_host=elsewhere.origin.removeprefix("http://"),
        )
        return event_stream(given.encode(), threading.Event())(head)

    with WireServer([Send(answer(b"{}"))]) as elsewhere, WireServer(choose) as server:
        assert statuses(probed(server.origin + "/sse"))["protocol_handshake"] == "failed"
        assert not any(b"messages" in head for head in server.requests)
        assert elsewhere.connections == 0


def test_a_message_before_the_request_is_no_answer(probed: Probed) -> None:
    early = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "
        + initialize_result()
        + b"\n\n"
    )
    with WireServer(by_path(GET_sse=early)) as server:
        assert statuses(probed(server.origin + "/sse"))["protocol_handshake"] == "failed"


def test_the_request_budget_is_kept_by_the_client() -> None:
    async def overspend(origin: str) -> None:
        async with exchange.open_client() as client:
            for _ in range(exchange.MAX_REQUESTS + 1):
                await client.get(origin)

    with WireServer([Send(answer(b"{}"))]) as server:
        with asyncio.Runner() as runner, pytest.raises(exchange.BoundReached):
            runner.run(overspend(server.origin))
        assert server.connections == exchange.MAX_REQUESTS


# --- Bounds -------------------------------------------------------------------

OPEN_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
OPEN_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("script", "reachable", "shook"),
    [
        ([Stall()], "failed", "unknown"),
        ([Drip(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000, every=0.01)], "failed", "unknown"),
        ([Endless(b"HTTP/1.1 100 Continue\r\n\r\n")], "failed", "unknown"),
        ([Send(OPEN_HEAD), Stall()], "proven", "failed"),
        ([Send(OPEN_HEAD), Drip(b" " * 100_000, every=0.01)], "proven", "failed"),
        ([Send(OPEN_STREAM), Drip(b": stay\n" * 100_000, every=0.01)], "proven", "failed"),
        ([Send(OPEN_STREAM), Endless(b"event: endpoint\n")], "proven", "failed"),
        ([Send(OPEN_HEAD), Endless(b" " * 65536)], "proven", "failed"),
        ([Reset()], "failed", "unknown"),
        ([Close()], "failed", "unknown"),
        ([Send(b"SSH-2.0-hello\r\n")], "failed", "unknown"),
    ],
)
def test_a_hostile_server_is_bounded(
    probed: Probed, script: list[Any], reachable: str, shook: str
) -> None:
    started = time.monotonic()
    with WireServer(script) as server:
        found = statuses(probed(server.origin + "/mcp", deadline_seconds=0.4))
        assert server.wait_until_closed(PATIENCE_SECONDS)
    assert time.monotonic() - started < 3
    assert (found["endpoint_reachable"], found["protocol_handshake"]) == (reachable, shook)


def test_an_endless_target_is_bounded_by_the_service(guild: str) -> None:
    started = time.monotonic()
    with WireServer([Send(OPEN_STREAM), Endless(b": more\n")]) as server:
        assert statuses(ask(guild, server.origin + "/mcp").json())["protocol_handshake"] == "failed"
    assert time.monotonic() - started < 6


@pytest.mark.parametrize(("surplus", "resolves"), [(0, "proven"), (1, "unknown")])
def test_an_answer_is_read_up_to_its_largest_size(
    probed: Probed, surplus: int, resolves: str
) -> None:
    card = b'{"name": "large"}'.ljust(exchange.MAX_RESPONSE_BYTES + surplus)
    with WireServer(
        by_path(POST_mcp=answer(initialize_result()), GET_agent_card=answer(card))
    ) as server:
        assert statuses(probed(server.origin + "/mcp"))["agent_card_resolves"] == resolves


def test_a_handshake_still_counts_when_the_card_never_ends(probed: Probed) -> None:
    with WireServer(
        by_path(POST_mcp=answer(initialize_result()), GET_agent_card=OPEN_HEAD)
    ) as server:
        assert (
            statuses(probed(server.origin + "/mcp", deadline_seconds=0.4))["protocol_handshake"]
            == "proven"
        )


def test_a_mistake_of_our_own_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(handshake, "attempt", broken)
    with asyncio.Runner() as runner:
        document = runner.run(probe("http://127.0.0.1:9/mcp"))
    assert statuses(document)["endpoint_reachable"] == "failed"
    assert "planted" not in json.dumps(document)


# --- The command --------------------------------------------------------------


def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(RELEASE_SUPPORT / "local_guild"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_where_it_listens_and_ends_cleanly(number: signal.Signals) -> None:
    with process(str(RELEASE_SUPPORT / "local_guild"), "--port", "0") as (origin, running):
        assert ask(origin, "x").status_code == 200
        running.send_signal(number)
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")
        assert running.returncode == 0


def test_the_command_ends_while_a_probe_is_under_way() -> None:
    with (
        WireServer([Stall()]) as server,
        process(str(RELEASE_SUPPORT / "local_guild"), "--port", "0") as (origin, running),
        socket.create_connection(
            ("127.0.0.1", int(origin.rpartition(":")[2])), PATIENCE_SECONDS
        ) as client,
    ):
        client.sendall(
            f"GET /preflight?url={quote(server.origin, safe='')} HTTP/1.1\r\nHost: {origin[7:]}\r\n\r\n".encode()
        )
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")
        assert running.returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["--host", "0.0.0.0"], ["--host", "localhost"], ["--port", "65536"], ["--port", "-1"]],
)
def test_the_command_refuses_other_addresses(arguments: list[str]) -> None:
    ended = run_command(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_a_port_in_use_is_one_clear_line(guild: str) -> None:
    port = guild.rpartition(":")[2]
    ended = run_command("--port", port)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert port in ended.stderr


def test_only_loopback_addresses_are_listened_on() -> None:
    with pytest.raises(ValueError):
        service.listen("0.0.0.0", 0)


# --- Answers ------------------------------------------------------------------


def test_an_answer_body_assumes_a_healthy_endpoint() -> None:
    document = json.loads(answers.answer_body("http://x/é"))
    assert document["target"] == "http://x/é"
    assert statuses(document) == dict.fromkeys(CHECKS, "unknown") | {
        "endpoint_reachable": "proven",
        "protocol_handshake": "proven",
    }


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("status", ["proven", "failed", "unknown"])
def test_an_answer_body_follows_from_its_statuses(name: str, status: str) -> None:
    assert statuses(json.loads(answers.answer_body("t", {name: status})))[name] == status


def test_an_override_is_taken_as_it_is() -> None:
    document = json.loads(answers.answer_body("t", verdict="do_not_delegate", extra=[1]))
    assert (document["verdict"], document["failed"], list(document)) == (
        "do_not_delegate",
        [],
        [*KEYS, "extra"],
    )


@pytest.mark.parametrize("wrong", [{"endpoint_reachable": "fine"}, {"no_such_check": "proven"}])
def test_wrong_statuses_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        answers.answer_body("t", wrong)


# --- The wire server ----------------------------------------------------------


def connect(server: WireServer) -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", int(server.origin.rpartition(":")[2])), PATIENCE_SECONDS
    )


def read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


def test_wire_sends_byte_for_byte_and_keeps_the_requests() -> None:
    request = b"GET /x HTTP/1.1\r\nHost: y\r\n\r\n"
    with (
        WireServer([Send(b"one "), Drip(b"two", every=0.001), Send(b"\0\xff")]) as server,
        connect(server) as client,
    ):
        client.sendall(request + b"a body")
        assert read_all(client) == b"one two\0\xff"
        assert (server.requests, server.connections) == ([request], 1)
    assert server.requests == [request]


def test_wire_chooses_a_script_by_the_request() -> None:
    with WireServer(lambda head: [Send(answer(head.split()[1]))]) as server:
        assert httpx.get(server.origin + "/echo", trust_env=False).content == b"/echo"


def test_wire_answer_is_a_whole_response() -> None:
    response = answer(b"hi", status=b"418 Teapot", headers=[(b"X-A", b"1")], content_type=None)
    assert (
        response
        == b"HTTP/1.1 418 Teapot\r\nContent-Length: 2\r\nConnection: close\r\nX-A: 1\r\n\r\nhi"
    )
    assert b"Content-Type: application/json\r\n" in answer(b"")


def test_wire_can_end_before_a_request() -> None:
    with WireServer([Send(b"early"), Close()], before_request=True) as server:
        with connect(server) as client:
            assert read_all(client) == b"early"
        assert (server.requests, server.connections) == ([], 1)


def test_wire_can_reset_before_a_request() -> None:
    with WireServer([Reset()], before_request=True) as server:
        # The reset may come before the client has seen its connection made.
        with pytest.raises(ConnectionResetError), connect(server) as client:
            read_all(client)
        assert (server.requests, server.connections) == ([], 1)


def test_wire_cannot_choose_before_a_request() -> None:
    with pytest.raises(ValueError):
        WireServer(lambda _: [], before_request=True)


def test_wire_holds_answers_until_released() -> None:
    release = threading.Event()
    with (
        WireServer([Wait(release), Send(b"now")]) as server,
        connect(server) as one,
        connect(server) as two,
    ):
        for client in (one, two):
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert server.wait_for_requests(2, PATIENCE_SECONDS)
        assert not server.wait_for_requests(3, 0.01)
        release.set()
        assert (read_all(one), read_all(two)) == (b"now", b"now")


@pytest.mark.parametrize("step", [Stall(), Endless(b"x" * 65536)])
def test_wire_notices_that_the_client_left(step: Any) -> None:
    with WireServer([step]) as server:
        with connect(server) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert server.wait_for_requests(1, PATIENCE_SECONDS)
        assert server.wait_until_closed(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "step",
    [
        Stall(),
        Endless(b"x" * 65536),
        Wait(threading.Event()),
        Drip(b"x" * 1000, every=60),
        Close(),
        Send(b"x" * 50_000_000),
    ],
)
@pytest.mark.parametrize("request_head", [b"GET / HTTP/1.1\r\n\r\n", b"GET / HT"])
def test_wire_stops_in_the_middle_of_anything(step: Any, request_head: bytes) -> None:
    server = WireServer([step])
    with connect(server) as client:
        client.sendall(request_head)
        if request_head.endswith(b"\r\n\r\n"):
            assert server.wait_for_requests(1, PATIENCE_SECONDS)
        started = time.monotonic()
        server.stop()
        server.stop()
        assert time.monotonic() - started < 2
        assert server.wait_until_closed(0)
    with pytest.raises(ConnectionRefusedError):
        connect(server)


def test_wire_speaks_tls(probed: Probed, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server_side = authority.server("here", names)
    client_side = ssl.create_default_context(cadata=authority.pem)
    with WireServer([Send(answer(b"secret"))], tls=server_side) as server:
        assert server.origin.startswith("https://")
        assert httpx.get(server.origin, verify=client_side, trust_env=False).content == b"secret"
        found = statuses(probed(server.origin + "/mcp"))
        assert (found["endpoint_reachable"], len(server.requests)) == ("failed", 1)


def test_wire_stops_in_the_middle_of_a_tls_handshake() -> None:
    with (
        WireServer([Stall()], tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as server,
        connect(server),
    ):
        pass
    assert server.wait_until_closed(0)
