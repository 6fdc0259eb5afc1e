"""Does a call satisfy the settings? From what protects it to what the policy makes of it.

The gate and the operator's commands both judge with this room and nothing beside it.

Rules of this module:

1. `claims_on` finds what protects a call. `clear` comes next and sends nothing: the screen,
   then the binding. Only a call that every demand has cleared is asked about, see `weigh`.
2. One call asks each service once, however many demands it must satisfy: within the shortest
   of their deadlines over all, for evidence that is fresh enough for each.
3. Each demand decides by its own policy. The first that refuses is the judgement.

The module imports nothing of the framework.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .binding import BindingRefused, View, require_approved
from .claims import EvidenceUnavailable
from .configuration import Approval, Configuration
from .contract import ContractViolation, Observation
from .demands import Demand, Source
from .endpoint import Endpoint, EndpointRefused, require_disclosable, screen
from .guild_preflight import PUBLIC_ORIGIN, observe, recall
from .judgement import Judgement
from .policy import Evidence, decide
from .problems import InvalidConfiguration


class Claim(NamedTuple):
    """A demand that protects a call.

    Attributes:
        source: whose demand it is.
        settings: the whole of it.
        approval: the approval by which it protects the call.
        view: what there is under the name that the call goes to.
    """

    source: Source
    settings: Configuration
    approval: Approval
    view: View

    @property
    def origin(self) -> str:
        """The service that is asked."""
        return self.settings.fixture_guild_origin or PUBLIC_ORIGIN


class Unusable(NamedTuple):
    """A demand whose settings are not valid, where that decides.

    Attributes:
        demand: the demand.
        approval: by which it protects the call; None while nobody can tell what it protects.
    """

    demand: Demand
    approval: Approval | None


Match = Callable[[Mapping[str, Approval]], tuple[Approval, View] | None]


def claims_on(demands: Sequence[Demand], match: Match) -> list[Claim] | Unusable:
    """Find the demands that protect a call.

    Args:
        demands: the settings in force.
        match: gives the approval that protects the call, out of those by normalised name, with
            what there is under its name; None where none does. Never asked about none.

    Returns:
        The claims, none where nothing protects the call; or the first demand that is not valid
        and protects it, one of which nobody can tell what it protects before all others.
    """
    for demand in demands:
        if demand.protected is None:
            return Unusable(demand, None)
    claims = []
    for demand in demands:
        protected = demand.protected
        matched = match(protected) if protected else None
        if matched is None:
            continue
        if isinstance(demand.settings, InvalidConfiguration):
            return Unusable(demand, matched[0])
        claims.append(Claim(demand.source, demand.settings, *matched))
    return claims


class Cleared(NamedTuple):
    """A claim that nothing speaks against before any evidence."""

    claim: Claim
    endpoint: Endpoint


def clear(claim: Claim) -> Cleared | Judgement:
    """Screen the approved URL and hold the binding against the approval; send nothing.

    Args:
        claim: the demand, and what it would let pass.

    Returns:
        The claim with its endpoint, or the refusing judgement.
    """
    settings, approval = claim.settings, claim.approval
    redacted = None
    try:
        endpoint = screen(approval.url, allow_private_hosts=settings.allow_private_hosts)
        require_disclosable(endpoint, service_is_local=settings.fixture_guild_origin is not None)
        redacted = endpoint.redacted
        require_approved(claim.view, approval)
    except (EndpointRefused, BindingRefused) as refusal:
        return Judgement(
            reason=refusal.reason,
            sub_reason=refusal.sub_reason,
            server=approval.name,
            endpoint=redacted,
            tool=claim.view.tool,
            source=claim.source,
        )
    return Cleared(claim, endpoint)


async def weigh(cleared: Sequence[Cleared]) -> tuple[Judgement, bool]:
    """Get the evidence for a call and decide by every demand.

    Args:
        cleared: the cleared demands of one call, at least one; all of one endpoint.

    Returns:
        The first refusing judgement, or the last allowing one with all that was tolerated; and
        whether it had to be waited for, so that anything else may have changed.

    Raises:
        RuntimeError: something unforeseen; says no more than that.
    """
    max_age_seconds = min([each.claim.settings.cache_ttl_seconds for each in cleared])
    deadline: float | None = None  # begins when the first service is asked
    found: dict[str, Evidence] = {}
    tolerated: list[str] = []
    for one in cleared:
        origin = one.claim.origin
        evidence = found.get(origin) or recall(one.endpoint, origin, max_age_seconds)
        if evidence is None:
            now = time.monotonic()
            if deadline is None:
                deadline = now + min([each.claim.settings.timeout_seconds for each in cleared])
            seconds = max(0.0, deadline - now)
            evidence = await _observe(one.endpoint, origin, seconds, max_age_seconds)
        found[origin] = evidence
        judgement = _judge(one, evidence, origin, max_age_seconds)
        if judgement.reason is not None:
            return judgement, deadline is not None
        tolerated += judgement.tolerated
    if len(tolerated) > len(judgement.tolerated):
        judgement = judgement._replace(tolerated=tuple(dict.fromkeys(tolerated)))
    return judgement, deadline is not None


def _judge(
    cleared: Cleared, evidence: Evidence, guild_origin: str, cache_ttl_seconds: float
) -> Judgement:
    claim = cleared.claim
    reason, sub_reason, tolerated = decide(evidence, claim.settings.policy)
    return Judgement(  # by position, in half the time
        reason,
        sub_reason,
        claim.approval.name,
        cleared.endpoint.redacted,
        claim.view.tool,
        evidence if isinstance(evidence, Observation) else None,
        None if isinstance(evidence, Observation) else evidence.sub_reason,
        tolerated,
        guild_origin,
        cache_ttl_seconds,
        claim.source,
    )


async def _observe(
    endpoint: Endpoint, origin: str, timeout_seconds: float, max_age_seconds: float
) -> Evidence:
    try:
        return await observe(
            endpoint,
            origin=origin,
            timeout_seconds=timeout_seconds,
            max_age_seconds=max_age_seconds,
        )
    except (EvidenceUnavailable, ContractViolation) as refusal:
        return refusal
