"""A loopback server for tests that plays a script of what goes over the wire, byte for byte.

Rules this module keeps:

1. It knows no HTTP beyond the end of a request: what a script sends is sent as it is, but for
   `ECHOED_ID`, which becomes the id of the last JSON-RPC request, filled up with spaces.
2. One connection plays one script, once. A script that has ended closes its connection.
3. Threads only, no event loop: a test may run any number of loops around it.
4. Nothing outlives `stop`: it ends every step, closes every socket and joins every thread.

    with WireServer([Send(answer(b"{}"))]) as server:
        ...  # ask server.origin
"""

import contextlib
import re
import selectors
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

MAX_HEAD_BYTES = 256 * 1024
POLL_SECONDS = 0.01
JOIN_SECONDS = 5.0

ECHOED_ID = 7_305_918_264  # as long as the longest id of the local service, and none of them

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,6})\r\n", re.I)
_ID = re.compile(rb'"id": ?(\d{1,10})[,}]')
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def answer(
    body: bytes,
    *,
    status: bytes = b"200 OK",
    headers: Iterable[tuple[bytes, bytes]] = (),
    content_type: bytes | None = b"application/json",
) -> bytes:
    """A whole HTTP/1.1 response with `Content-Length` and `Connection: close`; `headers` are added
    to these, `None` leaves the type out."""
    fields = [(b"Content-Length", b"%d" % len(body)), (b"Connection", b"close"), *headers]
    if content_type is not None:
        fields.insert(0, (b"Content-Type", content_type))
    head = b"".join(b"%s: %s\r\n" % field for field in fields)
    return b"HTTP/1.1 %s\r\n%s\r\n%s" % (status, head, body)


class Line:
    """One connection as the steps of a script see it.

    Every method raises `OSError` once the connection is over.
    """

    def __init__(
        self, sock: socket.socket, stopping: threading.Event, request_id: Callable[[], bytes]
    ) -> None:
        self._sock = sock
        self.stopping = stopping
        self._request_id = request_id

    def send(self, data: bytes) -> None:
        """Send all of `data`; blocks while the client does not read."""
        echoed = b"%d" % ECHOED_ID
        if echoed in data:
            data = data.replace(echoed, self._request_id().rjust(len(echoed)))
        self._sock.sendall(data)

    def close(self) -> None:
        """Say that no more will come (a plain FIN, without TLS's closing alert), then wait until
        the client has closed too.

        Closing at once would make the kernel reset the connection if the client had sent anything
        unread, and lose what was sent.
        """
        socket.socket.shutdown(self._sock, socket.SHUT_WR)
        self.wait_for_client()

    def reset(self) -> None:
        """Break the connection with a RST."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._sock.close()

    def wait_for_client(self) -> None:
        """Drop whatever the client sends until it closes the connection or the server stops."""
        # The plain socket, below any TLS: what arrives is not looked at.
        while socket.socket.recv(self._sock, 65536):
            pass


class Step(Protocol):
    """One step of a script."""

    def play(self, line: Line) -> None:
        """Do this step on `line`.

        Raises `OSError` when the connection is over, which ends the script.
        """


Script = Sequence[Step]
Play = Callable[[bytes], Script]


@dataclass(frozen=True)
class Send:
    """Send `data` at once."""

    data: bytes

    def play(self, line: Line) -> None:
        line.send(self.data)


@dataclass(frozen=True)
class Close:
    """Close the connection in order, in the middle of an answer or not."""

    def play(self, line: Line) -> None:
        line.close()


@dataclass(frozen=True)
class Reset:
    """Break the connection, so that the client's next read or write fails."""

    def play(self, line: Line) -> None:
        line.reset()


@dataclass(frozen=True)
class Stall:
    """Say nothing and stay until the client closes the connection or the server stops."""

    def play(self, line: Line) -> None:
        line.wait_for_client()


@dataclass(frozen=True)
class Drip:
    """Send `data` in pieces of `size` bytes, one every `every` seconds."""

    data: bytes
    every: float
    size: int = 1

    def play(self, line: Line) -> None:
        for start in range(0, len(self.data), self.size):
            line.send(self.data[start : start + self.size])
            if line.stopping.wait(self.every):
                return


@dataclass(frozen=True)
class Endless:
    """Send `chunk` again and again until the client goes away or the server stops."""

    chunk: bytes

    def play(self, line: Line) -> None:
        if not self.chunk:
            raise ValueError("an endless step needs something to send")
        while not line.stopping.is_set():
            line.send(self.chunk)


@dataclass(frozen=True)
class Wait:
    """Go on once `event` is set, or end if the server stops first."""

    event: threading.Event

    def play(self, line: Line) -> None:
        while not self.event.wait(POLL_SECONDS):
            if line.stopping.is_set():
                raise ConnectionAbortedError


class WireServer:
    """A server on a free port of 127.0.0.1 that listens from its making until `stop`, best used as
    a context manager.

    `script` is played on every connection, or called with each request's head (up to and with the
    empty line) to choose the script for it. `tls` makes it speak TLS with that context. With
    `before_request`, the script plays as soon as a client has connected, and nothing is read.
    Raises `ValueError` if that is asked of a script that depends on the request.
    """

    def __init__(
        self,
        script: Script | Play,
        *,
        tls: ssl.SSLContext | None = None,
        before_request: bool = False,
    ) -> None:
        if before_request and callable(script):
            raise ValueError("a script that plays before the request cannot depend on it")
        self._script = script
        self._tls = tls
        self._before_request = before_request
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._requests: list[bytes] = []
        self._request_id = b"0"
        self._connections = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._waker, self._alarm = socket.socketpair()
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, name="wire-server", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def requests(self) -> list[bytes]:
        """The request heads received so far, each with its empty line, in the order of their
        arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def connections(self) -> int:
        """How many connections were accepted so far."""
        with self._changed:
            return self._connections

    def wait_for_requests(self, count: int, timeout: float) -> bool:
        """Wait until at least `count` request heads have arrived; false if `timeout` seconds pass
        first."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._requests) >= count, timeout)

    def wait_until_closed(self, timeout: float) -> bool:
        """Wait until no connection is open; false if `timeout` seconds pass first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def stop(self) -> None:
        """End all steps, close all sockets and join all threads.

        May be called more than once, and does not raise.
        """
        self._stopping.set()
        self._waker.close()
        self._acceptor.join(JOIN_SECONDS)
        with self._changed:
            threads = list(self._threads)
            for sock in self._open:
                _wake(sock)
        for thread in threads:
            thread.join(JOIN_SECONDS)

    def _accept(self) -> None:
        """Take connections, each into a thread of its own, until the waker is closed."""
        with self._listener, self._alarm, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._alarm, selectors.EVENT_READ)
            while not self._stopping.is_set():
                if (
                    any(key.fileobj is self._listener for key, _ in selector.select())
                    and not self._stopping.is_set()
                ):
                    # The client may have gone again already.
                    with contextlib.suppress(OSError):
                        self._take(self._listener.accept()[0])

    def _take(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            # The handshake is left to the connection's own thread, which `stop` can wake.
            sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(
            target=self._converse, args=(sock,), name="wire-connection", daemon=True
        )
        with self._changed:
            self._connections += 1
            self._open.add(sock)
            self._threads.append(thread)
        thread.start()

    def _converse(self, sock: socket.socket) -> None:
        """Play the script on one connection, from its start to its end."""
        try:
            with contextlib.suppress(OSError):
                if isinstance(sock, ssl.SSLSocket):
                    sock.do_handshake()
                script = self._choose(sock)
                line = Line(sock, self._stopping, lambda: self._request_id)
                for step in script:
                    step.play(line)
                line.close()
        finally:
            with self._changed:
                self._open.discard(sock)
                sock.close()
                self._changed.notify_all()

    def _choose(self, sock: socket.socket) -> Script:
        """Read a request, unless the script comes first, and say which script answers it."""
        if self._before_request:
            assert not callable(self._script)
            return self._script
        head, body = _read_request(sock)
        with self._changed:
            if named := _ID.search(body):
                self._request_id = named[1]
            self._requests.append(head)
            self._changed.notify_all()
        return self._script(head) if callable(self._script) else self._script


def _read_request(sock: socket.socket) -> tuple[bytes, bytes]:
    """One request head, with its empty line, and what has come of a body; a JSON-RPC message is
    waited for.

    Raises `OSError` if the client closes first or the head does not end.
    """
    received = b""
    while _HEAD_END not in received:
        received += _read_piece(sock, received)
    before, _, body = received.partition(_HEAD_END)
    head = before + _HEAD_END
    length = _LENGTH.search(head)
    while b"application/json" in head and length and len(body) < int(length[1]):
        body += _read_piece(sock, body)
    return head, body


def _read_piece(sock: socket.socket, before: bytes) -> bytes:
    piece = sock.recv(65536)
    if not piece or len(before) > MAX_HEAD_BYTES:
        raise ConnectionAbortedError
    return piece


def _wake(sock: socket.socket) -> None:
    """Make whatever blocks on `sock` in another thread return."""
    with contextlib.suppress(OSError):
        # The plain socket's method: that of a TLS socket also takes the other thread's TLS state
        # away.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
