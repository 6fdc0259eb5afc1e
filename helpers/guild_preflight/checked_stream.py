"""A connection of the HTTP library whose bytes are looked at before it reads them.

The library tells its steps to whoever asks for that with a request (`trace`), and the connection
with them: there its `read` is replaced. Whoever uses this keeps no connection for another request.
"""

from __future__ import annotations

from typing import Any, Final

import httpcore

from .framing import Framing, Malformed

_CONNECTED: Final = ("connection.connect_tcp.complete", "connection.start_tls.complete")


async def check_what_comes(event: str, info: dict[str, Any]) -> None:
    """Have a new connection checked; the `trace` of a request.

    Args:
        event: the step of the library.
        info: what belongs to it.
    """
    if event in _CONNECTED:
        _check(info["return_value"])


def _check(stream: Any) -> None:
    framing, read = Framing(), stream.read

    async def checked_read(max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            framing.check()
            return framing.take(await read(max_bytes, timeout))
        except Malformed:
            raise httpcore.RemoteProtocolError("no HTTP") from None

    stream.read = checked_read
