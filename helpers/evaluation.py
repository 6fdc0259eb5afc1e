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

from .binding import Binding, BindingRefused, View, compare
from .claims import EvidenceUnavailable
from .configuration import Approval, Configuration
from .contract import ContractViolation, Observation
from .demands import Demand, Source
from .endpoint import Endpoint, EndpointRefused, require_disclosable, screen
from .guild_preflight import PUBLIC_ORIGIN, observe
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
        matched = match(demand.protected) if demand.protected else None
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
    binding: Binding


def clear(claim: Claim) -> Cleared | Judgement:
    """Screen the approved URL and hold the binding against the approval; send nothing.

    Args:
        claim: the demand, and what it would let pass.

    Returns:
        The claim with endpoint and binding, or the refusing judgement.
    """
    settings, approval = claim.settings, claim.approval
    redacted = None
    try:
        endpoint = screen(approval.url, allow_private_hosts=settings.allow_private_hosts)
        require_disclosable(endpoint, service_is_local=settings.fixture_guild_origin is not None)
        redacted = endpoint.redacted
        return Cleared(claim, endpoint, compare(claim.view, approval))
    except (EndpointRefused, BindingRefused) as refusal:
        return Judgement(
            reason=refusal.reason,
            sub_reason=refusal.sub_reason,
            server=approval.name,
            endpoint=redacted,
            tool=claim.view.tool,
            source=claim.source,
        )


class Weighed(NamedTuple):
    """What the evidence comes to.

    Attributes:
        judgement: the first refusing one, or the last allowing one, with all that was tolerated.
        waited: something was awaited on the way, so that anything else may have changed.
    """

    judgement: Judgement
    waited: bool


async def weigh(cleared: Sequence[Cleared]) -> Weighed:
    """Get the evidence for a call and decide by every demand.

    Args:
        cleared: the cleared demands of one call, at least one; all of one endpoint.

    Returns:
        The judgement, and whether it had to be waited for.

    Raises:
        RuntimeError: something unforeseen; says no more than that.
    """
    max_age_seconds = min([one.claim.settings.cache_ttl_seconds for one in cleared])
    deadline = time.monotonic() + min([one.claim.settings.timeout_seconds for one in cleared])
    found: dict[str, Evidence] = {}
    tolerated: tuple[str, ...] = ()
    waited = False
    for one in cleared:
        origin = one.claim.origin
        if origin not in found:
            seconds = max(0.0, deadline - time.monotonic())
            found[origin] = await _observe(one.endpoint, origin, seconds, max_age_seconds)
        judgement = _judge(one, found[origin], max_age_seconds)
        waited = waited or judgement.observation is None or not judgement.observation.cached
        if judgement.reason is not None:
            return Weighed(judgement, waited)
        tolerated = tuple(dict.fromkeys((*tolerated, *judgement.tolerated)))
    if tolerated != judgement.tolerated:
        judgement = judgement._replace(tolerated=tolerated)
    return Weighed(judgement, waited)


def _judge(cleared: Cleared, evidence: Evidence, cache_ttl_seconds: float) -> Judgement:
    claim, decision = cleared.claim, decide(evidence, cleared.claim.settings.policy)
    observation = evidence if isinstance(evidence, Observation) else None
    return Judgement(
        reason=decision.reason,
        sub_reason=decision.sub_reason,
        server=claim.approval.name,
        endpoint=cleared.endpoint.redacted,
        tool=claim.view.tool,
        observation=observation,
        error=None if isinstance(evidence, Observation) else evidence.sub_reason,
        tolerated=decision.tolerated,
        guild_origin=claim.origin,
        cache_ttl_seconds=cache_ttl_seconds,
        source=claim.source,
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
