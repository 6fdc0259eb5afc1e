"""The policy, exhaustively, against the rules as the documentation tells them to an operator."""

from itertools import chain, combinations, product

import pytest
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.contract import ContractViolation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.salvage import (
    NO_CLAIMS,
    Claims,
    EvidenceUnavailable,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import (
    Check,
    Status,
    Verdict,
)
from usr.plugins.agent_guild_preflight.helpers.policy import Decision, decide
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason
from usr.plugins.agent_guild_preflight.helpers.requirements import (
    OnCaution,
    OnUnavailable,
    Policy,
)

UNREACHABLE = {"resolve", "connect", "tls"}

# Two decisive checks, and two that are not: enough for every case of the rules.
VARIED = (
    Check.ENDPOINT_REACHABLE,
    Check.PROTOCOL_HANDSHAKE,
    Check.AGENT_CARD_SIGNED,
    Check.PAYMENT_CLAIM_HOLDS,
)
REQUIRED = list(chain.from_iterable(combinations(VARIED, size) for size in range(len(VARIED) + 1)))
CLAIMS = [
    Claims(frozenset(verdicts), failed)
    for verdicts in [(), *((verdict,) for verdict in Verdict), tuple(Verdict)]
    for failed in (False, True)
]


def observation(statuses: dict[Check, Status], other_failed: int = 0) -> Observation:
    """Return a valid observation; its verdict is the contract's, stated once more."""
    failed = {check.value for check, status in statuses.items() if status is Status.FAILED}
    if failed & {"endpoint_reachable", "protocol_handshake"}:
        verdict = Verdict.DO_NOT_DELEGATE
    elif failed or other_failed:
        verdict = Verdict.DELEGATE_WITH_CAUTION
    else:
        verdict = Verdict.NO_FAILED_CHECKS
    return Observation(
        verdict=verdict,
        statuses=statuses,
        details=dict.fromkeys(Check, ""),
        other_checks=other_failed,
        other_failed=other_failed,
        method="",
        limits="",
    )


def permitted(seen: Observation, policy: Policy) -> str:
    """Say in other words what the policy makes of an observation: a reason, or nothing."""
    required = [seen.statuses[check] for check in policy.required_proven]
    if seen.verdict == "do_not_delegate":
        return "do_not_delegate"
    if "failed" in required:
        return "required_check_failed"
    if "unknown" in required and policy.tolerate_unknown_required is False:
        return "required_check_unknown"
    if seen.verdict == "delegate_with_caution" and policy.on_caution == "deny":
        return "caution_not_permitted"
    return ""


def test_every_observation_under_every_policy() -> None:
    policies = [
        Policy(required, unknown, caution, unavailable)
        for required in REQUIRED
        for unknown, caution, unavailable in product((False, True), OnCaution, OnUnavailable)
    ]
    reasons = set()
    for found in product(Status, repeat=len(VARIED)):
        statuses = dict.fromkeys(Check, Status.UNKNOWN) | dict(zip(VARIED, found, strict=True))
        seen = observation(statuses)
        for policy in policies:
            expected = permitted(seen, policy)
            decision = decide(seen, policy)
            assert (decision.reason or "") == expected, (found, policy)
            assert decision.sub_reason is None
            assert not (expected and decision.tolerated)
            reasons.add(expected)

    assert len(reasons) == 5


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("on_caution", OnCaution)
def test_failed_check_of_no_list_asks_for_caution(unknown: bool, on_caution: OnCaution) -> None:
    seen = observation(dict.fromkeys(Check, Status.PROVEN), other_failed=1)
    refused = Reason.CAUTION_NOT_PERMITTED if on_caution is OnCaution.DENY else None

    policy = Policy(tolerate_unknown_required=unknown, on_caution=on_caution)

    assert decide(seen, policy).reason is refused


def test_a_required_check_without_a_status_is_unknown() -> None:
    """The contract lets no such observation pass; the policy does not rest on it."""
    seen = observation({Check.ENDPOINT_REACHABLE: Status.PROVEN})

    assert decide(seen, Policy()).reason is Reason.REQUIRED_CHECK_UNKNOWN


def test_what_is_tolerated_is_named() -> None:
    statuses = dict.fromkeys(Check, Status.PROVEN)
    statuses[Check.PROTOCOL_HANDSHAKE] = Status.UNKNOWN
    statuses[Check.AGENT_CARD_SIGNED] = Status.UNKNOWN  # not required, so nothing to tolerate
    lenient = Policy(tolerate_unknown_required=True, on_caution=OnCaution.ALLOW)

    assert decide(observation(dict.fromkeys(Check, Status.PROVEN)), lenient).tolerated == ()
    assert decide(observation(statuses), lenient).tolerated == ("protocol_handshake",)
    statuses[Check.PAYMENT_CLAIM_HOLDS] = Status.FAILED
    assert decide(observation(statuses), lenient).tolerated == (
        "protocol_handshake",
        "delegate_with_caution",
    )


def warns(claims: Claims, policy: Policy) -> bool:
    """Say in other words whether an answer claims what must never be tolerated."""
    verdicts = {verdict.value for verdict in claims.verdicts}
    if "do_not_delegate" in verdicts or claims.failed:
        return True
    return "delegate_with_caution" in verdicts and policy.on_caution != "allow"


def missing_evidence() -> list[tuple[type, SubReason]]:
    kinds = {
        Reason.EVIDENCE_UNAVAILABLE: EvidenceUnavailable,
        Reason.EVIDENCE_INCONSISTENT: ContractViolation,
    }
    return [(kinds[sub.reason], sub) for sub in SubReason if sub.reason in kinds]


@pytest.mark.parametrize(("kind", "sub_reason"), missing_evidence())
def test_every_lack_of_evidence_under_every_policy(kind: type, sub_reason: SubReason) -> None:
    tolerates = {
        "deny": False,
        "allow_unreachable": sub_reason.value in UNREACHABLE,
        "allow": True,
    }
    for required, on_caution, on_unavailable, claims in product(
        [(), (Check.ENDPOINT_REACHABLE,), (Check.PAYMENT_CLAIM_HOLDS,)],
        OnCaution,
        OnUnavailable,
        CLAIMS,
    ):
        policy = Policy(required, False, on_caution, on_unavailable)
        allowed = tolerates[on_unavailable.value] and not warns(claims, policy)

        assert decide(kind(sub_reason, claims), policy) == (
            Decision(tolerated=(sub_reason.value,))
            if allowed
            else Decision(sub_reason.reason, sub_reason)
        )


def test_the_shipped_policy_tolerates_nothing() -> None:
    for kind, sub_reason in missing_evidence():
        assert decide(kind(sub_reason, NO_CLAIMS), Policy()).reason is sub_reason.reason
    for check in (Check.ENDPOINT_REACHABLE, Check.PROTOCOL_HANDSHAKE):
        statuses = dict.fromkeys(Check, Status.PROVEN) | {check: Status.UNKNOWN}
        assert decide(observation(statuses), Policy()).reason is Reason.REQUIRED_CHECK_UNKNOWN
