"""One request to the preflight service, from its bytes to its body.

Rules of this module:

1. Exactly `GET {origin}/preflight?url=<percent-encoded>` with the headers Host,
   User-Agent and Accept, and no other. No answer leads to another path.
2. No proxy or netrc from the environment, no redirect, no retry, no cookie, no HTTP/2, no
   connection kept for later.
3. The body is counted while it streams and is never larger than 1 MiB; a head has at most
   100 KiB, and `framing` sees it before the HTTP library's patterns do.
4. The deadline is the caller's, who cancels: then the connection is closed. A name lookup
   that already runs in a thread ends in the background, and nothing follows it.
5. An answer with an unusable head is still read within those bounds, because what it
   claims matters to the policy; it is kept, also when the caller cancels.

An HTTP client's own log would hold the URL, so the request goes to the transport below
it. httpcore and certifi are that transport's own parts: httpx brings them. The module
imports nothing of the framework.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any, Final, cast
from urllib.parse import quote

import certifi
import httpcore
import httpx

from ..exceptions import chain
from ..product import USER_AGENT
from ..reasons import SubReason
from .checked_stream import check_what_comes
from .response_head import refuse_head
from .salvage import Claims, EvidenceUnavailable, read_claims

MAX_BODY_BYTES: Final = 1024 * 1024

_tls_lock = threading.Lock()


class PreflightRequest:
    """One request and what has been received of its answer so far."""

    def __init__(self, origin: str, target: str) -> None:
        """Prepare the request.

        Args:
            origin: scheme, host and port of the service.
            target: the URL to ask about.
        """
        self._url = f"{origin}/preflight?url={quote(target, safe='')}"
        self._received = bytearray()
        self._head_refusal: SubReason | None = None
        self._claims: tuple[int, Claims] | None = None
        self._step = ""
        self._stream: httpcore.AsyncNetworkStream | None = None

    def unavailable(self, sub_reason: SubReason) -> EvidenceUnavailable:
        """Return the refusal for an answer that has not become whole.

        Args:
            sub_reason: what ended it; an unusable head, seen before, takes precedence.

        Returns:
            A new exception with the claims of what was received.
        """
        size = len(self._received)
        if self._claims is None or self._claims[0] != size:  # many callers ask at one deadline
            self._claims = size, read_claims(bytes(self._received))
        return EvidenceUnavailable(self._head_refusal or sub_reason, self._claims[1])

    async def run(self) -> bytes:
        """Send the request and read the answer.

        Returns:
            The whole body of a usable answer.

        Raises:
            EvidenceUnavailable: with the sub-reason.
        """
        transport = httpx.AsyncHTTPTransport(
            verify=shared_tls_context(), trust_env=False, retries=0
        )
        try:
            request = httpx.Request(
                "GET",
                self._url,
                headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
                extensions={"trace": self._note_step},
            )
            failure = await self._transfer(transport, request)
        finally:
            await transport.aclose()
            # During the TLS handshake the transport does not know its connection yet.
            if self._stream is not None:
                await self._stream.aclose()
        if failure is not None:
            raise self.unavailable(failure)
        return bytes(self._received)

    async def _transfer(
        self, transport: httpx.AsyncHTTPTransport, request: httpx.Request
    ) -> SubReason | None:
        began = time.monotonic()
        try:
            response = await transport.handle_async_request(request)
            taken = time.monotonic() - began
            self._head_refusal = refuse_head(response, time.time(), taken)
            # Closed by hand: a loop that is left early would leave that to the collector.
            async with aclosing(_chunks(response)) as chunks:
                async for chunk in chunks:
                    self._received += chunk[: MAX_BODY_BYTES + 1 - len(self._received)]
                    if len(self._received) > MAX_BODY_BYTES:
                        return SubReason.TOO_LARGE
        except (httpx.TransportError, ssl.SSLError) as error:  # a late alert comes unmapped
            return self._failed_step(error)
        return self._head_refusal

    async def _note_step(self, event: str, info: dict[str, Any]) -> None:
        await check_what_comes(event, info)
        step, _, state = event.rpartition(".")
        if state == "started":
            self._step = step
        elif event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]

    def _failed_step(self, error: BaseException) -> SubReason:
        """Tell a failed lookup, connection or handshake from a broken answer."""
        if self._step == "connection.start_tls":
            return SubReason.TLS
        if self._step != "connection.connect_tcp":
            return SubReason.PROTOCOL
        did_not_resolve = any(isinstance(each, socket.gaierror) for each in chain(error))
        return SubReason.RESOLVE if did_not_resolve else SubReason.CONNECT


def _chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Return the body as it comes; `aiter_bytes` would decode it."""
    return cast(AsyncGenerator[bytes, None], response.stream.__aiter__())  # type: ignore[union-attr]


def shared_tls_context() -> ssl.SSLContext:
    """Return the process's one TLS context; building one costs 16 ms."""
    with _tls_lock:
        return _build_tls_context()


@cache
def _build_tls_context() -> ssl.SSLContext:
    # Not through the library's default: that one writes keys to $SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certifi.where())
    return context
