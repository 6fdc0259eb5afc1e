"""The wire server that tests play broken answers with."""

import ipaddress
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from local_guild.wire import Close, Drip, Endless, Reset, Send, Stall, Wait, WireServer, answer
from local_guild_probing import PATIENCE_SECONDS, Probed, connect, read_all, statuses
from stage.certificates import Authority


def test_wire_sends_byte_for_byte_and_keeps_the_requests() -> None:
    request = b"GET /x HTTP/1.1\r\nHost: y\r\n\r\n"
    with (
        WireServer([Send(b"one "), Drip(b"two", every=0.001), Send(b"\0\xff")]) as server,
        connect(server.origin) as client,
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
        with connect(server.origin) as client:
            assert read_all(client) == b"early"
        assert (server.requests, server.connections) == ([], 1)


def test_wire_can_reset_before_a_request() -> None:
    with WireServer([Reset()], before_request=True) as server:
        # The reset may come before the client has seen its connection made.
        with pytest.raises(ConnectionResetError), connect(server.origin) as client:
            read_all(client)
        assert (server.requests, server.connections) == ([], 1)


def test_wire_cannot_choose_before_a_request() -> None:
    with pytest.raises(ValueError):
        WireServer(lambda _: [], before_request=True)


def test_wire_holds_answers_until_released() -> None:
    release = threading.Event()
    with (
        WireServer([Wait(release), Send(b"now")]) as server,
        connect(server.origin) as one,
        connect(server.origin) as two,
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
        with connect(server.origin) as client:
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
    with connect(server.origin) as client:
        client.sendall(request_head)
        if request_head.endswith(b"\r\n\r\n"):
            assert server.wait_for_requests(1, PATIENCE_SECONDS)
        started = time.monotonic()
        server.stop()
        server.stop()
        assert time.monotonic() - started < 2
        assert server.wait_until_closed(0)
    with pytest.raises(ConnectionRefusedError):
        connect(server.origin)


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
        connect(server.origin),
    ):
        pass
    assert server.wait_until_closed(0)
