"""The preflight contract, stated once for everything in this folder.

Rules this module keeps:

1. An answer has the fourteen top-level keys of the contract, in its order, and six checks, in
   theirs.
2. `failed`, `unknowns` and `scored` are never given: they are read off the checks.
3. The verdict is never given either: `verdict` computes it.
4. Every sentence is fixed. The only text of a probed server in an answer is `declared_name`, cut to
   size.
5. Nothing of the plugin is imported: its tests compare two statements that were written
   independently.

A deliberately broken answer is made with the overrides of `answer_body`, or from the dictionary of `answer`.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

CHECKS = (
    "endpoint_reachable",
    "protocol_handshake",
    "agent_card_resolves",
    "agent_card_signed",
    "payment_claim_holds",
    "independent_evidence",
)
ESSENTIAL_CHECKS = CHECKS[:2]
STATUSES = ("proven", "failed", "unknown")

DECLARED_NAME_CHARACTERS = 120

METHOD = (
    "Probed by a service on this machine, for this request only; "
    "nothing is remembered from one request to the next."
)
LIMITS = (
    "This is what one visitor without credentials saw in one moment. A signature on a card is "
    "noticed, not verified. No tool was called, nothing was paid, and who runs the endpoint was "
    "not examined. Unknown checks do not count towards the verdict."
)

LIMITS_WITH_HEADERS = LIMITS.replace(
    "one visitor without credentials", "one visitor with the headers of the MCP settings"
)

_HEADLINES = {
    "do_not_delegate": "The endpoint did not show that it is there and speaks an agent protocol.",
    "delegate_with_caution": "The endpoint speaks an agent protocol, but something else about it did not hold.",
    "no_failed_checks": "What could be examined held. What is listed as unknown could not be examined.",
}
_PLAIN_DETAILS = {
    "proven": "Observed.",
    "failed": "Looked for and not found.",
    "unknown": "Not examined.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: a status of `STATUSES`, a sentence of ours, and perhaps the name that
    the probed server gives itself."""

    status: str
    detail: str
    declared_name: str | None = None


def verdict(statuses: Mapping[str, str]) -> str:
    """The verdict that these statuses, by check name, come to.

    Returns `do_not_delegate`, `delegate_with_caution` or `no_failed_checks`. Raises `KeyError` if
    an essential check is missing.
    """
    if any(statuses[name] == "failed" for name in ESSENTIAL_CHECKS):
        return "do_not_delegate"
    if "failed" in statuses.values():
        return "delegate_with_caution"
    return "no_failed_checks"


def answer(
    target: str,
    findings: Mapping[str, Finding],
    *,
    latency_ms: int = 0,
    limits: str = LIMITS,
) -> dict[str, Any]:
    """A complete answer about `target`, as the dictionary that becomes JSON.

    `findings` holds one finding for each of `CHECKS`; `latency_ms` is how long the probe took, in
    milliseconds, and `limits` says what it does not show. Raises `ValueError` if a check is missing
    or surplus, or a status is not one of `STATUSES`.
    """
    if set(findings) != set(CHECKS):
        raise ValueError("an answer needs exactly one finding for each check")
    statuses = {name: findings[name].status for name in CHECKS}
    if not set(statuses.values()) <= set(STATUSES):
        raise ValueError("a status is none of: " + ", ".join(STATUSES))
    conclusion = verdict(statuses)
    return {
        "target": target,
        "verdict": conclusion,
        "headline": _HEADLINES[conclusion],
        "checks": [_check(name, findings[name]) for name in CHECKS],
        "failed": [name for name in CHECKS if statuses[name] == "failed"],
        "unknowns": [name for name in CHECKS if statuses[name] == "unknown"],
        "scored": [name for name in CHECKS if statuses[name] != "unknown"],
        "method": METHOD,
        "limits": limits,
        "preflight_id": "pf_" + secrets.token_hex(10),
        "observed_at": datetime.now(UTC).isoformat(timespec="microseconds"),
        "probe_latency_ms": latency_ms,
        "freshness": {
            "kind": "live_probe",
            "note": "True of the moment in observed_at, and of no later one.",
        },
        "outcome_report": {
            "accepted": False,
            "note": "This service collects no reports of what was done with its answers.",
        },
    }


def answer_body(target: str, statuses: Mapping[str, str] | None = None, **overrides: Any) -> bytes:
    """A complete answer about `target` as the bytes of a response body, made from statuses alone.

    `statuses` maps check names to statuses; an endpoint that is reachable and shook hands, with all
    else unknown, is assumed for the names it leaves out. Each override replaces the top-level key
    of its name as it is, or adds it at the end: nothing else is adapted to it, so that an answer
    can be made to contradict itself. Raises `ValueError` for an unknown check or status, and what
    `encode` raises.
    """
    assumed = {name: "proven" if name in ESSENTIAL_CHECKS else "unknown" for name in CHECKS}
    chosen = assumed | dict(statuses or {})
    findings = {
        name: Finding(status, _PLAIN_DETAILS.get(status, "")) for name, status in chosen.items()
    }
    return encode(answer(target, findings) | overrides)


def encode(document: object) -> bytes:
    """`document` as the service writes JSON: UTF-8, no blanks, non-ASCII characters as they are.

    Raises `UnicodeEncodeError` (a `ValueError`) if a string holds a lone surrogate, and `TypeError`
    for what JSON cannot express.
    """
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _check(name: str, finding: Finding) -> dict[str, str]:
    """One entry of `checks`.

    A declared name is cut, and characters that UTF-8 cannot carry are replaced.
    """
    entry = {"check": name, "status": finding.status, "detail": finding.detail}
    if finding.declared_name is not None:
        cut = finding.declared_name[:DECLARED_NAME_CHARACTERS]
        entry["declared_name"] = cut.encode("utf-8", "replace").decode("utf-8")
    return entry
