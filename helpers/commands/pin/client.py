"""The HTTP client with which an MCP server is asked: watched, and bounded.

Rules of this module:

1. No redirect is followed and no proxy or netrc of the environment is used: URL and headers go
   to the server that was announced and to nobody else. TLS is verified, with the certificates
   that the framework would use: those of SSL_CERT_FILE where that is set.
2. At most 4 MiB over all answers, not encoded. Each is checked before the HTTP library's patterns
   meet it, on a connection of its own.
3. The MCP client keeps most failures to itself and waits. So the first one ends everything at
   once, and of it only its class is kept, with the HTTP status where that is it.

The module imports nothing of the framework.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

import anyio
import certifi
import httpx
from mcp import McpError

from ...exceptions import chain
from ...guild_preflight.checked_stream import check_what_comes
from ...terms import Term

MAX_BYTES: Final = 4 * 1024 * 1024


class NotListed(Term):
    """Why a server did not name its tools; `sentence` says it."""

    sentence: str

    RESOLVE = "resolve", "The server's name did not resolve."
    CONNECT = "connect", "No connection to the server."
    TLS = "tls", "The TLS handshake with the server failed."
    TIMEOUT = "timeout", "The deadline passed before the server had named its tools."
    HTTP_STATUS = "http_status", "The server answered with an HTTP error."
    REDIRECT = "redirect", "The server redirects; that is not followed here."
    CONTENT_ENCODING = "content_encoding", "The server's answer was encoded."
    TOO_LARGE = "too_large", "The server's answers were larger than 4 MiB."
    TOO_MANY = "too_many", "The server names more than 1,000 tools."
    HEADERS = "headers", "The configured headers cannot be sent."
    CERTIFICATES = "certificates", "SSL_CERT_FILE or SSL_CERT_DIR cannot be read."
    MCP_ERROR = "mcp_error", "The server answered with an MCP error."
    PROTOCOL = "protocol", "The server did not speak MCP in the way that its type says."


class Watch:
    """What becomes of one connection.

    Attributes:
        why: the first thing that failed, None while nothing has.
        status: the HTTP status of `HTTP_STATUS` and `REDIRECT`, else None.
    """

    def __init__(self, scope: anyio.CancelScope, *, is_streamable: bool) -> None:
        """Begin to watch.

        Args:
            scope: ends when something fails.
            is_streamable: streamable HTTP, where only the POST requests are needed.
        """
        self.why: NotListed | None = None
        self.status: int | None = None
        self._scope = scope
        self._is_streamable = is_streamable
        self._received = 0

    def fail(self, why: NotListed, status: int | None = None) -> None:
        """End everything; the first cause counts."""
        if self.why is None:
            self.why, self.status = why, status
        self._scope.cancel()

    def see_error(self, request: httpx.Request, error: Exception) -> None:
        """Note that a request came to nothing."""
        if self._is_needed(request):
            self.fail(why_not_listed(error))

    def see_head(self, request: httpx.Request, response: httpx.Response) -> None:
        """Note what a request was answered."""
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            self.fail(NotListed.CONTENT_ENCODING)
        elif self._is_needed(request) and response.status_code >= 400:
            self.fail(NotListed.HTTP_STATUS, response.status_code)
        elif self._is_needed(request) and response.status_code >= 300:
            self.fail(NotListed.REDIRECT, response.status_code)

    def see_bytes(self, size: int) -> None:
        """Count what is received."""
        self._received += size
        if self._received > MAX_BYTES:
            self.fail(NotListed.TOO_LARGE)
            raise httpx.ReadError("more bytes than permitted")

    def _is_needed(self, request: httpx.Request) -> bool:
        return request.method == "POST" or not self._is_streamable

    def client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx.Timeout | None = None,
        auth: httpx.Auth | None = None,
    ) -> httpx.AsyncClient:
        """Make a client, in the form that the MCP client asks for.

        Args:
            headers: the configured headers, whatever they are.
            timeout: left aside: one deadline counts, and it is the caller's.
            auth: as given.

        Returns:
            The client. What cannot be sent as headers is a failure.
        """
        try:
            configured = httpx.Headers(headers)
        except Exception:  # no texts, no pairs, or no ASCII
            self.fail(NotListed.HEADERS)
            configured = httpx.Headers()
        return httpx.AsyncClient(
            headers=[("Accept-Encoding", "identity"), *configured.multi_items()],
            auth=auth,
            timeout=None,
            follow_redirects=False,
            trust_env=False,
            transport=_Transport(self),
        )


def why_not_listed(error: BaseException) -> NotListed:
    """Return why a connection came to nothing; of a group, the cause of its first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpError):
        return NotListed.MCP_ERROR
    if isinstance(error, httpx.LocalProtocolError):
        return NotListed.HEADERS
    if not isinstance(error, httpx.ConnectError):
        return NotListed.PROTOCOL
    for each in chain(error):
        if isinstance(each, socket.gaierror):
            return NotListed.RESOLVE
        if isinstance(each, ssl.SSLError):
            return NotListed.TLS
    return NotListed.CONNECT


def _tls_context() -> ssl.SSLContext:
    """Trust what the framework's client would trust.

    Not through the library's default: that one writes keys to $SSLKEYLOGFILE.

    Raises:
        OSError: the certificates cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if file or not folder:
        context.load_verify_locations(file or certifi.where())
    else:
        context.load_verify_locations(capath=folder)
    return context


class _Transport(httpx.AsyncBaseTransport):
    """The usual transport, watched."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        try:
            context = _tls_context()
        except OSError:
            watch.fail(NotListed.CERTIFICATES)
            raise
        limits = httpx.Limits(max_keepalive_connections=0)
        self._inner = httpx.AsyncHTTPTransport(verify=context, trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "trace": check_what_comes}
        try:
            response = await self._inner.handle_async_request(request)
        except Exception as error:
            self._watch.see_error(request, error)
            raise
        self._watch.see_head(request, response)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, self._watch)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx.AsyncByteStream):
    """A body that is counted as it comes."""

    def __init__(self, inner: httpx.AsyncByteStream, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._watch.see_bytes(len(chunk))
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
