"""The words of the service's contract, and the one rule that joins them.

Rules of this module:

1. Six checks are known, in this order. A policy may require any of them.
2. A verdict follows from the checks and from nothing else (`compute_verdict`).

Source of the rule: the behaviour of the public preflight service. The module imports
nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Check(StrEnum):
    """A check that the contract knows."""

    ENDPOINT_REACHABLE = "endpoint_reachable"
    PROTOCOL_HANDSHAKE = "protocol_handshake"
    AGENT_CARD_RESOLVES = "agent_card_resolves"
    AGENT_CARD_SIGNED = "agent_card_signed"
    PAYMENT_CLAIM_HOLDS = "payment_claim_holds"
    INDEPENDENT_EVIDENCE = "independent_evidence"


class Status(StrEnum):
    """What was found for one check."""

    PROVEN = "proven"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What the service concludes from the checks."""

    NO_FAILED_CHECKS = "no_failed_checks"
    DELEGATE_WITH_CAUTION = "delegate_with_caution"
    DO_NOT_DELEGATE = "do_not_delegate"


KNOWN_CHECKS: Final = tuple(Check)
DECISIVE_CHECKS: Final = frozenset({Check.ENDPOINT_REACHABLE, Check.PROTOCOL_HANDSHAKE})


def compute_verdict(statuses: Mapping[str, Status]) -> Verdict:
    """Return the verdict that the checks compute.

    Args:
        statuses: the status of each check by name; unknown ones never count.

    Returns:
        `do_not_delegate` when a decisive check has failed, else `delegate_with_caution`
        when any check has failed, else `no_failed_checks`.
    """
    failed = {name for name, status in statuses.items() if status is Status.FAILED}
    if failed & DECISIVE_CHECKS:
        return Verdict.DO_NOT_DELEGATE
    return Verdict.DELEGATE_WITH_CAUTION if failed else Verdict.NO_FAILED_CHECKS
