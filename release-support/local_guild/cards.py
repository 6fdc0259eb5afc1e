"""Agent cards: where a server publishes one, and what can be told from it without trusting it.

Rules this module keeps:

1. A card is a JSON object with a `name` that is text. Everything else in it may be missing or of
   any type.
2. What a card says is a claim. The only text of it that leaves this module is the name.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from . import exchange

PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")

_PAYMENT_KEYS = ("x402", "payment", "payments")
_PAYMENT_WORDS = {"x402", "ap2", "payment", "payments"}


@dataclass(frozen=True, slots=True)
class Card:
    """What a card claims: a name, the URL of its agent, and whether it carries a signature and asks
    for payment."""

    name: str
    url: str | None
    signed: bool
    claims_payment: bool


async def find(client: httpx.AsyncClient, url: httpx.URL) -> Card | None:
    """The agent card of the server behind `url`, looked for in at most two requests, or `None` if
    there is none that can be read.

    Raises nothing but cancellation.
    """
    for path in PATHS:
        try:
            address = url.copy_with(raw_path=path.encode(), fragment=None)
            async with client.stream(
                "GET", address, headers={"Accept": "application/json"}
            ) as response:
                card = parse(await exchange.read(response)) if response.status_code == 200 else None
        except exchange.EXCHANGE_ERRORS:
            continue
        if card:
            return card
    return None


def parse(body: bytes) -> Card | None:
    """The card in the body of an answer, or `None` if it is not one."""
    try:
        content = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        return None
    url = content.get("url")
    return Card(
        name=content["name"],
        url=url if isinstance(url, str) else None,
        signed=bool(content.get("signatures") or content.get("proof")),
        claims_payment=_claims_payment(content),
    )


def belongs_to(card: Card, url: httpx.URL) -> bool:
    """Whether the card says that its agent is the one at `url`."""
    try:
        return card.url is not None and httpx.URL(card.url) == url
    except (httpx.InvalidURL, ValueError):
        return False


def _claims_payment(content: dict[str, Any]) -> bool:
    """Whether a card has a payment entry of its own, or an extension whose identifier names a
    payment scheme."""
    if any(content.get(key) for key in _PAYMENT_KEYS):
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
        _PAYMENT_WORDS & set(re.findall(r"[a-z0-9]+", name.lower()))
        for name in identifiers
        if isinstance(name, str)
    )
