"""Connections to this service: one request each, bounded in number, bytes and time.

Rules this module keeps:

1. A connection is silent until its request is taken. After `HEAD_SECONDS` that must have come whole,
   drop by drop or not. What is none is refused before the HTTP library's patterns meet it. At most
   `MAX_SILENT` are silent; a newcomer takes the place of the oldest.
2. At most `MAX_ANSWERED` requests are answered at once; to others the answer is 503, at once.
3. A caller that goes away before it has its answer ends the work for it.
4. After the answer the connection is closed. The caller gets `LINGER_SECONDS` to read it.
5. Nothing is logged. What a caller sends is never part of an answer here.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import h11

from .framing import Framing, Malformed

HEAD_SECONDS = 3.0
LINGER_SECONDS = 0.5
ACCEPT_PAUSE_SECONDS = 0.05
MAX_HEAD_BYTES = 16 * 1024
MAX_SILENT = 64
MAX_ANSWERED = 64

_READ_BYTES = 4096

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """The head of a request; `target` is its path with the query, header names are in lower
    case."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]

    def values(self, name: str) -> list[str]:
        """Return all headers of a name in lower case."""
        return [value.decode("latin-1") for key, value in self.headers if key == name.encode()]


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    body: bytes
    headers: Headers = ()


Send = Callable[[Reply], Awaitable[None]]
Respond = Callable[[Request, Send], Coroutine[Any, Any, None]]


class Callers:
    """All connections to the service."""

    def __init__(self, respond: Respond, busy: Reply, malformed: Reply) -> None:
        """Prepare for connections.

        `respond` answers a request by one call of the `Send` it is given, and may go on after it;
        `busy` and `malformed` are sent in its place.
        """
        self._respond = respond
        self._busy, self._malformed = busy, malformed
        # In the order of their coming.
        self._silent: dict[asyncio.Task[None], None] = {}
        self._answered: set[asyncio.Task[None]] = set()

    async def welcome(self, listener: socket.socket) -> None:
        """Take connections of a non-blocking, listening socket, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:  # the caller has gone already, or no descriptor is left
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            if len(self._silent) >= MAX_SILENT:
                oldest = next(iter(self._silent))
                oldest.cancel()
                del self._silent[oldest]
            self._silent[asyncio.create_task(self._serve(sock))] = None
            await asyncio.sleep(0)  # A crowd at the door must not stop what goes on inside.

    async def part(self, seconds: float) -> None:
        """End all connections: silent ones now, the others when they are answered, but within
        `seconds`."""
        for task in self._silent:
            task.cancel()
        answered = set(self._answered)
        if answered:
            await asyncio.wait(answered, timeout=seconds)
        for task in answered:
            task.cancel()
        await asyncio.gather(*answered, *self._silent, return_exceptions=True)

    async def _serve(self, sock: socket.socket) -> None:
        """Serve one connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        call = _Call(sock)
        try:
            sock.setblocking(False)
            request = await call.hear()
            if request is None:
                await call.send(self._malformed)
            elif len(self._answered) >= MAX_ANSWERED:
                await call.send(self._busy)
            else:
                del self._silent[task]
                self._answered.add(task)
                await call.attend(self._respond(request, call.send))
            await call.linger()
        except Exception:  # Mostly the caller has gone, or its time is up.
            pass
        finally:
            self._silent.pop(task, None)
            self._answered.discard(task)
            sock.close()


class _Call:
    """One connection, with one request. All methods raise `OSError` when it is over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._state = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._framing = Framing(is_request=True)
        self._is_head = False
        self._is_answered = False

    async def hear(self) -> Request | None:
        """Return the request, or `None` if what came is none.

        Raises `TimeoutError` (an `OSError`) after `HEAD_SECONDS`.
        """
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                while (event := self._state.next_event()) is h11.NEED_DATA:
                    self._state.receive_data(self._framing.take(await self._receive()))
        except (h11.RemoteProtocolError, Malformed):
            return None
        if not isinstance(event, h11.Request):
            raise ConnectionError
        self._is_head = event.method == b"HEAD"
        return Request(event.method.decode("ascii"), event.target, list(event.headers))

    async def send(self, reply: Reply) -> None:
        """Send the answer, and say that no more will come."""
        fields = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(reply.body))),
            ("Date", formatdate(usegmt=True)),
            ("Connection", "close"),
            *reply.headers,
        ]
        events: list[h11.Event] = [h11.Response(status_code=reply.status, headers=fields)]
        if not self._is_head:
            events.append(h11.Data(reply.body))
        events.append(h11.EndOfMessage())
        self._is_answered = True
        data = b"".join(self._state.send(event) or b"" for event in events)
        async with asyncio.timeout(LINGER_SECONDS):
            await asyncio.get_running_loop().sock_sendall(self._sock, data)
        self._sock.shutdown(socket.SHUT_WR)

    async def attend(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, but end it if the caller goes away without an answer."""
        working = asyncio.ensure_future(work)
        listening = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((working, listening), return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and not self._is_answered and _is_over(listening):
                return
            await working
        finally:
            working.cancel()
            listening.cancel()
            await asyncio.gather(working, listening, return_exceptions=True)

    async def linger(self) -> None:
        """Drop what the caller still sends until it closes, but not for long.

        Closing on unread bytes would make the kernel reset the connection, and lose the answer.
        """
        async with asyncio.timeout(LINGER_SECONDS):
            while await self._receive():
                await asyncio.sleep(0)

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._sock, _READ_BYTES)


def _is_over(listening: asyncio.Future[bytes]) -> bool:
    """Whether what was heard last is the end."""
    return listening.done() and (listening.exception() is not None or not listening.result())
