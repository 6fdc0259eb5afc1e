"""Bounded HTTP with one probed server: one request on one connection.

Rules this module keeps:

1. A request names a path, never a host: it cannot go to another server than the probed one.
2. An answer has at most `MAX_HEADS` heads (all but the last are interim, such as 100 Continue), of
   `MAX_HEAD_BYTES` and `MAX_HEAD_LINES` together, and a body of `MAX_RESPONSE_BYTES`. What goes on
   beyond ends the probe. There is no clock here: the caller puts the probe under one.
3. No redirect is followed and no cookie kept. An answer is never expanded: only the identity
   encoding is asked for, and an encoded answer is read as the bytes that it is.
4. What no HTTP is ends the exchange before the HTTP library's patterns meet it: see `framing`.
5. The text of an answer is decoded as UTF-8 only: a character set that a server names is not looked
   up.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import h11
import httpx

from .addresses import Addresses
from .allowance import Allowance, BoundReached
from .connection import Connection, open_connection
from .framing import Framing, Malformed

MAX_HEADS = 8
MAX_HEAD_BYTES = 16 * 1024
MAX_HEAD_LINES = 128
MAX_RESPONSE_BYTES = 64 * 1024

USER_AGENT = "local-guild/0.1.0"

# Everything that can go wrong in an exchange because of the other side.
EXCHANGE_ERRORS = (OSError, h11.ProtocolError, Malformed, BoundReached)

_HEAD_END = re.compile(rb"\n\r?\n")
# For the sizes of chunks and what follows the last one; a head is handed over whole.
_MAX_FRAMING_BYTES = 1024


class Client:
    """The requests of one probe."""

    def __init__(self, url: httpx.URL, addresses: Addresses) -> None:
        """Prepare requests to the server of `url`, which stands at `addresses`."""
        self._host = url.netloc.decode("ascii")
        self._tls_name = url.raw_host.decode("ascii") if url.scheme == "https" else None
        self._addresses = addresses
        self._allowance = Allowance()

    @asynccontextmanager
    async def request(
        self, method: str, path: bytes, headers: Mapping[str, str], content: bytes = b""
    ) -> AsyncIterator["Response"]:
        """Send a request for `path`, which may have a query; gives the answer once its head has
        come.

        Raises one of `EXCHANGE_ERRORS`.
        """
        self._allowance.take_request()
        fields = [("Host", self._host), *_FIELDS, *headers.items()]
        if content:
            fields.append(("Content-Length", str(len(content))))
        connection: Connection = _Checked(
            await open_connection(self._addresses, self._allowance, self._tls_name)
        )
        try:
            state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_FRAMING_BYTES)
            asked = h11.Request(method=method, target=path, headers=fields)
            sent = [asked, *([h11.Data(content)] if content else []), h11.EndOfMessage()]
            await connection.write(b"".join(state.send(event) or b"" for event in sent))
            head = await _final_head(connection, state)
            yield Response(head, connection, state, self._allowance)
        except BoundReached:
            self._allowance.end()
            raise
        finally:
            connection.close()


class _Checked:
    """A connection whose bytes are looked at before the HTTP library reads them; reading raises
    `Malformed` too."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self._framing = Framing()
        self.write, self.close = inner.write, inner.close

    async def read(self) -> bytes:
        self._framing.check()
        return self._framing.take(await self._inner.read())


_FIELDS = [("User-Agent", USER_AGENT), ("Accept-Encoding", "identity"), ("Connection", "close")]


class Response:
    """An answer whose body is still to be read, once."""

    def __init__(
        self,
        head: h11.Response,
        connection: Connection,
        state: h11.Connection,
        allowance: Allowance,
    ) -> None:
        self.status = head.status_code
        self._headers = head.headers
        self._connection = connection
        self._state = state
        self._bytes_left = MAX_RESPONSE_BYTES
        self._allowance = allowance

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return 200 <= self.status <= 299

    @property
    def media_type(self) -> str:
        """The media type in lower case, without parameters; empty when none is named."""
        return self.header("content-type").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """Return the first header of a name in lower case, or an empty text."""
        values = (value for key, value in self._headers if key == name.encode())
        return next(values, b"").decode("latin-1")

    async def read(self) -> bytes:
        """Return the body.

        Raises one of `EXCHANGE_ERRORS`, `BoundReached` when it is too large.
        """
        pieces = []
        while piece := await self.read_piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def read_piece(self) -> bytes:
        """Return what comes next of the body, or nothing at its end.

        Raises one of `EXCHANGE_ERRORS`, `BoundReached` when it is too large.
        """
        while (event := self._state.next_event()) is h11.NEED_DATA:
            self._state.receive_data(await self._connection.read())
        if not isinstance(event, h11.Data):
            return b""
        self._allowance.take_piece()
        self._bytes_left -= len(event.data)
        if self._bytes_left < 0:
            raise BoundReached
        return bytes(event.data)


async def _final_head(connection: Connection, state: h11.Connection) -> h11.Response:
    """The head that is not interim; what has come of the body is left to `state`.

    Raises one of `EXCHANGE_ERRORS`.
    """
    received = bytearray()
    size = lines = 0
    for _ in range(MAX_HEADS):
        head = await _take_head(connection, received, MAX_HEAD_BYTES - size)
        size += len(head)
        lines += head.count(b"\n")
        if lines > MAX_HEAD_LINES:
            raise BoundReached
        state.receive_data(head)
        event = state.next_event()
        if isinstance(event, h11.Response):
            if received:
                state.receive_data(bytes(received))
            return event
    raise BoundReached


async def _take_head(connection: Connection, received: bytearray, limit: int) -> bytes:
    """Take the next head, with its empty line, off what was received, and read until there is one.

    Raises one of `EXCHANGE_ERRORS`, `BoundReached` if it is longer than `limit` bytes.
    """
    looked_at = 0
    while not (found := _HEAD_END.search(received, looked_at)):
        looked_at = max(0, len(received) - 2)
        if len(received) > limit:
            raise BoundReached
        data = await connection.read()
        if not data:
            raise ConnectionError
        received += data
    head = bytes(received[: found.end()])
    del received[: found.end()]
    if len(head) > limit:
        raise BoundReached
    return head
