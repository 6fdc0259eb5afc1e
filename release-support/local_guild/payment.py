"""A price: whether a card claims one, and whether the server's root asks for payment.

A server may well answer `initialize` for free and ask for payment when a tool is called, so a claim
that cannot be seen to hold has not failed yet.
"""

import re
from typing import Any

from . import exchange

ROOT = b"/"

_KEYS = ("x402", "payment", "payments")
_WORDS = {"x402", "ap2", "payment", "payments"}
_WORD = re.compile(r"[a-z0-9]+")


def is_claimed(content: dict[str, Any]) -> bool:
    """Whether a card has a payment entry of its own, or an extension whose identifier names a
    payment scheme."""
    if any(content.get(key) for key in _KEYS):
        return True
    capabilities = content.get("capabilities")
    listed = [
        content.get("extensions"),
        capabilities.get("extensions") if isinstance(capabilities, dict) else None,
    ]
    entries = [
        entry for extensions in listed if isinstance(extensions, list) for entry in extensions
    ]
    identifiers = [entry.get("uri") if isinstance(entry, dict) else entry for entry in entries]
    return any(
        _WORDS & set(_WORD.findall(name.lower())) for name in identifiers if isinstance(name, str)
    )


async def is_asked_at_root(client: exchange.Client) -> bool:
    """Whether the root of the probed server answers 402, asked with one request.

    Raises nothing but cancellation.
    """
    try:
        async with client.request("GET", ROOT, {"Accept": "*/*"}) as response:
            return response.status == 402
    except exchange.EXCHANGE_ERRORS:
        return False
