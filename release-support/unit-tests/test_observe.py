"""The preflight itself: the one request, the observations kept, and the flights callers share.

The service is a raw server on loopback. Nothing here waits by sleeping: a service that must
stay silent waits for an event of the test, and the test waits for what the server has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from local_guild.answers import CHECKS, answer_body
from local_guild.wire import Line, Script, Send, Stall, Wait, WireServer, answer
from usr.plugins.agent_guild_preflight.helpers.exceptions import Unforeseen, UnforeseenError
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import (
    cache,
    request,
    single_flight,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import observe as room
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.cache import ObservationCache
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.contract import (
    ContractViolation,
    parse,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.endpoint import Endpoint
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observe import recall
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.salvage import (
    NO_CLAIMS,
    Claims,
    EvidenceUnavailable,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.single_flight import InFlight
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import Verdict
from usr.plugins.agent_guild_preflight.helpers.reasons import SubReason

CHECKOUT = Path(__file__).resolve().parents[2]
URL = "https://tools.example.com/mcp"
PATIENCE_SECONDS = 30.0  # for what comes at once on a machine that is not busy
SHORT_SECONDS = 0.3
TTL_SECONDS = 300.0
THREAD = "agent_guild_preflight"


def at(url: str) -> Endpoint:
    return Endpoint(url=url, redacted="https://tools.example.com", is_private=False)


def asked(head: bytes) -> str:
    """The URL that a request asks about."""
    return unquote(head.split(b" ")[1].partition(b"url=")[2].decode("ascii"))


def healthy(head: bytes) -> Script:
    return [Send(answer(answer_body(asked(head))))]


def held_until(event: threading.Event) -> Callable[[bytes], Script]:
    """A service that answers only once `event` is set."""
    return lambda head: [Wait(event), *healthy(head)]


async def ask(
    server: WireServer | str,
    url: str = URL,
    *,
    ttl: float = TTL_SECONDS,
    seconds: float = PATIENCE_SECONDS,
) -> Observation:
    with inquiry(server, url, ttl=ttl, seconds=seconds) as asked:
        return await asked.observation(seconds)


def inquiry(
    server: WireServer | str,
    url: str = URL,
    *,
    ttl: float = TTL_SECONDS,
    seconds: float = PATIENCE_SECONDS,
    is_kept: bool | None = None,  # None for what the maximum age says
) -> room.Inquiry:
    origin = server if isinstance(server, str) else server.origin
    return room.ask(
        at(url),
        origin=origin,
        timeout_seconds=seconds,
        max_age_seconds=ttl,
        is_kept=ttl > 0 if is_kept is None else is_kept,
    )


def outcome(waiting: Coroutine[Any, Any, Observation]) -> Observation:
    return asyncio.run(waiting)


def refusal(waiting: Coroutine[Any, Any, Observation]) -> EvidenceUnavailable | ContractViolation:
    with pytest.raises((EvidenceUnavailable, ContractViolation)) as caught:
        asyncio.run(waiting)
    return caught.value


async def boarded(*waiting: Coroutine[Any, Any, Observation]) -> list[asyncio.Task[Observation]]:
    """Start callers; each has joined a flight, or started one, when this returns."""
    tasks = [asyncio.create_task(one) for one in waiting]
    await asyncio.sleep(0)
    return tasks


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[single_flight.SingleFlight]:
    """Flights and a cache of the test's own; nothing may be under way when it ends."""
    own = single_flight.SingleFlight()
    monkeypatch.setattr(room, "_single_flight", own)
    monkeypatch.setattr(room, "_cache", ObservationCache())
    yield own
    landed(own)


def on_loop(own: single_flight.SingleFlight, work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the flights' own loop."""
    assert own._loop is not None
    return asyncio.run_coroutine_threadsafe(work, own._loop).result(PATIENCE_SECONDS)


def landed(own: single_flight.SingleFlight) -> None:
    """Wait until every flight has landed, and see that none of them left anything behind."""

    async def others_done() -> int:
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=PATIENCE_SECONDS)
        assert own._slots is not None
        return own._slots._value

    if own._loop is not None:
        assert on_loop(own, others_done()) == single_flight.MAX_CONNECTIONS
    assert own._active == 0
    assert own._by_key == {}


# --- The request ---------------------------------------------------------------------------


def test_the_request_is_these_bytes_and_no_others() -> None:
    version = yaml.safe_load((CHECKOUT / "plugin.yaml").read_text())["version"]
    with WireServer(healthy) as server:
        outcome(ask(server))
        (head,) = server.requests
    request_line, *headers = head.split(b"\r\n")
    assert request_line == b"GET /preflight?url=https%3A%2F%2Ftools.example.com%2Fmcp HTTP/1.1"
    assert sorted(headers) == [
        b"",
        b"",
        b"Accept: application/json",
        b"Host: " + server.origin.removeprefix("http://").encode(),
        b"User-Agent: agent_guild_preflight/" + version.encode(),
    ]


def test_every_character_that_is_not_unreserved_is_encoded() -> None:
    unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    others = [chr(code) for code in range(128) if chr(code) not in unreserved]
    url = unreserved + "".join(others) + "%2F%41é\u2028\U0001f600"
    with WireServer(healthy) as server:
        assert outcome(ask(server, url))
        (head,) = server.requests
    expected = unreserved + "".join(f"%{ord(character):02X}" for character in others)
    expected += "%252F%2541%C3%A9%E2%80%A8%F0%9F%98%80"
    assert head.startswith(b"GET /preflight?url=" + expected.encode() + b" HTTP/1.1\r\n")


def test_an_ipv6_origin_is_named_in_brackets() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        origin = f"http://[::1]:{listener.getsockname()[1]}"
        heads: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                heads.append(b"".join(iter(lines.readline, b"\r\n")))
                connection.sendall(answer(answer_body(URL)))

        with ThreadPoolExecutor(1) as pool:
            served = pool.submit(serve)
            assert outcome(ask(origin))
            served.result(PATIENCE_SECONDS)
    assert b"Host: " + origin.removeprefix("http://").encode() + b"\r\n" in heads[0]


def test_proxies_and_passwords_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_bytes(netrc.read_bytes())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with WireServer([Stall()]) as proxy, WireServer(healthy) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
            monkeypatch.setenv(name.lower(), proxy.origin)
        outcome(ask(server))
        (head,) = server.requests
        assert proxy.connections == 0
    assert b"uthorization" not in head


def test_certificates_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    context = request._build_tls_context.__wrapped__()
    assert context.get_ca_certs()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_one_tls_context_serves_all_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        contexts = [pool.submit(request.shared_tls_context) for _ in range(32)]
    assert len({id(context.result()) for context in contexts}) == 1


def test_no_connection_and_no_cookie_is_kept() -> None:
    cookie = [(b"Set-Cookie", b"id=1"), (b"Connection", b"keep-alive")]

    def serve(head: bytes) -> Script:
        return [Send(answer(answer_body(asked(head)), headers=cookie))]

    with WireServer(serve) as server:
        for number in (1, 2, 3):
            outcome(ask(server, ttl=0))
            assert server.wait_until_closed(PATIENCE_SECONDS)
            assert (server.connections, len(server.requests)) == (number, number)
        assert len(set(server.requests)) == 1


@pytest.mark.parametrize("status", [b"307 Temporary Redirect", b"503 Busy", b"401 Unauthorized"])
def test_no_answer_leads_to_a_second_request(status: bytes) -> None:
    headers = [(b"Location", b"/other"), (b"Retry-After", b"0"), (b"WWW-Authenticate", b"Basic")]
    with WireServer([Send(answer(b"", status=status, headers=headers))]) as server:
        refusal(ask(server))
        assert (server.connections, len(server.requests)) == (1, 1)


@pytest.mark.parametrize("is_kept_to", [True, False])
def test_a_body_of_one_mebibyte_is_read_and_one_more_byte_is_too_much(is_kept_to: bool) -> None:
    body = answer_body(URL).ljust(1024 * 1024 + (not is_kept_to))
    with WireServer([Send(answer(body))]) as server:
        if is_kept_to:
            assert outcome(ask(server))
        else:
            assert refusal(ask(server)).sub_reason is SubReason.TOO_LARGE


# --- What an observation says of itself, and what a refusal carries ------------------------


def test_an_observation_is_dated_by_our_own_clock() -> None:
    with WireServer(healthy) as server:
        before = datetime.now(UTC)
        seen = outcome(ask(server))
        after = datetime.now(UTC)
    assert seen.requested_at is not None
    assert seen.observed_at is not None
    assert before <= seen.requested_at <= seen.observed_at <= after
    assert seen.observed_at.utcoffset() == timedelta(0)
    assert (seen.cached, seen.age_seconds) == (False, 0.0)


@pytest.mark.parametrize(
    ("script", "sub_reason"),
    [
        ([Send(answer(answer_body(URL, {CHECKS[0]: "failed"}), status=b"503 X"))], "http_status"),
        ([Send(answer(answer_body(URL, {CHECKS[0]: "failed"}))[:-1]), Stall()], "timeout"),
        ([Send(answer(answer_body(URL, {CHECKS[0]: "failed"}))[:-1])], "protocol"),
        ([Send(answer(answer_body("x", {CHECKS[0]: "failed"})))], "target"),
    ],
)
@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_a_refusal_carries_what_the_answer_claims(
    script: Script, sub_reason: str, ttl: float
) -> None:
    with WireServer(script) as server:
        seconds = SHORT_SECONDS if sub_reason == "timeout" else PATIENCE_SECONDS
        refused = refusal(ask(server, ttl=ttl, seconds=seconds))
    assert refused.sub_reason == sub_reason
    assert refused.claims.verdicts == {"do_not_delegate"}
    assert refused.claims.failed


def test_a_closed_port_is_connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert refusal(ask(f"http://127.0.0.1:{port}")).sub_reason is SubReason.CONNECT


def test_a_name_that_does_not_resolve_is_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "MARKER")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    refused = refusal(ask("http://guild.invalid:80"))
    assert refused.sub_reason is SubReason.RESOLVE
    assert "MARKER" not in repr(refused)


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_the_unforeseen_says_nothing_of_itself(monkeypatch: pytest.MonkeyPatch, ttl: float) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("MARKER")

    monkeypatch.setattr(room, "parse", broken)
    with WireServer(healthy) as server, pytest.raises(UnforeseenError) as caught:
        outcome(ask(server, ttl=ttl))
    # Of the thread of the requests, too, it tells the class, our own module and the line.
    assert re.fullmatch(
        r"ValueError in guild_preflight\.observe, line [0-9]+", str(caught.value.origin)
    )
    assert "MARKER" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_no_log_tells_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with WireServer([Send(answer(b"MARKER", headers=[(b"X-MARKER", b"MARKER")]))]) as server:
        refusal(ask(server))
    with WireServer([Send(b"MARKER\r\n\r\n")]) as server:
        refusal(ask(server, ttl=0))
    with WireServer([Stall()]) as server:
        refusal(ask(server, seconds=SHORT_SECONDS))
    with WireServer(healthy) as server:
        outcome(ask(server))
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
    for record in caplog.records:
        assert not re.search("tools.example.com|preflight", record.getMessage())


# --- What is kept --------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock that ages run on, in the hands of the test: a list of one number."""
    now = [1000.0]
    monkeypatch.setattr(cache, "boot_seconds", lambda: now[0])
    return now


def test_a_kept_observation_says_so_with_its_time_and_its_age(clock: list[float]) -> None:
    with WireServer(healthy) as server:
        made = outcome(ask(server))
        clock[0] += 12.5
        kept = outcome(ask(server))
        clock[0] += 7.5
        again = outcome(ask(server))
        assert len(server.requests) == 1
    assert (kept.cached, kept.age_seconds, again.age_seconds) == (True, 12.5, 20.0)
    assert (kept.requested_at, kept.observed_at) == (made.requested_at, made.observed_at)
    assert kept.statuses == made.statuses
    assert not made.cached


def test_what_is_kept_is_recalled_without_waiting(clock: list[float]) -> None:
    """By the same origin, URL and age as for one who waits; nobody is asked."""
    with WireServer(healthy) as server:
        assert recall(at(URL), server.origin, TTL_SECONDS) is None
        made = outcome(ask(server))
        clock[0] += 12.5
        kept = recall(at(URL), server.origin, 13.0)
        assert kept is not None
        assert (kept.cached, kept.age_seconds, kept.plain) == (True, 12.5, made.plain)
        assert recall(at(URL), server.origin, 12.5) is None
        assert recall(at(URL), server.origin, 0.0) is None
        assert recall(at(f"{URL}/other"), server.origin, TTL_SECONDS) is None
        assert recall(at(URL), "http://127.0.0.1:1", TTL_SECONDS) is None
        assert len(server.requests) == 1


def test_the_reader_decides_how_old_is_fresh_enough(clock: list[float]) -> None:
    with WireServer(healthy) as server:
        made = outcome(ask(server))
        clock[0] += 59.0
        assert outcome(ask(server, ttl=60)).cached
        clock[0] += 1.0
        newer = outcome(ask(server, ttl=60))
        assert not newer.cached
        assert len(server.requests) == 2
        clock[0] += 86_399.0
        assert outcome(ask(server, ttl=86_400)).observed_at == newer.observed_at
        assert len(server.requests) == 2
    assert newer.observed_at != made.observed_at


@pytest.mark.parametrize("ttl", [0.001, 1.0])
def test_any_age_above_zero_is_one(clock: list[float], ttl: float) -> None:
    with WireServer(healthy) as server:
        assert not outcome(ask(server, ttl=ttl)).cached
        assert outcome(ask(server, ttl=ttl)).cached
        assert len(server.requests) == 1


def test_another_reader_may_find_the_same_one_too_old(clock: list[float]) -> None:
    with WireServer(healthy) as server:
        outcome(ask(server))
        clock[0] += 10.0
        assert outcome(ask(server, ttl=300)).cached
        assert not outcome(ask(server, ttl=5)).cached
        assert outcome(ask(server, ttl=5)).cached
        assert len(server.requests) == 2


@pytest.mark.parametrize("jump", [-0.001, -3600.0, 300.0, 1e9])
def test_a_clock_that_jumps_makes_nothing_fresh(clock: list[float], jump: float) -> None:
    with WireServer(healthy) as server:
        outcome(ask(server))
        clock[0] += jump
        assert not outcome(ask(server)).cached
        assert len(server.requests) == 2


def test_ages_run_on_the_clock_that_runs_while_the_machine_sleeps() -> None:
    def boot() -> float:
        for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
            if hasattr(time, name):
                return time.clock_gettime(getattr(time, name))
        return time.monotonic()

    before, now, after = boot(), cache.boot_seconds(), boot()
    assert before <= now <= after


@pytest.mark.parametrize(
    ("clocks", "counts_sleep"),
    [
        ({"CLOCK_BOOTTIME": 7, "CLOCK_MONOTONIC": 1}, 7.0),  # Linux
        ({"CLOCK_MONOTONIC": 1}, 1.0),  # macOS
        ({}, 0.5),  # Windows
    ],
)
def test_each_system_has_its_own_name_for_that_clock(
    monkeypatch: pytest.MonkeyPatch, clocks: dict[str, int], counts_sleep: float
) -> None:
    """On a machine that has never slept the clocks agree, so here each one tells its own name."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        monkeypatch.delattr(time, name, raising=False)
    for name, number in clocks.items():
        monkeypatch.setattr(time, name, number, raising=False)
    monkeypatch.setattr(time, "clock_gettime", float, raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: 0.5)
    specification = importlib.util.spec_from_file_location(cache.__name__, cache.__file__)
    assert specification is not None
    assert specification.loader is not None
    there = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(there)
    assert there.boot_seconds() == counts_sleep


def test_one_is_kept_for_each_origin_and_each_exact_url() -> None:
    urls = (URL, URL + "/", URL.upper(), URL.replace("https", "http"), URL + "%2F")
    with WireServer(healthy) as one, WireServer(healthy) as other:
        for _ in range(2):
            for url in urls:
                assert outcome(ask(one, url))
        assert len(one.requests) == len(urls)
        assert [outcome(ask(other)).cached for _ in range(2)] == [False, True]
        assert len(other.requests) == 1


def test_at_most_256_are_kept_and_the_least_recently_used_goes_first() -> None:
    cache = ObservationCache()
    seen = parse(answer_body(URL), target=URL)
    for number in range(256):
        cache.keep(("origin", str(number)), seen)
    assert cache.fresh(("origin", "0"), TTL_SECONDS)  # used: now the most recent one
    cache.keep(("origin", "2"), seen)  # made anew: so is this one
    for number in range(256, 300):
        cache.keep(("origin", str(number)), seen)
    left = {n for n in range(300) if cache.fresh(("origin", str(n)), TTL_SECONDS)}
    assert len(left) == len(cache._kept) == 256
    assert left == {0, 2, *range(46, 300)}


def test_one_that_was_too_old_for_its_reader_counts_as_unused(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MAX_KEPT_OBSERVATIONS", 2)
    with WireServer(healthy) as server:
        outcome(ask(server, "a"))
        outcome(ask(server, "b"))
        assert outcome(ask(server, "a")).cached
        outcome(ask(server, "c"))
        assert outcome(ask(server, "a")).cached
        assert not outcome(ask(server, "b")).cached
        assert [asked(head) for head in server.requests] == ["a", "b", "c", "b"]


@pytest.mark.parametrize(
    "first",
    [
        [Send(answer(b"busy", status=b"503 Busy"))],
        [Send(answer(b"{}"))],
        [Send(answer(answer_body("another")))],
        [Send(b"noise\r\n\r\n")],
    ],
)
def test_a_failure_is_never_kept(first: Script) -> None:
    answers = iter([first, None])
    with WireServer(lambda head: next(answers) or healthy(head)) as server:
        refusal(ask(server))
        assert not outcome(ask(server)).cached
        assert len(server.requests) == 2


def test_a_failure_does_not_take_away_what_was_kept(clock: list[float]) -> None:
    answers = iter([None, [Send(answer(b"", status=b"503 Busy"))]])
    with WireServer(lambda head: next(answers) or healthy(head)) as server:
        made = outcome(ask(server))
        clock[0] += 60.0
        refusal(ask(server, ttl=30))
        kept = outcome(ask(server, ttl=90))
        assert (kept.observed_at, kept.age_seconds) == (made.observed_at, 60.0)
        assert len(server.requests) == 2


def test_without_a_ttl_nothing_is_read_and_nothing_is_left() -> None:
    with WireServer(healthy) as server:
        assert not outcome(ask(server, ttl=0)).cached
        made = outcome(ask(server))
        assert not made.cached
        assert not outcome(ask(server, ttl=0)).cached
        assert outcome(ask(server)).observed_at == made.observed_at
        assert len(server.requests) == 3


# --- Shared flights ------------------------------------------------------------------------


def test_callers_at_the_same_time_share_one_request(ours: single_flight.SingleFlight) -> None:
    go = threading.Event()

    async def call() -> list[Observation]:
        tasks = await boarded(*(ask(server) for _ in range(50)))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        go.set()
        return await asyncio.gather(*tasks)

    with WireServer(held_until(go)) as server:
        seen = asyncio.run(call())
        assert (server.connections, len(server.requests)) == (1, 1)
    assert all(one == seen[0] and not one.cached for one in seen)


def test_without_a_ttl_every_caller_asks_alone() -> None:
    go = threading.Event()

    async def call() -> list[Observation]:
        tasks = await boarded(*(ask(server, ttl=0) for _ in range(5)), ask(server))
        assert server.wait_for_requests(6, PATIENCE_SECONDS)
        go.set()
        return await asyncio.gather(*tasks)

    with WireServer(held_until(go)) as server:
        seen = asyncio.run(call())
        assert len(server.requests) == 6
    assert len({one.requested_at for one in seen}) == 6


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_one_request_serves_two_deadlines(ttl: float) -> None:
    """At the first there is a timeout, with what was claimed by then; the answer comes later."""
    go = threading.Event()
    body = answer(answer_body(URL, {"protocol_handshake": "failed"}))

    async def call() -> tuple[EvidenceUnavailable, Observation]:
        with inquiry(server, ttl=ttl) as asked:
            with pytest.raises(EvidenceUnavailable) as caught:
                await asked.observation(SHORT_SECONDS)
            go.set()
            return caught.value, await asked.observation(PATIENCE_SECONDS)

    with WireServer([Send(body[:80]), Wait(go), Send(body[80:])]) as server:
        early, seen = asyncio.run(call())
        assert (server.connections, len(server.requests)) == (1, 1)
    assert (early.sub_reason, early.claims) == (SubReason.TIMEOUT, NO_CLAIMS)
    assert (seen.verdict, seen.cached) == (Verdict.DO_NOT_DELEGATE, False)


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_what_is_claimed_between_two_deadlines_counts_at_the_second_only(ttl: float) -> None:
    go = threading.Event()
    whole = answer(b"do_not_delegate" * 2)
    script = [Send(whole[:-20]), Wait(go), Send(whole[-20:-1]), Stall()]

    async def call() -> list[Claims]:
        claims = []
        with inquiry(server, ttl=ttl, seconds=2 * SHORT_SECONDS) as asked:
            for seconds in (SHORT_SECONDS, 2 * SHORT_SECONDS):
                with pytest.raises(EvidenceUnavailable) as caught:
                    await asked.observation(seconds)
                claims.append(caught.value.claims)
                go.set()
        return claims

    with WireServer(script) as server:
        first, second = asyncio.run(call())
    assert (first, second.verdicts) == (NO_CLAIMS, {Verdict.DO_NOT_DELEGATE})


def test_an_answer_is_there_at_every_later_deadline() -> None:
    async def call() -> list[Observation]:
        with inquiry(server) as asked:
            return [await asked.observation(seconds) for seconds in (PATIENCE_SECONDS, 0.1, 0.0)]

    with WireServer(healthy) as server:
        first, *others = asyncio.run(call())
        assert [one is first for one in others] == [True, True]
        assert len(server.requests) == 1


def test_a_request_of_nobody_else_s_may_leave_an_answer_behind() -> None:
    """One of those whom it serves keeps evidence, and another wants it anew."""

    async def call() -> Observation:
        with inquiry(server, ttl=0, is_kept=True) as asked:
            return await asked.observation(PATIENCE_SECONDS)

    with WireServer(healthy) as server:
        outcome(ask(server))
        made = outcome(call())
        assert not made.cached
        assert outcome(ask(server)).observed_at == made.observed_at
        assert len(server.requests) == 2


def test_a_question_that_is_left_ends_the_request_of_nobody_else_s() -> None:
    async def call() -> None:
        with inquiry(server, ttl=0) as asked, pytest.raises(EvidenceUnavailable):
            await asked.observation(SHORT_SECONDS)

    with WireServer([Stall()]) as server:
        asyncio.run(call())
        assert server.wait_until_closed(PATIENCE_SECONDS)


def test_callers_who_are_refused_get_an_exception_each() -> None:
    go = threading.Event()

    async def call() -> list[Any]:
        tasks = await boarded(*(ask(server) for _ in range(4)))
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with WireServer([Wait(go), Send(answer(b"", status=b"500 X"))]) as server:
        refused = asyncio.run(call())
        assert len(server.requests) == 1
    assert {one.sub_reason for one in refused} == {SubReason.HTTP_STATUS}
    assert len({id(one) for one in refused}) == 4


def in_threads(count: int, work: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Run a coroutine in so many threads with a loop each."""
    with ThreadPoolExecutor(count) as pool:
        runs = [pool.submit(lambda: asyncio.run(work())) for _ in range(count)]  # type: ignore[arg-type]
        return [run.result(PATIENCE_SECONDS * 2) for run in runs]


def test_a_thousand_calls_in_four_threads_make_one_request() -> None:
    go = threading.Event()
    together = threading.Barrier(4, action=go.set)

    async def call() -> list[Observation]:
        tasks = await boarded(*(ask(server) for _ in range(250)))
        together.wait(PATIENCE_SECONDS)
        return await asyncio.gather(*tasks)

    with WireServer(held_until(go)) as server:
        seen = [one for many in in_threads(4, call) for one in many]
        assert (server.connections, len(server.requests)) == (1, 1)
    assert len(seen) == 1000
    assert all(one == seen[0] for one in seen)


def test_a_thousand_calls_without_an_answer_end_with_one_refusal_each() -> None:
    together = threading.Barrier(4)

    async def call() -> list[Any]:
        tasks = await boarded(*(ask(server, seconds=2.0) for _ in range(250)))
        together.wait(PATIENCE_SECONDS)
        return await asyncio.gather(*tasks, return_exceptions=True)

    with WireServer([Stall()]) as server:
        refused = [one for many in in_threads(4, call) for one in many]
        assert (server.connections, len(server.requests)) == (1, 1)
    assert {one.sub_reason for one in refused} == {SubReason.TIMEOUT}


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_cancelled_caller_fails_nobody(gone: int) -> None:
    go = threading.Event()

    async def call() -> list[Any]:
        tasks = await boarded(*(ask(server) for _ in range(3)))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        tasks[gone].cancel()
        await asyncio.wait({tasks[gone]})
        go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with WireServer(held_until(go)) as server:
        ended = asyncio.run(call())
        assert len(server.requests) == 1
    assert isinstance(ended.pop(gone), asyncio.CancelledError)
    assert all(isinstance(one, Observation) for one in ended)


def test_a_request_that_all_have_left_still_serves_who_comes(
    ours: single_flight.SingleFlight,
) -> None:
    go = threading.Event()

    async def call() -> Observation:
        (lonely,) = await boarded(ask(server))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        lonely.cancel()
        await asyncio.wait({lonely})
        (late,) = await boarded(ask(server))
        go.set()
        return await late

    with WireServer(held_until(go)) as server:
        assert asyncio.run(call())
        assert len(server.requests) == 1


class DeadLoop:
    """A caller in a thread whose loop stops and closes while the caller still waits."""

    def __init__(self, waiting: Callable[[], Coroutine[Any, Any, Observation]]) -> None:
        self._waiting = waiting
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self._live).result(PATIENCE_SECONDS)

    def _live(self) -> None:
        loop = asyncio.new_event_loop()
        self.task = loop.create_task(self._waiting())
        # What the framework would see in its log is not this test's concern.
        self.task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.call_soon(loop.call_soon, loop.stop)
        loop.run_forever()
        loop.close()
        assert not self.task.done()


def test_a_loop_that_died_while_it_led_fails_nobody(ours: single_flight.SingleFlight) -> None:
    go = threading.Event()

    async def call() -> list[Observation]:
        tasks = await boarded(*(ask(server) for _ in range(3)))
        go.set()
        return await asyncio.gather(*tasks)

    with WireServer(held_until(go)) as server:
        dead = DeadLoop(lambda: ask(server))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        assert len(asyncio.run(call())) == 3
        assert (server.connections, len(server.requests)) == (1, 1)
    landed(ours)
    del dead
    gc.collect()


def test_a_loop_that_died_while_it_followed_fails_nobody() -> None:
    go = threading.Event()

    async def call() -> Observation:
        (first,) = await boarded(ask(server))
        dead.append(await asyncio.to_thread(DeadLoop, lambda: ask(server)))
        (last,) = await boarded(ask(server))
        go.set()
        return (await asyncio.gather(first, last))[0]

    dead: list[DeadLoop] = []
    with WireServer(held_until(go)) as server:
        assert asyncio.run(call())
        assert len(server.requests) == 1


def test_a_dead_loop_that_asked_alone_leaves_a_request_that_ends_by_its_deadline(
    ours: single_flight.SingleFlight,
) -> None:
    with WireServer([Stall()]) as server:
        dead = DeadLoop(lambda: ask(server, ttl=0, seconds=SHORT_SECONDS))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        assert server.wait_until_closed(PATIENCE_SECONDS)
    landed(ours)
    assert not dead.task.done()


# --- Deadlines -----------------------------------------------------------------------------


def test_each_waiter_keeps_its_own_deadline() -> None:
    go = threading.Event()

    async def call() -> tuple[EvidenceUnavailable, Observation]:
        (patient,) = await boarded(ask(server))
        with pytest.raises(EvidenceUnavailable) as caught:
            await ask(server, seconds=SHORT_SECONDS)
        assert not patient.done()
        go.set()
        return caught.value, await patient

    with WireServer(held_until(go)) as server:
        refused, seen = asyncio.run(call())
        assert len(server.requests) == 1
    assert refused.sub_reason is SubReason.TIMEOUT
    assert seen


def test_who_joined_is_served_after_the_deadline_of_who_started() -> None:
    go = threading.Event()

    async def call() -> Observation:
        starter, joiner = await boarded(ask(server, seconds=SHORT_SECONDS), ask(server))
        await asyncio.wait({starter})
        assert isinstance(starter.exception(), EvidenceUnavailable)
        go.set()
        return await joiner

    with WireServer(held_until(go)) as server:
        assert asyncio.run(call())
        assert len(server.requests) == 1


def test_who_joins_what_is_under_way_is_served_after_its_first_deadline() -> None:
    go = threading.Event()

    async def call() -> Observation:
        (starter,) = await boarded(ask(server, seconds=SHORT_SECONDS))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        (joiner,) = await boarded(ask(server))
        await asyncio.wait({starter})
        assert isinstance(starter.exception(), EvidenceUnavailable)
        go.set()
        return await joiner

    with WireServer(held_until(go)) as server:
        assert asyncio.run(call())
        assert len(server.requests) == 1


def test_a_request_ends_by_the_latest_deadline_of_those_that_joined(
    ours: single_flight.SingleFlight,
) -> None:
    async def call() -> None:
        (starter,) = await boarded(ask(server, seconds=SHORT_SECONDS))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        (joiner,) = await boarded(ask(server, seconds=2 * SHORT_SECONDS))
        await asyncio.wait({starter, joiner})
        assert isinstance(starter.exception(), EvidenceUnavailable)
        assert isinstance(joiner.exception(), EvidenceUnavailable)

    with WireServer([Stall()]) as server:
        asyncio.run(call())
        assert server.wait_until_closed(PATIENCE_SECONDS)
    landed(ours)


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_a_request_that_is_cancelled_under_its_caller_is_unforeseen(
    ours: single_flight.SingleFlight, ttl: float
) -> None:
    async def cancel_all() -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def call() -> None:
        (task,) = await boarded(ask(server, ttl=ttl))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        on_loop(ours, cancel_all())
        with pytest.raises(UnforeseenError) as caught:
            await task
        assert caught.value.origin == Unforeseen("CancelledError")

    with WireServer([Stall()]) as server:
        asyncio.run(call())


def test_nobody_joins_after_the_deadline_of_who_started() -> None:
    go = threading.Event()

    async def call() -> list[Observation]:
        starter, joiner = await boarded(ask(server, seconds=SHORT_SECONDS), ask(server))
        await asyncio.wait({starter})
        starter.exception()
        late, later = await boarded(ask(server), ask(server))
        assert server.wait_for_requests(2, PATIENCE_SECONDS)
        go.set()
        return await asyncio.gather(joiner, late, later)

    with WireServer(held_until(go)) as server:
        joined, late, later = asyncio.run(call())
        assert len(server.requests) == 2
    assert late.requested_at == later.requested_at != joined.requested_at


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_at_the_deadline_the_connection_is_closed(ttl: float) -> None:
    with WireServer([Stall()]) as server:
        assert refusal(ask(server, ttl=ttl, seconds=SHORT_SECONDS)).sub_reason is SubReason.TIMEOUT
        assert server.wait_until_closed(PATIENCE_SECONDS)
        assert server.connections == 1


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_a_silent_service_holds_no_call_longer_than_its_deadline(ttl: float) -> None:
    held = []
    with WireServer([Stall()]) as server:
        for _ in range(5):
            began = time.monotonic()
            refusal(ask(server, ttl=ttl, seconds=0.2))
            held.append(time.monotonic() - began)
    # The best of a few: a busy machine delays everything.
    assert 0.2 <= min(held) < 0.3


@dataclass
class HungResolver:
    """A resolver that answers for one host only when it is released."""

    host: str
    release: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in (self.host, self.host.encode()):
            return self._real(host, *args, **kwargs)
        self.asked.set()
        assert self.release.wait(PATIENCE_SECONDS)
        self.answered.set()
        return self._real("127.0.0.1", *args, **kwargs)


def test_a_hanging_resolver_holds_no_call_and_no_connect_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver = HungResolver("guild.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    with WireServer(healthy) as server:
        port = server.origin.rpartition(":")[2]
        origin = f"http://guild.invalid:{port}"
        try:
            refused = refusal(ask(origin, ttl=0, seconds=SHORT_SECONDS))
            assert refused.sub_reason is SubReason.TIMEOUT
            assert resolver.asked.is_set()
            assert not resolver.answered.is_set()
        finally:
            resolver.release.set()
        assert resolver.answered.wait(PATIENCE_SECONDS)
        # Whole requests afterwards: had the late answer led to a connection, it were here.
        for number in (1, 2, 3):
            outcome(ask(server, ttl=0))
            assert server.connections == number


def test_a_resolver_that_answers_in_time_leads_to_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver = HungResolver("guild.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", resolver)

    async def call() -> Observation:
        (task,) = await boarded(ask(f"http://guild.invalid:{port}"))
        assert resolver.asked.wait(PATIENCE_SECONDS)
        resolver.release.set()
        return await task

    with WireServer(healthy) as server:
        port = server.origin.rpartition(":")[2]
        assert asyncio.run(call())
        assert f"Host: guild.invalid:{port}\r\n".encode() in server.requests[0]


# --- Bounds --------------------------------------------------------------------------------


class Gauge:
    """How many connections a service has open, and the most that it ever had."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.open = self.most = 0

    def count(self, change: int) -> None:
        with self._lock:
            self.open += change
            self.most = max(self.most, self.open)


@dataclass
class Opened:
    gauge: Gauge

    def play(self, line: Line) -> None:
        self.gauge.count(1)


@dataclass
class Closed:
    gauge: Gauge

    def play(self, line: Line) -> None:
        with contextlib.suppress(OSError):
            line.close()
        self.gauge.count(-1)


def test_two_hundred_urls_at_once_have_a_bounded_number_of_connections() -> None:
    gauge, full = Gauge(), threading.Event()

    def serve(head: bytes) -> Script:
        return [Opened(gauge), Wait(full), *healthy(head), Closed(gauge)]

    async def call() -> list[Observation]:
        tasks = await boarded(*(ask(server, f"{URL}/{number}") for number in range(200)))
        assert server.wait_for_requests(single_flight.MAX_CONNECTIONS, PATIENCE_SECONDS)
        full.set()
        return await asyncio.gather(*tasks)

    with WireServer(serve) as server:
        assert len(asyncio.run(call())) == 200
        assert server.wait_until_closed(PATIENCE_SECONDS)
        assert server.connections == len(server.requests) == 200
    assert single_flight.MAX_CONNECTIONS == 32
    assert gauge.most == single_flight.MAX_CONNECTIONS
    assert gauge.open == 0


def test_the_wait_for_a_connection_is_part_of_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_flight, "MAX_CONNECTIONS", 2)
    go = threading.Event()

    async def call() -> None:
        tasks = await boarded(*(ask(server, f"{URL}/{number}") for number in range(2)))
        assert server.wait_for_requests(2, PATIENCE_SECONDS)
        for ttl in (0, TTL_SECONDS):
            with pytest.raises(EvidenceUnavailable) as caught:
                await ask(server, ttl=ttl, seconds=SHORT_SECONDS)
            assert caught.value.sub_reason is SubReason.TIMEOUT
        assert server.connections == 2
        go.set()
        await asyncio.gather(*tasks)
        assert await ask(server)

    with WireServer(held_until(go)) as server:
        asyncio.run(call())
        assert server.connections == 3


def test_the_thread_ends_when_it_is_idle_and_starts_anew(
    monkeypatch: pytest.MonkeyPatch, ours: single_flight.SingleFlight
) -> None:
    monkeypatch.setattr(single_flight, "IDLE_SECONDS", 0.0)
    before = set(threading.enumerate())
    seen: list[threading.Thread] = []

    def serve(head: bytes) -> Script:
        seen.extend(t for t in threading.enumerate() if t.name == THREAD and t not in before)
        return healthy(head)

    with WireServer(serve) as server:
        for number in (1, 2, 3):
            outcome(ask(server, ttl=0))
            assert len(seen) == number
            assert seen[-1].daemon  # a process that ends does not wait for it
            seen[-1].join(PATIENCE_SECONDS)
            assert not seen[-1].is_alive()
            assert ours._loop is None
    assert len(set(seen)) == 3


def test_the_thread_does_not_end_under_a_request(ours: single_flight.SingleFlight) -> None:
    go = threading.Event()

    async def call() -> Observation:
        (task,) = await boarded(ask(server))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        loop = ours._loop
        assert loop is not None
        # What the idle time of an earlier request would do now.
        loop.call_soon_threadsafe(ours._retire, loop)
        loop.call_soon_threadsafe(go.set)
        return await task

    with WireServer(held_until(go)) as server:
        assert asyncio.run(call())


def test_the_thread_stays_while_requests_come(ours: single_flight.SingleFlight) -> None:
    with WireServer(healthy) as server:
        outcome(ask(server, ttl=0))
        loop = ours._loop
        assert loop is not None
        outcome(ask(server, ttl=0))
        assert ours._loop is loop


# --- Cancellation at every await point -----------------------------------------------------


def test_a_cancelled_caller_who_asks_alone_closes_its_connection(
    ours: single_flight.SingleFlight,
) -> None:
    async def call() -> None:
        (task,) = await boarded(ask(server, ttl=0))
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with WireServer([Stall()]) as server:
        asyncio.run(call())
        assert server.wait_until_closed(PATIENCE_SECONDS)
    landed(ours)


class Steps:
    """Runs a coroutine and calls back before it suspends for the n-th time."""

    def __init__(
        self, work: Coroutine[Any, Any, Any], number: int, reached: Callable[[], None]
    ) -> None:
        self._work = work
        self._number = number
        self._reached = reached

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._work.__await__()
        step, send, value = 0, inner.send, None
        while True:
            try:
                waited_for = send(value)
            except StopIteration as stop:
                return stop.value
            step += 1
            if step == self._number:
                self._reached()
            try:
                value = yield waited_for
                send = inner.send
            except BaseException as error:
                value, send = error, inner.throw  # type: ignore[assignment]


async def cancelled_at(
    number: int, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> tuple[bool, Any]:
    """Cancel a caller while its own request waits for the n-th time; whether it came to that."""
    loop, gone = asyncio.get_running_loop(), threading.Event()
    reached = threading.Event()

    def cancel() -> None:
        # In the flights' thread, which goes on only when the caller has gone: so the request
        # is cancelled at just this point.
        reached.set()
        loop.call_soon_threadsafe(task.cancel)
        assert gone.wait(PATIENCE_SECONDS)

    class Stepped(request.PreflightRequest):
        async def run(self) -> bytes:
            return await Steps(super().run(), number, cancel)

    with monkeypatch.context() as patch:
        patch.setattr(room, "PreflightRequest", Stepped)
        task = asyncio.create_task(ask(server, ttl=0))
        task.add_done_callback(lambda _: gone.set())
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    return reached.is_set(), ended


def test_an_own_request_may_be_cancelled_wherever_it_waits(
    monkeypatch: pytest.MonkeyPatch, ours: single_flight.SingleFlight
) -> None:
    go = threading.Event()
    go.set()
    points = 0
    with WireServer(held_until(go)) as server:
        while True:
            reached, ended = asyncio.run(cancelled_at(points + 1, server, monkeypatch))
            landed(ours)
            assert server.wait_until_closed(PATIENCE_SECONDS)
            if not reached:
                break
            assert isinstance(ended, asyncio.CancelledError)
            points += 1
        assert isinstance(ended, Observation)
        # At the least: the connection, the request, the answer's head and its body.
        assert points >= 4
        assert not outcome(ask(server)).cached


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_a_caller_cancelled_before_its_first_step_asks_nothing(ttl: float) -> None:
    async def call() -> None:
        task = asyncio.create_task(ask(server, ttl=ttl))
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    with WireServer(healthy) as server:
        asyncio.run(call())
        assert server.connections == 0


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_a_caller_cancelled_with_its_answer_at_the_door_is_cancelled(
    ours: single_flight.SingleFlight, ttl: float
) -> None:
    async def call() -> None:
        (task,) = await boarded(ask(server, ttl=ttl))
        # This loop stands still meanwhile: the answer has been handed over and not taken.
        landed(ours)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    with WireServer(healthy) as server:
        asyncio.run(call())
        assert outcome(ask(server)).cached is bool(ttl)


def test_a_shared_request_ends_in_order_when_all_are_cancelled(
    ours: single_flight.SingleFlight,
) -> None:
    go = threading.Event()

    async def call() -> None:
        tasks = await boarded(*(ask(server) for _ in range(10)))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        (flight,) = ours._by_key.values()
        assert all(waiter.cancelled() for waiter in flight.waiters)

    with WireServer(held_until(go)) as server:
        asyncio.run(call())
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        go.set()
        assert server.wait_until_closed(PATIENCE_SECONDS)
        landed(ours)
        assert outcome(ask(server)).cached


def test_kept_evidence_is_served_while_another_caller_waits(clock: list[float]) -> None:
    """A reader for whom the kept observation is fresh does not join who finds it too old."""
    go = threading.Event()
    scripts = iter([healthy, held_until(go)])

    async def call() -> None:
        waiting = await boarded(ask(server, ttl=5))
        assert server.wait_for_requests(2, PATIENCE_SECONDS)
        assert (await ask(server, ttl=300, seconds=SHORT_SECONDS)).cached
        go.set()
        assert not (await waiting[0]).cached

    with WireServer(lambda head: next(scripts)(head)) as server:
        outcome(ask(server))
        clock[0] += 10
        asyncio.run(call())


def test_the_collector_of_a_dead_caller_cannot_block_the_others(
    ours: single_flight.SingleFlight,
) -> None:
    """It may close a forgotten coroutine at any allocation, also where the lock is held."""
    go = threading.Event()
    loop = asyncio.new_event_loop()
    with WireServer(held_until(go)) as server:
        forgotten = [loop.create_task(ask(server))]
        loop.call_later(0, loop.stop)
        loop.run_forever()
        assert server.wait_for_requests(1, PATIENCE_SECONDS)
        loop.close()
        go.set()
        landed(ours)

        class Collecting(request.PreflightRequest):
            def __init__(self, *arguments: Any) -> None:
                forgotten.clear()
                gc.collect()
                super().__init__(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(room, "PreflightRequest", Collecting)
            with ThreadPoolExecutor(1) as pool:
                asked_anew = pool.submit(outcome, ask(server, f"{URL}/other"))
                assert not asked_anew.result(PATIENCE_SECONDS).cached


def test_a_caller_cancelled_before_the_request_began_leaves_no_flight(
    ours: single_flight.SingleFlight,
) -> None:
    """Start and cancellation reach the flights' loop in one turn of it."""
    stands, goes_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        stands.set()
        goes_on.wait(PATIENCE_SECONDS)

    async def call() -> None:
        await ask(server, ttl=0)  # starts the loop
        assert ours._loop is not None
        ours._loop.call_soon_threadsafe(stand_still)
        assert stands.wait(PATIENCE_SECONDS)
        (task,) = await boarded(ask(server, ttl=0))
        task.cancel()
        await asyncio.wait({task})
        goes_on.set()

    with WireServer(healthy) as server:
        asyncio.run(call())
        landed(ours)
        assert server.connections == 1


@pytest.mark.parametrize("ttl", [0, TTL_SECONDS])
def test_a_silent_tls_handshake_is_closed_at_the_deadline(ttl: float) -> None:
    with WireServer([Stall()], before_request=True) as server:
        origin = server.origin.replace("http:", "https:")
        assert refusal(ask(origin, ttl=ttl, seconds=SHORT_SECONDS)).sub_reason is SubReason.TIMEOUT
        assert server.wait_until_closed(PATIENCE_SECONDS)


def test_session_keys_are_written_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    context = request._build_tls_context.__wrapped__()
    assert context.keylog_filename is None
    assert not list(tmp_path.iterdir())
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


class Nothing:
    async def run(self) -> None:
        """Done at once."""

    def overdue(self) -> None:
        """Nothing, too."""


def test_a_request_that_has_ended_is_extended_in_vain() -> None:
    """A caller with a later deadline may have joined just before."""

    async def extended() -> None:
        in_flight = InFlight(Nothing(), time.monotonic() + 60, asyncio.get_running_loop())
        await in_flight.run(asyncio.Semaphore())
        in_flight.extend()

    asyncio.run(extended())
