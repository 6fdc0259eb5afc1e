"""What a probe of the local preflight service finds out about a server."""

import json
import threading
from typing import Any

import pytest
from local_guild import allowance, answers, cards
from local_guild.wire import ECHOED_ID, Send, Stall, WireServer, answer
from local_guild_probing import (
    Probed,
    by_path,
    card_answer,
    event_stream,
    initialize_result,
    statuses,
)


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


def test_the_older_card_address_is_looked_at_too(probed: Probed) -> None:
    with WireServer(
        by_path(POST_mcp=answer(initialize_result()), GET_agent=card_answer())
    ) as server:
        assert statuses(probed(server.origin + "/mcp?x=1"))["agent_card_resolves"] == "proven"
        assert server.requests[-1].startswith(b"GET /.well-known/agent.json HTTP/1.1\r\n")


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
    [b"[]", b'{"name": 1}', b"\xff", b"[" * 4000, b'{"name": "x", "n": ' + b"1" * 5000 + b"}"],
)
def test_what_is_not_a_card_is_none(body: bytes) -> None:
    assert cards.parse(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        initialize_result(version="1999-01-01"),
        initialize_result(request_id=1),  # of a stored document
        initialize_result(request_id=str(ECHOED_ID)),
        b'{"jsonrpc": "2.0", "id": 9999999999, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 9999999999, "error": {"code": -1, "message": "no"}}',
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
    assert len(lines) == allowance.MAX_REQUESTS


@pytest.mark.parametrize(
    "address",
    [
        "{elsewhere}/messages",
        "//{elsewhere_host}/messages",
        "http://user@{host}/messages",
        "http://[",
        "/messages?" + "x" * 2048,
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


def test_an_accepted_request_is_not_answered_by_what_comes_with_it(probed: Probed) -> None:
    accepted = answer(initialize_result(), status=b"202 Accepted")
    with WireServer(by_path(POST_mcp=accepted)) as server:
        assert statuses(probed(server.origin + "/mcp"))["protocol_handshake"] == "failed"


@pytest.mark.parametrize("status", [b"404 Not Found", b"405 Method Not Allowed", b"302 Found"])
def test_a_stream_does_not_answer_a_request_that_was_not_accepted(
    probed: Probed, status: bytes
) -> None:
    with WireServer(event_stream(b"/messages", threading.Event(), status)) as server:
        assert statuses(probed(server.origin + "/sse"))["protocol_handshake"] == "failed"


def test_a_stored_stream_is_no_answer(probed: Probed) -> None:
    stored = (
        b"event: endpoint\ndata: /messages\n\ndata: " + initialize_result(request_id=1) + b"\n\n"
    )
    responses = {
        "GET_sse": answer(stored, content_type=b"text/event-stream"),
        "POST_messages": answer(b"", status=b"202 Accepted"),
    }
    with WireServer(by_path(**responses)) as server:
        assert statuses(probed(server.origin + "/sse"))["protocol_handshake"] == "failed"


def test_a_message_before_the_request_is_no_answer(probed: Probed) -> None:
    early = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: "
        + initialize_result()
        + b"\n\n"
    )
    with WireServer(by_path(GET_sse=early)) as server:
        assert statuses(probed(server.origin + "/sse"))["protocol_handshake"] == "failed"
