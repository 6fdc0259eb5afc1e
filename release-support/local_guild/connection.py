"""One connection to the probed server: plain, or TLS over it.

Rules this module keeps:

1. It leads to the fixed addresses of the probe; TLS checks the certificate for the host that the
   URL names.
2. Every byte that comes in is taken from the probe's allowance, TLS's own included.
3. A TLS handshake computes in a thread: its cost is the server's choice, and the loop belongs to
   all probes. What cannot be had cheaply later, a renegotiation, is switched off.
4. Closing waits for nobody.
5. Certificates are trusted as the framework's client trusts them: those of `SSL_CERT_FILE` or
   `SSL_CERT_DIR` if one is set, else those that come with the HTTP library.
"""

import asyncio
import socket
import ssl
from functools import cache
from typing import Protocol

import httpx

from .addresses import Addresses
from .allowance import Allowance

READ_BYTES = 4096


class Connection(Protocol):
    """What an exchange needs of a connection. All but `close` raise `OSError` once it is over."""

    async def read(self) -> bytes:
        """Return some bytes, or none at the end; raises `BoundReached` too."""

    async def write(self, data: bytes) -> None:
        """Send all of `data`."""

    def close(self) -> None:
        """Close the connection at once."""


class NotConnected(OSError):
    """No connection came about."""


async def open_connection(
    addresses: Addresses, allowance: Allowance, tls_name: str | None
) -> Connection:
    """Return a new connection, with TLS for `tls_name` unless that is `None`.

    Raises `NotConnected` and `BoundReached`.
    """
    try:
        plain = _Plain(await addresses.connect(), allowance)
        if tls_name is None:
            return plain
        return await _secured(plain, tls_name)
    except OSError as error:
        raise NotConnected from error


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS settings of all probes, made once because reading the certificates takes
    longer than a probe.

    Raises `OSError` if the environment names certificates that cannot be read.
    """
    context = httpx.create_ssl_context(trust_env=True)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Plain:
    """A connection without TLS."""

    def __init__(self, sock: socket.socket, allowance: Allowance) -> None:
        self._sock = sock
        self._allowance = allowance

    async def read(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self._sock, READ_BYTES)
        await self._allowance.take_bytes(len(data))
        return data

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    def close(self) -> None:
        self._sock.close()


async def _secured(plain: _Plain, host: str) -> Connection:
    """Return TLS over `plain`, which is closed if that fails."""
    try:
        secured = _Tls(plain, host)
        await secured.shake_hands()
    except BaseException:
        plain.close()
        raise
    return secured


class _Tls:
    """A connection with TLS over a plain one."""

    def __init__(self, plain: _Plain, host: str) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls_context().wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def shake_hands(self) -> None:
        """Agree on keys and check the certificate.

        Raises `OSError` (`ssl.SSLError` is one) and `BoundReached`.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(None, self._tls.do_handshake)
            except ssl.SSLWantReadError:
                await self._take_in()
            else:
                await self._pass_on()
                return

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                await self._take_in()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""  # Many servers end without the closing alert.

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await self._pass_on()

    def close(self) -> None:
        self._plain.close()

    async def _take_in(self) -> None:
        await self._pass_on()
        data = await self._plain.read()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _pass_on(self) -> None:
        if data := self._outgoing.read():
            await self._plain.write(data)
