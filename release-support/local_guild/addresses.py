"""Where the host of a probed URL leads: asked once, and the same for the whole probe.

Rules this module keeps:

1. There is one look-up for each probe, by the loop's own `getaddrinfo`. A literal address needs
   none.
2. The answers are of one kind, public or not. A name that leads to both is refused: whoever chose
   it could show a probe the one and a client the other.
3. At most `MAX_ADDRESSES` answers are used. The first address that takes a connection is the only
   one from then on.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

MAX_ADDRESSES = 6
STAGGER_SECONDS = 0.25


class MixedAnswers(Exception):
    """A name leads to public and to other addresses at once."""


class Addresses:
    """The addresses of one host and port, fixed."""

    def __init__(self, addresses: Iterable[str], port: int) -> None:
        self._addresses = tuple(addresses)[:MAX_ADDRESSES]
        self._port = port

    @property
    def are_loopback(self) -> bool:
        """Whether all of them are addresses of this machine alone."""
        return all(ipaddress.ip_address(address).is_loopback for address in self._addresses)

    async def connect(self) -> socket.socket:
        """Return a connected, non-blocking socket, which the caller closes.

        The next address is tried when those before it have failed or have not answered for
        `STAGGER_SECONDS`. Raises `OSError` if none takes the connection.
        """
        attempts: dict[asyncio.Task[socket.socket], str] = {}
        waiting = list(self._addresses)
        connected = None
        try:
            while connected is None:
                if waiting:
                    address = waiting.pop(0)
                    attempts[asyncio.create_task(_dial(address, self._port))] = address
                under_way = [task for task in attempts if not task.done()]
                if not under_way:
                    raise ConnectionError
                timeout = STAGGER_SECONDS if waiting else None
                await asyncio.wait(under_way, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                connected = next((task for task in attempts if _succeeded(task)), None)
        finally:
            await _discard([task for task in attempts if task is not connected])
        self._addresses = (attempts[connected],)
        return connected.result()


async def resolve(host: str, port: int) -> Addresses:
    """Return the addresses of `host`, a name or a literal address without brackets.

    Raises `MixedAnswers`, and `OSError` if there are none.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await _look_up(host, port)
    else:
        found = [host]
    if len({_is_public(address) for address in found}) > 1:
        raise MixedAnswers
    return Addresses(found, port)


async def _look_up(host: str, port: int) -> list[str]:
    """Return all addresses of a name, in the order in which they should be tried.

    Raises `OSError`.
    """
    loop = asyncio.get_running_loop()
    try:
        answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (UnicodeError, RuntimeError) as error:  # no such name can exist; no thread is to be had
        raise OSError from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in answers))


def _is_public(address: str) -> bool:
    return ipaddress.ip_address(address).is_global


async def _dial(address: str, port: int) -> socket.socket:
    """Return a socket that is connected to one address.

    Raises `OSError`.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _succeeded(attempt: asyncio.Task[socket.socket]) -> bool:
    return attempt.done() and attempt.exception() is None


async def _discard(attempts: list[asyncio.Task[socket.socket]]) -> None:
    """End attempts that are no longer wanted, with the sockets that they have connected."""
    for attempt in attempts:
        attempt.cancel()
    for ended in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(ended, socket.socket):
            ended.close()
