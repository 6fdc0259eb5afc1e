"""What a server can make the local preflight service do, and no more."""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from local_guild import allowance, documents, events, exchange, handshake
from local_guild.addresses import Addresses
from local_guild.probe import probe
from local_guild.wire import Close, Drip, Endless, Line, Reset, Send, Stall, WireServer, answer
from local_guild_probing import (
    PATIENCE_SECONDS,
    RELEASE_SUPPORT,
    Probed,
    ask,
    by_path,
    connect,
    initialize_result,
    request_head,
    run,
    statuses,
)

# Probes one target many times at once; prints for how long that held the loop.
CROWD = """
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
from local_guild.probe import probe
async def crowd():
    await probe(sys.argv[2], deadline_seconds=1)
    started = time.thread_time()
    await asyncio.gather(*(probe(sys.argv[2], deadline_seconds=2) for _ in range(31)))
    return time.thread_time() - started
print(asyncio.run(crowd()))
"""

OTHERS = 31
# A tenth of two seconds is 0.2; the rest is for slower machines.
MOST_CPU_SECONDS = 0.4
DISTANCE_SECONDS = 1.0
MOST_DELAY_SECONDS = 1.0


@dataclass(frozen=True)
class Pause:
    """Say nothing for a while."""

    seconds: float

    def play(self, line: Line) -> None:
        line.stopping.wait(self.seconds)


def chunked(*chunks: bytes, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % kind
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


def with_lists(count: int) -> bytes:
    """An `initialize` result with so many lists and objects in it."""
    surplus = ["[]"] * (count - initialize_result().count(b"{") - 3)
    experimental = {"experimental": {"a": {"b": "@"}}}
    text = initialize_result().decode().replace('"capabilities": {}', '"capabilities": @')
    capabilities = json.dumps(experimental).replace('"@"', f"[{','.join(surplus)}]")
    return text.replace("@", capabilities).encode()


OPEN_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
OPEN_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
HEALTHY = answer(initialize_result())
MANY_PIECES = [b" "] * (allowance.MAX_PIECES - 1)


def stream(before: bytes) -> bytes:
    """An event stream with the `initialize` result as its last event."""
    return OPEN_STREAM + before + b"data: " + initialize_result() + b"\n\n"


HOSTILE: dict[str, list[Any]] = {
    "continue": [Endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)],
    "early hints": [
        Endless((b"HTTP/1.1 103 Early Hints\r\n" + b"Link: <x>\r\n" * 9 + b"\r\n") * 99)
    ],
    "head lines": [Send(b"HTTP/1.1 200 OK\r\n"), Endless(b"a:\r\n" * 10_000)],
    "head bytes": [Send(b"HTTP/1.1 200 OK\r\nA: "), Endless(b"a" * 65536)],
    "head drops": [Send(b"HTTP/1.1 200 OK\r\nA: "), Endless(b"a")],
    "body": [Send(OPEN_HEAD), Endless(b" " * 65536)],
    "body drops": [Send(OPEN_HEAD), Endless(b" ")],
    "chunks": [Send(chunked()), Endless(b"1\r\n \r\n" * 5000)],
    "trailers": [Send(chunked(b" ") + b"0\r\n"), Endless(b"a:\r\n" * 5000)],
    "events": [Send(OPEN_STREAM), Endless(b"data:x\n\n" * 5000)],
    "event drops": [Send(OPEN_STREAM), Endless(b"data:x\n\n")],
    "lines": [Send(OPEN_STREAM), Endless(b"\n" * 65536)],
    "lists": [Send(answer(with_lists(20_000)))],
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_what_a_crowd_of_hostile_servers_costs_the_others(script: list[Any]) -> None:
    with WireServer(script) as server:
        ended = run("-c", CROWD, str(RELEASE_SUPPORT), server.origin + "/mcp")
    assert ended.stderr == ""
    assert float(ended.stdout) < MOST_CPU_SECONDS


@pytest.mark.parametrize("kind", ["continue", "chunks", "events", "lists"])
def test_a_healthy_server_is_proven_as_fast_among_hostile_ones(guild: str, kind: str) -> None:
    def healthy(head: bytes) -> list[Any]:
        if head.startswith(b"POST "):
            return [Pause(DISTANCE_SECONDS), Send(answer(initialize_result()))]
        return [Send(answer(b"", status=b"404 Not Found"))]

    with (
        WireServer(HOSTILE[kind]) as hostile,
        WireServer(healthy) as server,
        contextlib.ExitStack() as opened,
    ):
        for _ in range(OTHERS):
            client = opened.enter_context(connect(guild))
            client.sendall(request_head(guild, hostile.origin + "/mcp"))
        started = time.monotonic()
        document = ask(guild, server.origin + "/mcp").json()
        assert time.monotonic() - started < DISTANCE_SECONDS + MOST_DELAY_SECONDS
        assert document["verdict"] == "no_failed_checks"


@pytest.mark.parametrize(
    ("response", "shook"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" * (exchange.MAX_HEADS - 1) + HEALTHY, "proven"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * exchange.MAX_HEADS + HEALTHY, "unknown"),
        (
            answer(initialize_result(), headers=[(b"A", b"")] * (exchange.MAX_HEAD_LINES - 5)),
            "proven",
        ),
        (
            answer(initialize_result(), headers=[(b"A", b"")] * (exchange.MAX_HEAD_LINES - 4)),
            "unknown",
        ),
        (answer(initialize_result(), headers=[(b"A", b"a" * 16_000)]), "proven"),
        (answer(initialize_result(), headers=[(b"A", b"a" * 17_000)]), "unknown"),
        (chunked(*MANY_PIECES, initialize_result(), b""), "proven"),
        (chunked(b" ", *MANY_PIECES, initialize_result(), b""), "failed"),
        (stream(b"\n" * (events.MAX_LINES - 2)), "proven"),
        (stream(b"\n" * (events.MAX_LINES - 1)), "failed"),
        (stream(b"data:\n\n" * (events.MAX_EVENTS - 1)), "proven"),
        (stream(b"data:\n\n" * events.MAX_EVENTS), "failed"),
        (answer(with_lists(documents.MAX_CONTAINERS)), "proven"),
        (answer(with_lists(documents.MAX_CONTAINERS + 1)), "failed"),
    ],
)
def test_each_bound_is_where_it_stands(probed: Probed, response: bytes, shook: str) -> None:
    with WireServer(by_path(POST_mcp=response)) as server:
        found = statuses(probed(server.origin + "/mcp"))
    assert found["protocol_handshake"] == shook


@pytest.mark.parametrize("kind", ["continue", "head lines", "body", "chunks", "events", "lists"])
def test_a_server_that_goes_beyond_a_bound_is_asked_nothing_more(probed: Probed, kind: str) -> None:
    with WireServer(HOSTILE[kind]) as server:
        probed(server.origin + "/mcp")
        assert server.connections == 1


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


def test_the_bytes_of_a_probe_are_counted_over_all_its_reads() -> None:
    async def take_all() -> None:
        granted = allowance.Allowance()
        for _ in range(allowance.MAX_BYTES // 4096):
            await granted.take_bytes(4096)
        with pytest.raises(allowance.BoundReached):
            await granted.take_bytes(1)

    with asyncio.Runner() as runner:
        runner.run(take_all())


@pytest.mark.parametrize(("size", "waits"), [(1, True), (allowance.DROP_BYTES, False)])
def test_drops_are_waited_for_and_larger_reads_are_not(size: int, waits: bool) -> None:
    async def take_many() -> float:
        granted = allowance.Allowance()
        for _ in range(allowance.FREE_DROPS):
            await granted.take_bytes(size)
        started = time.monotonic()
        for _ in range(10):
            await granted.take_bytes(size)
        return time.monotonic() - started

    with asyncio.Runner() as runner:
        assert (runner.run(take_many()) > 5 * allowance.DROP_PAUSE_SECONDS) is waits
