"""Bounded HTTP with one probed server.

Everything that a probe sends or reads goes through here.
Rules this module keeps:

1. A client sends at most `MAX_REQUESTS` requests, and reads at most `MAX_RESPONSE_BYTES` of each
   answer. It has no clock of its own: the caller puts it under one.
2. No redirect is followed, no proxy or certificate setting is taken from the environment, no cookie
   is kept.
3. An answer is never expanded: only the identity encoding is asked for, and an encoded answer is
   read as the bytes that it is.
4. The text of an answer is decoded as UTF-8 only: a character set that a server names is not looked
   up.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache

import httpx

MAX_REQUESTS = 5
MAX_RESPONSE_BYTES = 256 * 1024

USER_AGENT = "local-guild/0.1.0"

# Response headers that would make httpx do something: decompress, or send a cookie back.
_IGNORED_HEADERS = (b"content-encoding", b"set-cookie")


class BoundReached(Exception):
    """The probed server wanted more requests or more bytes than a probe grants."""


# Everything that can go wrong in an exchange because of the other side.
EXCHANGE_ERRORS = (httpx.HTTPError, httpx.InvalidURL, BoundReached)


def open_client() -> httpx.AsyncClient:
    """A client for the probe of one server, to be closed by the caller (`async with`)."""
    return httpx.AsyncClient(
        transport=_BoundedTransport(),
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
        timeout=None,
        follow_redirects=False,
        trust_env=False,
    )


async def read(response: httpx.Response) -> bytes:
    """The body of a streamed response.

    Raises one of `EXCHANGE_ERRORS`, `BoundReached` when it is too large.
    """
    return b"".join([chunk async for chunk in response.aiter_raw()])


def media_type(response: httpx.Response) -> str:
    """The media type of a response in lower case, without parameters; empty when it names none."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


async def events(response: httpx.Response) -> AsyncGenerator[tuple[str, str], None]:
    """The server-sent events of a streamed response, each as `(event name, data)`, as soon as it is
    complete.

    Raises one of `EXCHANGE_ERRORS`. Lines end in LF or CRLF; an event that the stream breaks off in
    is dropped.
    """
    pending = bytearray()
    name, data = "message", list[str]()
    async for chunk in response.aiter_raw():
        for line in _complete_lines(pending, chunk):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif not line:
                if data:
                    yield name, "\n".join(data)
                name, data = "message", []


def _complete_lines(pending: bytearray, chunk: bytes) -> list[str]:
    """The lines that `chunk` completes, without their ends; what is left over stays in
    `pending`."""
    pending += chunk
    # Looking at the new bytes only keeps an answer that drips from costing more with every drop.
    if b"\n" not in chunk:
        return []
    *lines, rest = pending.split(b"\n")
    pending[:] = rest
    return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines]


@cache
def _tls() -> ssl.SSLContext:
    """The TLS settings of all probes, made once because loading the certificates takes longer than
    a probe."""
    return httpx.create_ssl_context(trust_env=False)


class _BoundedTransport(httpx.AsyncBaseTransport):
    """A transport that grants `MAX_REQUESTS` requests and hands out answers that end at
    `MAX_RESPONSE_BYTES`."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=_tls(), trust_env=False)
        self._granted = MAX_REQUESTS

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self._granted:
            raise BoundReached
        self._granted -= 1
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        return httpx.Response(
            response.status_code,
            headers=[
                (name, value)
                for name, value in response.headers.raw
                if name.lower() not in _IGNORED_HEADERS
            ],
            stream=_BoundedStream(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    """The body of an answer, which breaks off with `BoundReached` once it has grown too large."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise BoundReached
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
