"""Who calls the local preflight service, and cannot keep it from answering others, or from ending."""

import contextlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from local_guild import callers, service
from local_guild.wire import Drip, Endless, Send, Stall, Wait, WireServer, answer
from local_guild_probing import (
    NAMED_GUILD,
    PATIENCE_SECONDS,
    RELEASE_SUPPORT,
    ask,
    connect,
    initialize_result,
    process,
    read_all,
    request_head,
    statuses,
    world,
)

CALLERS = 256
# What a busy machine may add to a bound.
SLACK_SECONDS = 1.0
# What twelve probes may take together: it would be ten times as much.
HELD_UP_SECONDS = 0.5
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def many(count: int, origin: str) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(connect(origin)) for _ in range(count)]


@pytest.mark.parametrize("start", [b"", b"GET /preflight?url=x HTTP/1.1\r\nHost: "])
def test_silent_connections_block_nobody_and_are_ended(guild: str, start: bytes) -> None:
    with many(CALLERS, guild) as silent:
        for client in silent:
            with contextlib.suppress(OSError):  # the oldest have been ended already
                client.sendall(start)
        started = time.monotonic()
        assert ask(guild, "x").status_code == 200
        with contextlib.suppress(ConnectionError):
            assert read_all(silent[CALLERS - callers.MAX_SILENT - 1]) == b""
        assert time.monotonic() - started < SLACK_SECONDS
        for client in silent:
            with contextlib.suppress(ConnectionError):  # ended on a start that was not read
                assert read_all(client) == b""
        assert time.monotonic() - started < callers.HEAD_SECONDS + SLACK_SECONDS


def test_a_request_that_drips_has_no_more_time_than_a_silent_one(guild: str) -> None:
    started = time.monotonic()
    with connect(guild) as client:
        client.settimeout(0.1)
        for byte in request_head(guild, "x" * 1000):
            try:
                client.sendall(bytes([byte]))
                if not client.recv(1):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    assert time.monotonic() - started < callers.HEAD_SECONDS + SLACK_SECONDS


def test_a_head_without_end_is_refused(guild: str) -> None:
    with connect(guild) as client, contextlib.suppress(ConnectionError):
        client.sendall(b"GET /preflight?url=x HTTP/1.1\r\nX: " + b"x" * 100_000)
        assert read_all(client).split()[1] == b"400"


def blanks(begin: bytes) -> bytes:
    """A head that is none in the end, of the permitted size: the HTTP library tries every part of
    its blanks anew, for a second."""
    return begin + b"x:" + b" " * (callers.MAX_HEAD_BYTES - len(begin) - 16) + b"\0\r\n\r\n"


CALLED = blanks(b"GET / HTTP/1.1\r\n")


def test_heads_of_blanks_are_refused_and_hold_up_nobody(guild: str) -> None:
    with many(20, guild) as hostile:
        started = time.monotonic()
        for client in hostile:
            client.sendall(CALLED)
        assert ask(guild, "x").status_code == 200
        assert {read_all(client).split()[1] for client in hostile} == {b"400"}
        assert time.monotonic() - started < SLACK_SECONDS


@pytest.mark.parametrize(
    "answered",
    [
        blanks(b"HTTP/1.1 200 OK\r\n"),
        CHUNKED + b"1;" + b" " * 4000 + b"\n\r\n",
        CHUNKED + b"0\r\nx:" + b" " * 4000 + b"\0\r\n\r\n",
    ],
    ids=["head", "size", "trailer"],
)
def test_probed_servers_that_answer_with_blanks_hold_up_no_other_probe(
    guild: str, answered: bytes
) -> None:
    def hostile(head: bytes) -> list[Any]:
        return [Send(answered), Stall()]

    def healthy(head: bytes) -> list[Any]:
        missing = answer(b"", status=b"404 Not Found")
        return [Send(answer(initialize_result()) if head.startswith(b"POST ") else missing)]

    with WireServer(hostile) as bad, WireServer(healthy) as good, many(12, guild) as waiting:
        started = time.monotonic()
        for client in waiting:
            client.sendall(request_head(guild, bad.origin + "/mcp"))
        assert bad.wait_for_requests(1, PATIENCE_SECONDS)
        found = statuses(ask(guild, good.origin + "/mcp").json())
        assert found["protocol_handshake"] == "proven"
        assert time.monotonic() - started < HELD_UP_SECONDS
        assert {read_all(client).split()[1] for client in waiting} == {b"200"}
        assert time.monotonic() - started < HELD_UP_SECONDS


def test_so_many_are_probed_at_once_and_the_others_wait_or_are_told(guild: str) -> None:
    release = threading.Event()
    page = Send(answer(b"<p>hello", content_type=b"text/html"))
    with (
        WireServer([Wait(release), page]) as server,
        many(callers.MAX_ANSWERED, guild) as waiting,
    ):
        for client in waiting:
            client.sendall(request_head(guild, server.origin + "/mcp"))
        assert server.wait_for_requests(service.MAX_PROBES, PATIENCE_SECONDS)
        assert not server.wait_for_requests(service.MAX_PROBES + 1, 0.2)
        with connect(guild) as late:
            late.sendall(request_head(guild, server.origin + "/mcp"))
            assert read_all(late).split()[1] == b"503"
        release.set()
        assert {read_all(client).split()[1] for client in waiting} == {b"200"}
    assert ask(guild, "x").status_code == 200


def test_a_caller_that_goes_away_ends_its_probe(guild: str) -> None:
    with WireServer([Stall()]) as server:
        with connect(guild) as client:
            client.sendall(request_head(guild, server.origin + "/mcp"))
            assert server.wait_for_requests(1, PATIENCE_SECONDS)
        assert server.wait_until_closed(SLACK_SECONDS)


def test_a_session_that_cannot_be_closed_costs_the_caller_nothing(guild: str) -> None:
    opened = answer(initialize_result(), headers=[(b"Mcp-Session-Id", b"s-1")])

    def choose(head: bytes) -> list[Any]:
        if head.startswith(b"DELETE "):
            return [Stall()]
        missing = answer(b"", status=b"404 Not Found")
        return [Send(opened if head.startswith(b"POST ") else missing)]

    with WireServer(choose) as server:
        started = time.monotonic()
        found = statuses(ask(guild, server.origin + "/mcp").json())
        assert time.monotonic() - started < SLACK_SECONDS
        assert found["protocol_handshake"] == "proven"
        assert server.wait_for_requests(4, PATIENCE_SECONDS)
        assert server.requests[-1].startswith(b"DELETE /mcp ")
        assert server.wait_until_closed(PATIENCE_SECONDS)


# --- The end -------------------------------------------------------------------


def assert_ends_in_time(running: "subprocess.Popen[str]") -> None:
    started = time.monotonic()
    running.send_signal(signal.SIGTERM)
    assert running.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    assert time.monotonic() - started < service.SHUTDOWN_SECONDS + SLACK_SECONDS
    assert running.returncode == 0


STREAM = Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")


@pytest.mark.parametrize(
    "script",
    [
        [Stall()],
        [Endless(b"HTTP/1.1 100 Continue\r\n\r\n")],
        [STREAM, Endless(b"data: {}\n\n")],
        [STREAM, Drip(b"data: {}\n\n" * 10_000, every=0.001)],
    ],
    ids=["silent", "continue", "events", "drops"],
)
def test_the_service_ends_in_time_under_its_probes(script: list[Any]) -> None:
    command = str(RELEASE_SUPPORT / "local_guild")
    with (
        WireServer(script) as server,
        process(command, "--port", "0") as (origin, running),
        many(8, origin) as clients,
    ):
        for client in clients:
            client.sendall(request_head(origin, server.origin + "/mcp"))
        assert server.wait_for_requests(8, PATIENCE_SECONDS)
        assert_ends_in_time(running)


def test_the_service_ends_in_time_under_silent_callers() -> None:
    command = str(RELEASE_SUPPORT / "local_guild")
    with process(command, "--port", "0") as (origin, running), many(32, origin):
        assert ask(origin, "x").status_code == 200
        assert_ends_in_time(running)


def test_the_service_ends_in_time_under_heads_of_blanks() -> None:
    command = str(RELEASE_SUPPORT / "local_guild")
    with process(command, "--port", "0") as (origin, running), many(32, origin) as hostile:
        assert ask(origin, "x").status_code == 200
        for client in hostile:
            client.sendall(CALLED)
        assert_ends_in_time(running)


def test_look_ups_that_hang_block_nobody_and_not_the_end() -> None:
    with (
        WireServer([Send(answer(initialize_result()))]) as server,
        process("-c", NAMED_GUILD, environment=world(here=[["127.0.0.1"]])) as (origin, running),
        many(service.MAX_PROBES - 1, origin) as clients,
    ):
        for client in clients:
            client.sendall(request_head(origin, "http://stuck/mcp"))
        started = time.monotonic()
        target = server.origin.replace("127.0.0.1", "here")
        assert statuses(ask(origin, target).json())["protocol_handshake"] == "proven"
        assert time.monotonic() - started < SLACK_SECONDS
        assert_ends_in_time(running)
