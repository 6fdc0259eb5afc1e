"""One probe of one URL: from the text that a caller asks about to an answer of the contract.

Rules this module keeps:

1. There is always an answer. A URL that cannot be probed, a server that misbehaves and a mistake of
   our own all end in failed or unknown checks.
2. One clock bounds the whole probe; the handshake gets the larger share of it, and what was seen
   before the clock ran out counts.
3. Private and loopback addresses are probed like any other: the caller is on this machine.
4. The probed server is told nothing but the requests themselves: no credentials, not even those in
   the URL.
5. A sentence of an answer is ours. No text of the probed server is logged.
"""

import asyncio
import contextlib
import time
from typing import Any

import httpx

from . import answers, cards, exchange, handshake
from .answers import Finding

DEADLINE_SECONDS = 4.0
HANDSHAKE_SHARE = 0.75
MAX_TARGET_CHARACTERS = 2048


async def probe(target: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> dict[str, Any]:
    """Probe `target`, a URL as the caller wrote it, in at most `deadline_seconds`.

    Returns an answer as `answers.answer` makes it. Raises nothing but cancellation.
    """
    started = time.monotonic()
    try:
        findings = await _findings(target, deadline_seconds)
    except Exception:
        # Fail closed, and without the exception's text, which may quote the probed server.
        findings = _not_reached("The probe broke off for a reason of its own.")
    return answers.answer(target, findings, latency_ms=round((time.monotonic() - started) * 1000))


async def _findings(target: str, deadline_seconds: float) -> dict[str, Finding]:
    url = _url(target)
    if url is None:
        return _not_reached(
            "Not probed: this is no http or https URL of at most 2048 characters without user information."
        )
    seen, card = handshake.Seen(), None
    async with exchange.open_client() as client:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_seconds):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(deadline_seconds * HANDSHAKE_SHARE):
                        await handshake.attempt(client, url, seen)
                if seen.answered:
                    card = await cards.find(client, url)
                await handshake.leave(client, url, seen)
    if not seen.answered:
        return _not_reached("No HTTP answer came from this URL.")
    return {
        "endpoint_reachable": Finding(
            "proven", f"The URL answered over HTTP (status {seen.status})."
        ),
        "protocol_handshake": _protocol(url, seen, card),
        "agent_card_resolves": _card(seen, card),
        "agent_card_signed": _signature(card),
        "payment_claim_holds": _payment(seen, card),
        "independent_evidence": _evidence(),
    }


def _url(target: str) -> httpx.URL | None:
    """`target` as a URL that may be probed, or `None`."""
    if len(target) > MAX_TARGET_CHARACTERS:
        return None
    try:
        url = httpx.URL(target)
    except (httpx.InvalidURL, ValueError):
        return None
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        return None
    return url


def _not_reached(detail: str) -> dict[str, Finding]:
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


def _protocol(url: httpx.URL, seen: handshake.Seen, card: cards.Card | None) -> Finding:
    if seen.initialized:
        return Finding("proven", "The URL answered an MCP initialize request with a valid result.")
    if card and cards.belongs_to(card, url):
        return Finding("proven", "The server's agent card names exactly this URL as its agent.")
    if seen.refused:
        return Finding(
            "unknown", f"The URL wants credentials before it speaks MCP (status {seen.refused})."
        )
    return Finding(
        "failed",
        "The URL answered, but with nothing that belongs to MCP or to a matching agent card.",
    )


def _card(seen: handshake.Seen, card: cards.Card | None) -> Finding:
    if card:
        return Finding(
            "proven", "The server publishes a readable agent card.", declared_name=card.name
        )
    if seen.initialized:
        return Finding("unknown", "No readable agent card; an MCP server needs none.")
    return Finding("failed", "No readable agent card at the well-known addresses.")


def _signature(card: cards.Card | None) -> Finding:
    if card is None:
        return Finding("unknown", "There is no card that could be signed.")
    if card.signed:
        return Finding("proven", "The card carries a signature, which was not verified.")
    return Finding("failed", "The card carries no signature.")


def _payment(seen: handshake.Seen, card: cards.Card | None) -> Finding:
    if card is None or not card.claims_payment:
        return Finding("unknown", "No card claims a price.")
    if seen.asked_for_payment:
        return Finding(
            "proven", "The card claims a price, and the URL asked for payment (status 402)."
        )
    return Finding("failed", "The card claims a price, but the URL did not ask for payment.")


def _evidence() -> Finding:
    return Finding(
        "unknown", "A service on this machine holds nobody else's experience with the endpoint."
    )
