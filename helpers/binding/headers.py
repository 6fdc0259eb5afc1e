"""What a server's headers say of where a call goes.

Rules of this module:

1. A header may name another host than the URL does. Every header that a server or a proxy in
   front of it may follow counts, however it is spelled.
2. Header values decide where a call goes, so a binding changes with them; they are secrets,
   so only a keyed digest of them is kept, and the key dies with the process.
3. Headers that cannot be read are taken for ones that name another host.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

# Headers by which a server or a proxy in front of it may choose another host.
HOST_HEADERS: Final = frozenset(
    {
        "host",
        ":authority",
        "forwarded",
        "x-forwarded-authority",
        "x-forwarded-host",
        "x-forwarded-server",
        "x-host",
        "x-http-host-override",
        "x-original-host",
        "x-original-url",
        "x-rewrite-url",
    }
)

_DIGEST_KEY: Final = secrets.token_bytes(32)


def named_hosts(headers: Any) -> tuple[str, ...]:
    """Return the hosts that headers name, lower case, each as configured.

    Args:
        headers: a mapping or pairs of names and values; None or nothing for none.

    Returns:
        The hosts; empty when no header names one.
    """
    if not headers:
        return ()
    return tuple(
        value.strip().lower()
        for name, value in _pairs(headers)
        if name.strip().lower().replace("_", "-") in HOST_HEADERS
    )


def headers_digest(headers: Any) -> bytes:
    """Return what changes with any header and tells nothing about them.

    Args:
        headers: as for `named_hosts`.

    Returns:
        16 bytes, or none where there are no headers.
    """
    if not headers:
        return b""
    text = repr(_pairs(headers)).encode("utf-8", "backslashreplace")
    return blake2b(text, digest_size=16, key=_DIGEST_KEY).digest()


def _pairs(headers: Any) -> list[tuple[str, str]]:
    """Return (name, value) pairs; unreadable headers count as naming a foreign host."""
    items = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [(_text(name), _text(value)) for name, value in items]
    except (TypeError, ValueError):
        return [("host", "?")]


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
