"""One probe of one URL: from the text that a caller asks about to an answer of the contract.

Rules this module keeps:

1. There is always an answer. A URL that cannot be probed, a server that misbehaves and a mistake of
   our own all end in failed or unknown checks.
2. One clock bounds the whole probe; the handshake gets the larger share of it, and what was seen
   before the clock ran out counts. Taking leave of the server comes after the answer, under a clock
   of its own.
3. Private and loopback addresses are probed like any other: the caller is on this machine. The
   host is looked up once, and every request goes to what that gave.
4. The probed server is told nothing but the requests themselves: no credentials, not even those in
   the URL, but for the headers that belong to exactly this URL, where the caller asks for them. Those
   are read for each probe, once it is known where the name leads, and go to the URL alone: no card,
   no root and no redirect gets them.
5. A sentence of an answer is ours. No text of the probed server is logged, and no header either.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from . import answers, cards, findings, handshake, payment
from .addresses import Addresses, MixedAnswers, resolve
from .answers import LIMITS, LIMITS_WITH_HEADERS, Finding
from .credentials import Credentials, CredentialsFor, Withheld, may_travel
from .exchange import Client

DEADLINE_SECONDS = 4.0
HANDSHAKE_SHARE = 0.75
LEAVE_SECONDS = 1.0
MAX_TARGET_CHARACTERS = 2048

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Probed:
    """An answer as `answers.answer` makes it, and what is left to do once it is given.

    `leave` closes what the server opened for the probe, in at most `LEAVE_SECONDS`. It raises
    nothing but cancellation.
    """

    answer: dict[str, Any]
    leave: Callable[[], Awaitable[None]]


@dataclass
class _Visit:
    """What a probe has come to so far."""

    target: str
    url: httpx.URL | None
    credentials_for: CredentialsFor | None
    credentials: Credentials | None = None
    seen: handshake.Seen = field(default_factory=handshake.Seen)
    client: Client | None = None
    card: cards.Card | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that belong to the URL, where they are sent."""
        return self.credentials.headers if self.credentials else {}

    async def leave(self) -> None:
        """Close the session that the server has opened, if any."""
        if self.client and self.url:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS):
                    await handshake.leave(self.client, self.url, self.seen, self.headers)


async def probe(
    target: str,
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
    credentials_for: CredentialsFor | None = None,
) -> Probed:
    """Probe `target`, a URL as the caller wrote it, in at most `deadline_seconds`.

    `credentials_for` says which headers belong to a URL; it is called in a thread. Raises nothing but cancellation.
    """
    started = time.monotonic()
    visit = _Visit(target, _url(target), credentials_for)
    try:
        found = await _findings(visit, deadline_seconds)
    except Exception:
        # Fail closed, and without the exception's text, which may quote the probed server.
        found = findings.of_no_answer("The probe broke off for a reason of its own.")
    milliseconds = round((time.monotonic() - started) * 1000)
    limits = LIMITS_WITH_HEADERS if visit.headers else LIMITS
    answer = answers.answer(target, found, latency_ms=milliseconds, limits=limits)
    return Probed(answer, visit.leave)


async def _findings(visit: _Visit, deadline_seconds: float) -> dict[str, Finding]:
    if visit.url is None:
        return findings.of_no_answer(
            "Not probed: this is no http or https URL of at most 2048 characters without user information."
        )
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(deadline_seconds):
            try:
                await _ask(visit, visit.url, deadline_seconds * HANDSHAKE_SHARE)
            except MixedAnswers:
                return findings.of_no_answer(
                    "Not probed: the name leads to public and to other addresses at once."
                )
    if not visit.seen.answered:
        return findings.of_no_answer("No HTTP answer came from this URL.")
    return findings.of_an_answer(visit.seen, visit.card, visit.credentials)


async def _ask(visit: _Visit, url: httpx.URL, handshake_seconds: float) -> None:
    """Ask the server all there is to ask, noting in `visit` what comes of it.

    Raises `MixedAnswers`.
    """
    try:
        async with asyncio.timeout(handshake_seconds):
            host, port = url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]
            addresses = await resolve(host, port)
            visit.credentials = await _credentials(visit, url, addresses)
            visit.client = Client(url, addresses)
            await handshake.attempt(visit.client, url, visit.seen, visit.headers)
    except OSError:  # the time is up, or the name leads nowhere
        pass
    if visit.client is None or not visit.seen.answered:
        return
    visit.card = await cards.find(visit.client)
    if visit.card and visit.card.claims_payment and not visit.seen.asked_for_payment:
        visit.seen.asked_for_payment = await payment.is_asked_at_root(visit.client)


async def _credentials(visit: _Visit, url: httpx.URL, addresses: Addresses) -> Credentials | None:
    """The headers to send, or why none are sent; `None` if the caller asks for none."""
    if visit.credentials_for is None:
        return None
    try:
        found = await asyncio.to_thread(visit.credentials_for, visit.target)
    except RuntimeError:  # no thread is to be had
        return Credentials(withheld=Withheld.UNREADABLE)
    if found.headers and not may_travel(url, addresses):
        return Credentials(withheld=Withheld.PLAIN_HTTP)
    return found


def _url(target: str) -> httpx.URL | None:
    """`target` as a URL that may be probed, or `None`."""
    if len(target) > MAX_TARGET_CHARACTERS:
        return None
    try:
        url = httpx.URL(target)
    except (httpx.InvalidURL, ValueError):
        return None
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        return None
    return url if url.port is None or 1 <= url.port <= 65535 else None
