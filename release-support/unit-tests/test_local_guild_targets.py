"""What the local preflight service says of the servers that are out there, one row for each kind.

Letters are p proven, f failed, u unknown, in the order of the checks. Where the public service says
something of the kind, ours never allows what it refuses.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from local_guild.wire import ECHOED_ID, Send, WireServer, answer
from local_guild_probing import (
    CHECKS,
    MCP_SERVER,
    Probed,
    by_path,
    card_answer,
    initialize_result,
    process,
    statuses,
)

Responses = dict[tuple[str, str], bytes]

NOT_FOUND = answer(b"<pre>Cannot GET</pre>", status=b"404 Not Found", content_type=b"text/html")
WEB_PAGE = answer(b"<!doctype html><h1>Welcome</h1>", content_type=b"text/html")
BROKEN = answer(b"", status=b"500 Internal Server Error")
MOVED = answer(b"", status=b"307 Temporary Redirect", headers=[(b"Location", b"/mcp/")])
UNAUTHORIZED = answer(b"", status=b"401 Unauthorized", headers=[(b"WWW-Authenticate", b"Bearer")])
FORBIDDEN = answer(b"", status=b"403 Forbidden")
PAYMENT_REQUIRED = answer(b'{"x402Version": 1}', status=b"402 Payment Required")

SIGNATURES = [{"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "c2lnbmVk"}]
PAID = {"signatures": SIGNATURES, "x402": {"asset": "coin", "amount": "1"}}


@contextmanager
def sdk(way: str) -> Iterator[str]:
    """The official Python SDK."""
    with process("-c", MCP_SERVER, way) as (origin, _):
        yield origin


@contextmanager
def scripted(responses: Responses) -> Iterator[str]:
    """A server that answers these methods and paths, and all else with 404. `{origin}` in the body
    of an answer becomes the server's own."""

    def choose(head: bytes) -> list[Send]:
        method, path, _ = head.decode().split(" ", 2)
        return [Send(responses.get((method, path), NOT_FOUND))]

    with WireServer(choose) as server:
        own = server.origin.encode()
        for key, response in responses.items():
            before, _, body = response.partition(b"\r\n\r\n")
            if b"{origin}" in body:
                kind = before.partition(b"Content-Type: ")[2].partition(b"\r\n")[0]
                responses[key] = answer(body.replace(b"{origin}", own), content_type=kind)
        yield server.origin


def typescript(stateful: bool) -> Responses:
    """The official TypeScript SDK under Express: answers are event streams."""
    stream = b"event: message\ndata: " + initialize_result() + b"\n\n"
    session = [(b"mcp-session-id", b"7e9b64b6-4f3e-4f43-8ad1-4b6f1a6a4d1c")] if stateful else []
    refusal = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}'
    return {
        ("POST", "/mcp"): answer(stream, content_type=b"text/event-stream", headers=session),
        ("GET", "/mcp"): answer(refusal, status=b"405 Method Not Allowed"),
        ("DELETE", "/mcp"): answer(b"", content_type=None),
    }


def only_later_version() -> Responses:
    """A server that offers one protocol version that the client does not know."""
    return {("POST", "/mcp"): answer(initialize_result(version="2026-07-28"))}


def refusing_version() -> Responses:
    error = {"code": -32602, "message": "Unsupported", "data": {"supported": ["2026-07-28"]}}
    body = json.dumps({"jsonrpc": "2.0", "id": ECHOED_ID, "error": error}).encode()
    return {("POST", "/mcp"): answer(body, status=b"400 Bad Request")}


def with_card(endpoint: bytes, path: str = "/mcp", **content: Any) -> Responses:
    """An endpoint that always answers so, with a card of its own that names its URL."""
    card = card_answer(url="{origin}" + path, **content)
    return {
        ("POST", path): endpoint,
        ("GET", path): endpoint,
        ("GET", "/.well-known/agent-card.json"): card,
    }


def paid(root: bytes = NOT_FOUND) -> Responses:
    """A server whose card asks for payment, while its `initialize` is free."""
    return with_card(answer(initialize_result()), **PAID) | {("GET", "/"): root}


ROWS: list[tuple[str, Callable[[], Any], str, str]] = [
    ("the Python SDK with its host guard", lambda: sdk("guarded"), "/mcp", "ppuuuu"),
    ("the Python SDK without that guard", lambda: sdk("unguarded"), "/mcp", "ppuuuu"),
    ("the Python SDK, stateless, in JSON", lambda: sdk("stateless"), "/mcp", "ppuuuu"),
    ("TypeScript SDK, stateful", lambda: scripted(typescript(True)), "/mcp", "ppuuuu"),
    ("TypeScript SDK, stateless", lambda: scripted(typescript(False)), "/mcp", "ppuuuu"),
    ("legacy SSE", lambda: sdk("sse"), "/sse", "ppuuuu"),
    ("MCP at /api", lambda: sdk("api"), "/api", "ppuuuu"),
    ("401", lambda: scripted({("POST", "/mcp"): UNAUTHORIZED}), "/mcp", "pufuuu"),
    ("403", lambda: scripted({("POST", "/mcp"): FORBIDDEN}), "/mcp", "pufuuu"),
    ("402", lambda: scripted({("POST", "/mcp"): PAYMENT_REQUIRED}), "/mcp", "pffuuu"),
    ("/mcp redirecting to /mcp/", lambda: sdk("mounted"), "/mcp", "pffuuu"),
    ("the same with its slash", lambda: sdk("mounted"), "/mcp/", "ppuuuu"),
    ("a later version only", lambda: scripted(only_later_version()), "/mcp", "pffuuu"),
    ("a later version, as an error", lambda: scripted(refusing_version()), "/mcp", "pffuuu"),
    ("a web page with a card", lambda: scripted(with_card(WEB_PAGE, proof=1)), "/mcp", "pfpfuu"),
    ("500 with a card", lambda: scripted(with_card(BROKEN, proof=1)), "/mcp", "pfpfuu"),
    ("307 with a card", lambda: scripted(with_card(MOVED, proof=1)), "/mcp", "pfpfuu"),
    (
        "a web page with a signed card",
        lambda: scripted(with_card(WEB_PAGE, signatures=SIGNATURES)),
        "/mcp",
        "pfppuu",
    ),
    (
        "an A2A path with a signed card",
        lambda: scripted(with_card(NOT_FOUND, "/a2a", signatures=SIGNATURES)),
        "/a2a",
        "pfppuu",
    ),
    (
        "401 with a signed card",
        lambda: scripted(with_card(UNAUTHORIZED, signatures=SIGNATURES)),
        "/mcp",
        "puppuu",
    ),
    ("401 with a paid card", lambda: scripted(with_card(UNAUTHORIZED, **PAID)), "/mcp", "puppuu"),
    ("a paid card, initialize free", lambda: scripted(paid()), "/mcp", "ppppuu"),
    ("the same, the root answers 402", lambda: scripted(paid(PAYMENT_REQUIRED)), "/mcp", "pppppu"),
    (
        "a paid card, the URL answers 402",
        lambda: scripted(with_card(PAYMENT_REQUIRED, **PAID)),
        "/mcp",
        "pfpppu",
    ),
    ("a paid card on a web page", lambda: scripted(with_card(WEB_PAGE, **PAID)), "/mcp", "pfppfu"),
]


@pytest.mark.parametrize(
    ("server", "path", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_said_of_a_server(
    probed: Probed, server: Callable[[], Any], path: str, expected: str
) -> None:
    with server() as origin:
        found = statuses(probed(origin + path))
    assert "".join(found[name][0] for name in CHECKS) == expected


SIGNATURE = {"signature": "c2lnbmVk"}
PROOF = {"type": "DataIntegrityProof", "proofValue": "z"}


@pytest.mark.parametrize(
    ("content", "signed"),
    [
        ({"signatures": [SIGNATURE]}, "proven"),
        ({"signatures": SIGNATURES}, "proven"),
        ({"signatures": [1, SIGNATURE]}, "proven"),
        ({"proof": PROOF}, "proven"),
        ({"proof": [PROOF]}, "proven"),
        ({"signatures": [], "proof": PROOF}, "proven"),
        ({}, "failed"),
        ({"signatures": []}, "failed"),
        ({"signatures": 1}, "failed"),
        ({"signatures": "signed"}, "failed"),
        ({"signatures": True}, "failed"),
        ({"signatures": SIGNATURE}, "failed"),
        ({"signatures": ["c2lnbmVk"]}, "failed"),
        ({"signatures": [{}]}, "failed"),
        ({"signatures": [{"signature": ""}]}, "failed"),
        ({"signatures": [{"signature": 1}]}, "failed"),
        ({"signatures": [{"signature": "c2lnbmVk", "protected": 1}]}, "failed"),
        ({"proof": 1}, "failed"),
        ({"proof": True}, "failed"),
        ({"proof": "signed"}, "failed"),
        ({"proof": {}}, "failed"),
        ({"proof": {"type": 1}}, "failed"),
        ({"proof": ["signed"]}, "failed"),
        ({"proof": []}, "failed"),
    ],
)
def test_a_signature_is_present_if_it_has_the_shape_of_one(
    probed: Probed, content: dict[str, Any], signed: str
) -> None:
    with scripted(with_card(answer(initialize_result()), **content)) as origin:
        found = statuses(probed(origin + "/mcp"))
    assert (found["protocol_handshake"], found["agent_card_resolves"]) == ("proven", "proven")
    assert found["agent_card_signed"] == signed


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
    ("endpoint", "root", "holds"),
    [
        (PAYMENT_REQUIRED, NOT_FOUND, "proven"),
        (WEB_PAGE, PAYMENT_REQUIRED, "proven"),
        (WEB_PAGE, WEB_PAGE, "failed"),
        (answer(initialize_result()), WEB_PAGE, "unknown"),
        (UNAUTHORIZED, WEB_PAGE, "unknown"),
    ],
)
def test_a_payment_claim_holds_if_payment_is_asked_for(
    probed: Probed, claim: dict[str, Any], endpoint: bytes, root: bytes, holds: str
) -> None:
    with scripted(with_card(endpoint, **claim) | {("GET", "/"): root}) as origin:
        assert statuses(probed(origin + "/mcp"))["payment_claim_holds"] == holds


def test_a_card_without_a_claim_leaves_payment_unknown_and_the_root_alone(probed: Probed) -> None:
    harmless: dict[str, Any] = {
        "capabilities": {"extensions": [{"uri": "https://maps.example/tape2"}, 7, {"uri": None}]},
        "extensions": "x402",
        "payments": [],
    }
    answers = by_path(POST_mcp=answer(initialize_result()), GET_agent_card=card_answer(**harmless))
    with WireServer(answers) as server:
        assert statuses(probed(server.origin + "/mcp"))["payment_claim_holds"] == "unknown"
        assert [head.split()[1] for head in server.requests] == [
            b"/mcp",
            b"/.well-known/agent-card.json",
        ]
