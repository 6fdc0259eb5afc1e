"""What must hold of every schedule.

Rules of this module:

1. Bytes of a protected call reach only the approved server, and only after the service has said
   what the settings ask for by which the call was judged. A call is protected by the name of its
   server, or by its URL.
2. Each decision leaves exactly one record: a refusal one that says so, an allowed call one that
   says so, a call that is not protected none, a call that is cancelled before it is decided none.
3. Of a call that is refused, the model is not shown what the server has answered.
4. A call that no protected server has to do with is not refused.

It is a second statement: nothing of the plugin is imported, and nothing of the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .ledger import Delivery, Ledger, Read

PUBLIC_SERVICE: Final = "https://agent-guild-5d5r.onrender.com"
ASKED_FOR: Final = ("endpoint_reachable", "protocol_handshake")
ANSWER: Final = "answer of "  # so begins what every server answers
ESSENTIAL: Final = ASKED_FOR  # of these the services say "proven" unless they say otherwise


@dataclass(frozen=True)
class Ended:
    """How a dispatch ended.

    Attributes:
        how: "answered", "refused", "cancelled", or the class of any other exception.
        server: the name of the server that its tool belongs to; empty for a local tool.
        is_decided: it had left the hook.
        is_local: a tool of the host itself has run in its place.
        is_free: no protected server has to do with it, nor anything that goes on beside it.
    """

    how: str
    server: str
    is_decided: bool
    is_local: bool
    is_free: bool


def broken(ledger: Ledger, ended: Mapping[str, Ended]) -> Iterator[str]:
    """Return what does not hold, each in a line.

    Args:
        ledger: what happened.
        ended: how each dispatch ended, by name.
    """
    for delivery in ledger.deliveries:
        yield from _misdelivered(delivery, ledger)
    for call, end in ended.items():
        decisions = [record["decision"] for record in ledger.kept.get(call, {}).values()]
        if decisions not in _expected(end, _judged(call, ledger)):
            yield f"{call}: {end.how}, and its records say {decisions}"
        if end.how == "refused" and ANSWER in ledger.shown.get(call, ""):
            yield f"{call}: refused, and the model was shown the server's answer"
        if end.is_free and end.how == "refused":
            yield f"{call}: refused, and no protected server has to do with it"
        if end.how not in ("answered", "refused", "cancelled"):
            yield f"{call}: ended with {end.how}"


def _misdelivered(delivery: Delivery, ledger: Ledger) -> Iterator[str]:
    judged = _judged(delivery.call, ledger)
    if not judged:
        yield f"{delivery.call}: {delivery.url} got its bytes, and it was never judged"
    for read in judged:
        approved = _protected(read.raw)
        if approved is None:
            yield f"{delivery.call}: {delivery.url} got its bytes under unreadable settings"
        elif delivery.server not in approved and delivery.url not in approved.values():
            continue
        elif delivery.url != approved.get(delivery.server, delivery.url):
            yield f"{delivery.call}: {delivery.url} got its bytes, approved is another"
        elif not _is_proven(delivery, read, ledger):
            yield f"{delivery.call}: {delivery.url} got its bytes without the evidence asked for"


def _is_proven(delivery: Delivery, read: Read, ledger: Ledger) -> bool:
    """Whether a service had said what the settings ask for, before the bytes went."""
    asked_for = read.raw.get("policy", {}).get("required_proven", ASKED_FOR)
    first = read.answers if read.raw.get("cache_ttl_seconds") == 0 else 0
    for answer in ledger.answers[first : delivery.answers]:
        checks = {**dict.fromkeys(ESSENTIAL, "proven"), **answer.checks}
        if (
            answer.url == delivery.url
            and answer.origin in _services(delivery.call, ledger)
            and all(checks.get(name) == "proven" for name in asked_for)
            and "failed" not in checks.values()
        ):
            return True
    return False


def _services(call: str, ledger: Ledger) -> set[str]:
    """Return the services that may be asked; two where an edit came between the two reads."""
    raws = [read.raw for read in ledger.read[call].values()]
    named = {raw.get("fixture_guild_origin") for raw in raws if isinstance(raw, dict)}
    return {name or PUBLIC_SERVICE for name in named} | (
        {PUBLIC_SERVICE} if len(named) > 1 else set()
    )


def _judged(call: str, ledger: Ledger) -> list[Read]:
    """Return the settings by which a call was judged: those in force, and those of a floor."""
    read = ledger.read.get(call, {})
    found = [read["selected"]] if "selected" in read else []
    everywhere = read.get("everywhere")
    if everywhere and isinstance(everywhere.raw, dict) and everywhere.raw.get("floor") is True:
        found.append(everywhere)
    return found


def _protected(raw: Any) -> Mapping[str, str] | None:
    protected = raw.get("protected_servers") if isinstance(raw, dict) else None
    return protected if isinstance(protected, dict) else None


def _expected(end: Ended, judged: list[Read]) -> list[list[str]]:
    """Return what the records of a dispatch may say."""
    if end.how == "refused":
        return [["refused"]]
    if end.how == "cancelled" and not end.is_decided:
        return [[]]
    is_protected = any(end.server in (_protected(read.raw) or {}) for read in judged)
    # Where no server has the tool, one of the host's own takes its place, and no bytes go.
    may_be_none = not is_protected or end.is_local
    return [["allowed"]] * is_protected + [[]] * may_be_none
