"""Agent cards: where a server publishes one, and what can be told from it without trusting it.

Rules this module keeps:

1. A card is a JSON object with a `name` that is text. Everything else in it may be missing or of
   any type.
2. What a card says is a claim, and proves nothing about the endpoint. The only text of it that
   leaves this module is the name.
3. A signature is present if an entry has the shape of one: a JSON Web Signature in `signatures`, a
   data integrity proof in `proof`. It is not verified.
"""

import json
from dataclasses import dataclass
from typing import Any

from . import exchange, payment
from .documents import refuse_costly

PATHS = (b"/.well-known/agent-card.json", b"/.well-known/agent.json")


@dataclass(frozen=True, slots=True)
class Card:
    """What a card claims: a name, and whether it carries a signature and names a price."""

    name: str
    signed: bool
    claims_payment: bool


async def find(client: exchange.Client) -> Card | None:
    """The agent card of the probed server, looked for in at most two requests, or `None` if there
    is none that can be read.

    Raises nothing but cancellation.
    """
    for path in PATHS:
        try:
            async with client.request("GET", path, {"Accept": "application/json"}) as response:
                card = parse(await response.read()) if response.status == 200 else None
        except exchange.EXCHANGE_ERRORS:
            continue
        if card:
            return card
    return None


def parse(body: bytes) -> Card | None:
    """The card in the body of an answer, or `None` if it is not one.

    Raises `BoundReached`.
    """
    refuse_costly(body)
    try:
        content = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        return None
    return Card(content["name"], _is_signed(content), payment.is_claimed(content))


def _is_signed(content: dict[str, Any]) -> bool:
    """Whether a card carries at least one signature of either kind."""
    signatures, proofs = content.get("signatures"), content.get("proof")
    return any(map(_is_json_web_signature, signatures if isinstance(signatures, list) else [])) or (
        any(map(_is_integrity_proof, proofs if isinstance(proofs, list) else [proofs]))
    )


def _is_json_web_signature(entry: Any) -> bool:
    """Whether an entry has a signature; where it has a protected header too, that is text."""
    return (
        isinstance(entry, dict)
        and _is_text(entry.get("signature"))
        and _is_text(entry.get("protected", "absent"))
    )


def _is_integrity_proof(entry: Any) -> bool:
    return isinstance(entry, dict) and _is_text(entry.get("type"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
