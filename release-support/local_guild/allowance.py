"""What one probe may take: requests, bytes, and turns of the loop that it shares with other probes.

Rules this module keeps:

1. Each limit counts for the whole probe, over all its connections. Nothing that the probed server
   does raises or resets one.
2. A server that wanted more than a limit, here or anywhere else in the probe, is asked nothing more.
3. Bytes count as they come off the network, so what TLS and the framing add is part of them.
4. Every read gives the other probes a turn. A server that sends drop by drop is waited for between
   the drops: they then come together.
"""

import asyncio

MAX_REQUESTS = 5
MAX_BYTES = 512 * 1024
MAX_PIECES = 256
FREE_DROPS = 32
DROP_BYTES = 512
DROP_PAUSE_SECONDS = 0.01


class BoundReached(Exception):
    """The probed server wanted more than a probe grants."""


class Allowance:
    """What is left to one probe."""

    def __init__(self) -> None:
        self._requests = MAX_REQUESTS
        self._bytes = MAX_BYTES
        self._pieces = MAX_PIECES
        self._drops = 0

    def end(self) -> None:
        """Leave no request to the probe."""
        self._requests = 0

    def take_request(self) -> None:
        """Count one request.

        Raises `BoundReached` if none is left.
        """
        if not self._requests:
            raise BoundReached
        self._requests -= 1

    def take_piece(self) -> None:
        """Count one piece of a body, which costs as much time as many bytes of a large one.

        Raises `BoundReached` if none is left.
        """
        if not self._pieces:
            raise BoundReached
        self._pieces -= 1

    async def take_bytes(self, count: int) -> None:
        """Count what one read has brought, and let others have their turn.

        Raises `BoundReached` if it is more than was left.
        """
        self._bytes -= count
        if self._bytes < 0:
            raise BoundReached
        self._drops += count < DROP_BYTES
        dripping = count < DROP_BYTES and self._drops > FREE_DROPS
        await asyncio.sleep(DROP_PAUSE_SECONDS if dripping else 0)
