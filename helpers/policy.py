"""Is the evidence enough? From evidence and policy to one decision.

Rules, in the order in which they are applied:

1. No valid observation: refused, unless `on_unavailable` tolerates it. `allow_unreachable`
   tolerates only what the probed server cannot bring about: the service did not resolve,
   connect or complete TLS. `allow` tolerates every missing or broken answer.
2. No tolerance for an answer that anywhere claims what rules 3, 4 or 6 would refuse. Which
   check a broken answer means is not guessed: any failure counts as a required one.
3. The verdict `do_not_delegate` is refused, whatever the policy says.
4. A required check that failed is refused.
5. A required check that is unknown is refused, unless `tolerate_unknown_required`.
6. The verdict `delegate_with_caution` is refused, unless `on_caution` is `allow`.

Nothing here grants: an allowing decision only means that this gate does not refuse. The
module imports nothing of the framework.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .guild_preflight.contract import ContractViolation
from .guild_preflight.observation import Observation
from .guild_preflight.salvage import Claims, EvidenceUnavailable
from .guild_preflight.verdicts import Verdict
from .reasons import Reason, SubReason
from .requirements import OnCaution, OnUnavailable, Policy

UNREACHABLE: Final = frozenset({SubReason.RESOLVE, SubReason.CONNECT, SubReason.TLS})

Evidence = Observation | EvidenceUnavailable | ContractViolation


class Decision(NamedTuple):
    """What the policy makes of the evidence.

    Attributes:
        reason, sub_reason: why it refuses; both None when it does not.
        tolerated: what an allowing decision tolerated: the names of required checks that
            are unknown, a verdict, or the sub-reason of missing evidence. Never proof.
    """

    reason: Reason | None = None
    sub_reason: SubReason | None = None
    tolerated: tuple[str, ...] = ()


def decide(evidence: Evidence, policy: Policy) -> Decision:
    """Decide whether the evidence is enough.

    Args:
        evidence: a valid observation, or why there is none.
        policy: what the operator asks.

    Returns:
        The decision. It raises nothing.
    """
    if isinstance(evidence, Observation):
        return _decide_observation(evidence, policy)
    if _tolerates(evidence, policy) and not _refused_claims(evidence.claims, policy):
        assert evidence.sub_reason is not None
        return Decision(tolerated=(evidence.sub_reason.value,))
    return Decision(evidence.reason, evidence.sub_reason)


def _decide_observation(observation: Observation, policy: Policy) -> Decision:
    verdict, required = observation.verdict, policy.required_proven
    if verdict is Verdict.DO_NOT_DELEGATE:
        return Decision(Reason.DO_NOT_DELEGATE)
    if not observation.failed.isdisjoint(required):
        return Decision(Reason.REQUIRED_CHECK_FAILED)
    proven = observation.proven
    tolerated = [check.value for check in required if check not in proven]
    if tolerated and not policy.tolerate_unknown_required:
        return Decision(Reason.REQUIRED_CHECK_UNKNOWN)
    if verdict is Verdict.DELEGATE_WITH_CAUTION:
        if policy.on_caution is OnCaution.DENY:
            return Decision(Reason.CAUTION_NOT_PERMITTED)
        tolerated.append(verdict.value)
    return Decision(None, None, tuple(tolerated))


def _tolerates(evidence: EvidenceUnavailable | ContractViolation, policy: Policy) -> bool:
    if policy.on_unavailable is OnUnavailable.ALLOW_UNREACHABLE:
        return evidence.sub_reason in UNREACHABLE
    return policy.on_unavailable is OnUnavailable.ALLOW


def _refused_claims(claims: Claims, policy: Policy) -> bool:
    """Whether an answer claims anything that would refuse, had the answer been valid."""
    if claims.failed or Verdict.DO_NOT_DELEGATE in claims.verdicts:
        return True
    cautious = Verdict.DELEGATE_WITH_CAUTION in claims.verdicts
    return cautious and policy.on_caution is OnCaution.DENY
