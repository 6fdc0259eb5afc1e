"""What a server can make the local preflight service do, and no more."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from local_guild import allowance, exchange, handshake
from local_guild.addresses import Addresses
from local_guild.probe import probe
from local_guild.wire import Close, Drip, Endless, Reset, Send, Stall, WireServer, answer
from local_guild_probing import (
    PATIENCE_SECONDS,
    Probed,
    ask,
    by_path,
    initialize_result,
    statuses,
)

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


def test_the_request_budget_is_kept_by_the_client() -> None:
    async def overspend(origin: str) -> None:
        url = httpx.URL(origin)
        client = exchange.Client(url, Addresses([url.host], url.port or 0))
        for _ in range(allowance.MAX_REQUESTS + 1):
            async with client.request("GET", b"/", {}) as response:
                assert response.status == 200

    with WireServer([Send(answer(b"{}"))]) as server:
        with asyncio.Runner() as runner, pytest.raises(allowance.BoundReached):
            runner.run(overspend(server.origin))
        assert server.connections == allowance.MAX_REQUESTS


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
        document = runner.run(probe("http://127.0.0.1:9/mcp")).answer
    assert statuses(document)["endpoint_reachable"] == "failed"
    assert "planted" not in json.dumps(document)
