"""Where a probe of the local preflight service connects, and whom it trusts there."""

import asyncio
import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from local_guild import addresses, allowance, connection, threads
from local_guild.wire import Send, WireServer, answer
from local_guild_probing import (
    CHECKS,
    NAMED_GUILD,
    NAMED_PROBER,
    PATIENCE_SECONDS,
    RELEASE_SUPPORT,
    ask,
    event_stream,
    initialize_result,
    process,
    run,
    statuses,
    world,
)
from stage.certificates import Authority

HEALTHY = [Send(answer(initialize_result()))]


def named_probe(
    target: str, answers: dict[str, list[list[str]]], **environment: str
) -> tuple[str, int]:
    """Probe in a process whose look-ups have these answers; gives the statuses by their letters,
    and how many look-ups there were."""
    ended = run("-c", NAMED_PROBER, target, environment=world(**answers) | environment)
    assert ended.stderr == ""
    document, lookups = json.loads(ended.stdout)
    found = statuses(document)
    return "".join(found[name][0] for name in CHECKS), lookups


def named(server: WireServer, name: str, path: str = "/mcp") -> str:
    """The URL of a server under a name."""
    return server.origin.replace("127.0.0.1", name) + path


def test_a_name_is_looked_up_once_and_stays_where_it_led() -> None:
    with WireServer(event_stream(b"/messages", threading.Event())) as server:
        rebound = {"mcp.test": [["127.0.0.1"], ["127.0.0.2"]]}
        assert named_probe(named(server, "mcp.test", "/sse"), rebound) == ("ppuuuu", 1)
        assert len(server.requests) == 5
        host = named(server, "mcp.test", "").removeprefix("http://").encode()
        assert all(b"\r\nHost: " + host + b"\r\n" in head for head in server.requests)


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    with WireServer(HEALTHY) as server:
        found = named_probe(named(server, "mcp.test"), {"mcp.test": [["127.0.0.2", "127.0.0.1"]]})
        assert found == ("ppuuuu", 1)


def test_the_address_that_answered_is_the_only_one_from_then_on() -> None:
    async def connect_twice() -> None:
        found = addresses.Addresses(["127.0.0.2", "127.0.0.1"], int(port))
        (await found.connect()).close()
        with socket.create_server(("127.0.0.2", int(port))), await found.connect() as second:
            assert second.getpeername()[0] == "127.0.0.1"

    with WireServer([]) as server, asyncio.Runner() as runner:
        port = server.origin.rpartition(":")[2]
        runner.run(connect_twice())


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1", "93.184.215.14"],
        ["127.0.0.1", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
        ["127.0.0.1", "::ffff:93.184.215.14"],
    ],
)
def test_a_name_that_leads_to_both_worlds_is_not_probed(answers: list[str]) -> None:
    with WireServer(HEALTHY) as server:
        found = named_probe(named(server, "mixed.test"), {"mixed.test": [answers]})
        assert (found, server.connections) == (("fufuuu", 1), 0)


@pytest.mark.parametrize("answers", [["127.0.0.1", "::1"], ["::ffff:127.0.0.1", "127.0.0.1"]])
def test_a_name_that_leads_to_one_world_is_probed(answers: list[str]) -> None:
    with WireServer(HEALTHY) as server:
        found = named_probe(named(server, "local.test"), {"local.test": [answers]})
        assert found == ("ppuuuu", 1)


def test_a_literal_address_is_not_looked_up() -> None:
    with WireServer(HEALTHY) as server:
        asked = {"127.0.0.1": [["127.0.0.2"]]}
        assert named_probe(named(server, "127.0.0.1"), asked) == ("ppuuuu", 0)


# --- TLS ------------------------------------------------------------------------


def certified(folder: Path, name: str, seen: list[str | None]) -> tuple[ssl.SSLContext, str]:
    """A TLS server's side with a private authority's certificate for `name`, which notes the names
    that clients ask for; and the file with the authority."""
    authority = Authority(folder, "authority")
    context = authority.server("here", [x509.DNSName(name)])
    context.sni_callback = lambda _socket, asked, _context: seen.append(asked)
    file = folder / "authority.pem"
    file.write_text(authority.pem)
    return context, str(file)


@pytest.mark.parametrize(
    ("certificate", "trusted", "expected"),
    [
        ("mcp.test", True, "ppuuuu"),
        ("other.test", True, "fufuuu"),
        ("mcp.test", False, "fufuuu"),
    ],
)
def test_a_private_authority_is_trusted_as_the_environment_says_and_for_its_names(
    tmp_path: Path, certificate: str, trusted: bool, expected: str
) -> None:
    seen: list[str | None] = []
    tls, authority = certified(tmp_path, certificate, seen)
    environment = {"SSL_CERT_FILE": authority} if trusted else {}
    with WireServer(HEALTHY, tls=tls) as server:
        answers = {"mcp.test": [["127.0.0.1"], ["127.0.0.2"]]}
        found = named_probe(named(server, "mcp.test"), answers, **environment)
        assert found == (expected, 1)
        assert set(seen) == {"mcp.test"}
        assert bool(server.requests) is (expected == "ppuuuu")


def test_the_running_service_trusts_a_private_authority_too(tmp_path: Path) -> None:
    tls, authority = certified(tmp_path, "tools.test", [])
    variables = world(**{"tools.test": [["127.0.0.1"]]}) | {"SSL_CERT_FILE": authority}
    with (
        WireServer(HEALTHY, tls=tls) as server,
        process("-c", NAMED_GUILD, environment=variables) as (origin, _),
    ):
        found = statuses(ask(origin, named(server, "tools.test")).json())
        assert found["protocol_handshake"] == "proven"


def test_authorities_that_cannot_be_read_are_one_clear_line(tmp_path: Path) -> None:
    missing = {"SSL_CERT_FILE": str(tmp_path / "missing.pem")}
    ended = run(str(RELEASE_SUPPORT / "local_guild"), "--port", "0", environment=missing)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "SSL_CERT_FILE" in ended.stderr


def test_a_tls_server_cannot_ask_for_new_keys_later() -> None:
    assert connection.tls_context().options & ssl.OP_NO_RENEGOTIATION


# --- Threads --------------------------------------------------------------------


def test_a_tls_handshake_computes_in_a_thread(tmp_path: Path) -> None:
    class Counting(threads.Threads):
        jobs = 0

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            self.jobs += 1
            return super().submit(*args, **kwargs)

    async def shake_hands(port: int) -> None:
        asyncio.get_running_loop().set_default_executor(executor)
        found = addresses.Addresses(["127.0.0.1"], port)
        with pytest.raises(connection.NotConnected):  # nobody vouches for the certificate
            await connection.open_connection(found, allowance.Allowance(), "mcp.test")

    executor = Counting()
    tls, _ = certified(tmp_path, "mcp.test", [])
    with WireServer(HEALTHY, tls=tls) as server, asyncio.Runner() as runner:
        runner.run(shake_hands(int(server.origin.rpartition(":")[2])))
    assert executor.jobs >= 2


def test_threads_are_bounded_and_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up() -> None:
        asyncio.get_running_loop().set_default_executor(executor)
        with pytest.raises(OSError):
            await addresses.resolve("localhost", 80)

    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    executor, release = threads.Threads(), threading.Event()
    hanging = executor.submit(release.wait, PATIENCE_SECONDS)
    with asyncio.Runner() as runner:
        runner.run(look_up())
    executor.shutdown()
    assert not hanging.done()
    release.set()
    assert hanging.result(PATIENCE_SECONDS)


def test_a_thread_hands_on_what_its_job_raises() -> None:
    failed = threads.Threads().submit(int, "x")
    with pytest.raises(ValueError):
        failed.result(PATIENCE_SECONDS)
