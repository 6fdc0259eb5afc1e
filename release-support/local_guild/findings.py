"""What was seen, as the six findings of an answer.

Rules this module keeps:

1. What the endpoint itself did decides about the handshake. What its card says never does.
2. A price that a card claims is proven by a demand for payment, and failed only if the endpoint
   answered without one and without speaking MCP.
3. Every sentence is ours.
"""

from .answers import Finding
from .cards import Card
from .handshake import Seen


def of_an_answer(seen: Seen, card: Card | None) -> dict[str, Finding]:
    """The findings about an endpoint that answered."""
    return {
        "endpoint_reachable": Finding(
            "proven", f"The URL answered over HTTP (status {seen.status})."
        ),
        "protocol_handshake": _protocol(seen),
        "agent_card_resolves": _card(seen, card),
        "agent_card_signed": _signature(card),
        "payment_claim_holds": _payment(seen, card),
        "independent_evidence": _evidence(),
    }


def of_no_answer(detail: str) -> dict[str, Finding]:
    """The findings about an endpoint that gave no answer, for the reason in `detail`."""
    return {
        "endpoint_reachable": Finding("failed", detail),
        "protocol_handshake": Finding("unknown", "There was no answer to shake hands with."),
        "agent_card_resolves": Finding(
            "failed", "No card was asked for, since the URL itself gave no answer."
        ),
        "agent_card_signed": _signature(None),
        "payment_claim_holds": Finding("unknown", "There is no card that could claim a price."),
        "independent_evidence": _evidence(),
    }


def _protocol(seen: Seen) -> Finding:
    if seen.initialized:
        return Finding("proven", "The URL answered an MCP initialize request with a valid result.")
    if seen.refused:
        return Finding(
            "unknown", f"The URL wants credentials before it speaks MCP (status {seen.refused})."
        )
    return Finding("failed", "The URL answered, but with nothing that belongs to MCP.")


def _card(seen: Seen, card: Card | None) -> Finding:
    if card:
        return Finding(
            "proven", "The server publishes a readable agent card.", declared_name=card.name
        )
    if seen.initialized:
        return Finding("unknown", "No readable agent card; an MCP server needs none.")
    return Finding("failed", "No readable agent card at the well-known addresses.")


def _signature(card: Card | None) -> Finding:
    if card is None:
        return Finding("unknown", "There is no card that could be signed.")
    if card.signed:
        return Finding("proven", "The card carries a signature, which was not verified.")
    return Finding("failed", "The card carries no signature.")


def _payment(seen: Seen, card: Card | None) -> Finding:
    if card is None or not card.claims_payment:
        return Finding("unknown", "No card claims a price.")
    if seen.asked_for_payment:
        return Finding(
            "proven", "The card claims a price, and the server asked for payment (status 402)."
        )
    if seen.initialized or seen.refused:
        return Finding(
            "unknown", "The card claims a price, which may be asked for when a tool is called."
        )
    return Finding("failed", "The card claims a price, but the server did not ask for payment.")


def _evidence() -> Finding:
    return Finding(
        "unknown", "A service on this machine holds nobody else's experience with the endpoint."
    )
