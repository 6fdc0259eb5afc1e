"""What was seen, as the six findings of an answer.

Rules this module keeps:

1. What the endpoint itself did decides about the handshake. What its card says never does.
2. A price that a card claims is proven by a demand for payment, and failed only if the endpoint
   answered without one and without speaking MCP.
3. Every sentence is ours.
4. Where headers belong to the URL and were not sent, though it is not known what a call carries,
   the handshake is unknown whatever was seen without them.
5. A server that was sent headers could hand them back as its name, so its name is left out.
"""

from dataclasses import replace

from .answers import Finding
from .cards import Card
from .credentials import Credentials, Withheld
from .handshake import Seen

_SENT = "It was asked with the headers of the MCP settings."


def of_an_answer(
    seen: Seen, card: Card | None, credentials: Credentials | None
) -> dict[str, Finding]:
    """The findings about an endpoint that answered; `credentials` is `None` if none were looked for."""
    return {
        "endpoint_reachable": Finding(
            "proven", f"The URL answered over HTTP (status {seen.status})."
        ),
        "protocol_handshake": _protocol(seen, credentials),
        "agent_card_resolves": _card(seen, card, is_named=not _were_sent(credentials)),
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


def _protocol(seen: Seen, credentials: Credentials | None) -> Finding:
    withheld = credentials.withheld if credentials else None
    if withheld and withheld.leaves_unknown:
        return Finding("unknown", withheld.sentence)
    found = _handshake(seen, "other credentials" if _were_sent(credentials) else "credentials")
    if _were_sent(credentials):
        return replace(found, detail=f"{found.detail} {_SENT}")
    if withheld and (withheld is Withheld.PLAIN_HTTP or not seen.initialized):
        return replace(found, detail=f"{found.detail} {withheld.sentence}")
    return found


def _handshake(seen: Seen, wanted: str) -> Finding:
    """What the handshake came to, with whatever headers; `wanted` is what a refusal asks for."""
    if seen.initialized:
        return Finding("proven", "The URL answered an MCP initialize request with a valid result.")
    if seen.refused:
        return Finding(
            "unknown", f"The URL wants {wanted} before it speaks MCP (status {seen.refused})."
        )
    return Finding("failed", "The URL answered, but with nothing that belongs to MCP.")


def _were_sent(credentials: Credentials | None) -> bool:
    """Whether the probe carried headers of the MCP settings."""
    return credentials is not None and bool(credentials.headers)


def _card(seen: Seen, card: Card | None, *, is_named: bool) -> Finding:
    if card:
        return Finding(
            "proven",
            "The server publishes a readable agent card.",
            declared_name=card.name if is_named else None,
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
