"""Does a call satisfy the settings? From what protects it to what the policy makes of it.

The gate and the operator's commands both judge with this room and nothing beside it.

Rules of this module:

1. `protections_of` finds what protects a call. `precheck` comes next and sends nothing: the
   screen, then the binding. A service is asked only about a call that every layer lets pass so
   far, see `evaluate`.
2. Each layer decides as if it were alone: by the requirements of the entry that protects the
   call. Its evidence is what is kept and fresh enough for it, and else what the service says by
   its own deadline. To a layer whose deadline passes, the evidence is a timeout, with what the
   answer has claimed by then.
3. One request serves every layer that needs one. It lasts until the longest of their deadlines,
   and joins no other where one of them keeps nothing. There is none while a layer refuses on
   kept evidence.
4. A call is allowed when every layer allows it. The first refusal is the judgement.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .binding.approval import Approval
from .binding.comparison import BindingRefused, require_approved
from .binding.view import View
from .guild_preflight.contract import ContractViolation
from .guild_preflight.endpoint import Endpoint, EndpointRefused, require_disclosable, screen
from .guild_preflight.observation import Observation
from .guild_preflight.observe import PUBLIC_ORIGIN, Inquiry, ask, recall
from .guild_preflight.salvage import EvidenceUnavailable
from .judgement import Judgement
from .policy import Evidence, decide
from .requirements import Requirements
from .settings.configuration import Configuration
from .settings.in_force import Layer, Source
from .settings.problems import InvalidConfiguration


class Protection(NamedTuple):
    """A layer that protects a call.

    Attributes:
        source: which layer.
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

    @property
    def requirements(self) -> Requirements:
        """What is asked of the evidence: the entry's own, or else the file's."""
        return self.approval.requirements or self.settings.requirements


class Unusable(NamedTuple):
    """A layer whose settings are not valid, where that decides.

    Attributes:
        layer: the layer.
        approval: by which it protects the call; None while nobody can tell what it protects.
    """

    layer: Layer
    approval: Approval | None


# Returns the matching approval and the view, or None. Only called with a non-empty mapping.
Match = Callable[[Mapping[str, Approval]], tuple[Approval, View] | None]


def protections_of(layers: Sequence[Layer], match: Match) -> list[Protection] | Unusable:
    """Return the layers that protect a call.

    Args:
        layers: the settings in force.
        match: finds the approval that protects the call among those by normalised name.

    Returns:
        The protections, none where nothing protects the call; or the first layer that applies
        and is not valid. A layer whose protected servers cannot be determined takes precedence.
    """
    for layer in layers:
        if layer.protected is None:
            return Unusable(layer, None)
    protections = []
    for layer in layers:
        matched = match(layer.protected) if layer.protected else None
        if matched is None:
            continue
        if isinstance(layer.settings, InvalidConfiguration):
            return Unusable(layer, matched[0])
        protections.append(Protection(layer.source, layer.settings, *matched))
    return protections


class Prechecked(NamedTuple):
    """A protection that nothing speaks against before any evidence."""

    protection: Protection
    endpoint: Endpoint


def precheck_all(protections: Sequence[Protection]) -> list[Prechecked] | Judgement:
    """Return every protection with its endpoint, or the first refusing judgement; send nothing.

    Args:
        protections: those of one call.
    """
    prechecked = []
    for protection in protections:
        found = precheck(protection)
        if isinstance(found, Judgement):
            return found
        prechecked.append(found)
    return prechecked


def precheck(protection: Protection) -> Prechecked | Judgement:
    """Screen the approved URL and compare the binding with the approval; send nothing.

    Args:
        protection: the layer, and what it would let pass.

    Returns:
        The protection with its endpoint, or the refusing judgement.
    """
    settings, approval = protection.settings, protection.approval
    redacted = None
    try:
        endpoint = screen(approval.url, allow_private_hosts=settings.allow_private_hosts)
        require_disclosable(endpoint, service_is_local=settings.fixture_guild_origin is not None)
        redacted = endpoint.redacted
        require_approved(protection.view, approval)
    except (EndpointRefused, BindingRefused) as refusal:
        return Judgement(
            reason=refusal.reason,
            sub_reason=refusal.sub_reason,
            server=approval.name,
            endpoint=redacted,
            tool=protection.view.tool,
            source=protection.source,
        )
    return Prechecked(protection, endpoint)


async def evaluate(prechecked: Sequence[Prechecked]) -> tuple[Judgement, bool]:
    """Get the evidence for a call and decide by every layer.

    Args:
        prechecked: the protections of one call, at least one; all of one endpoint, and all with
            the service that the global file names.

    Returns:
        The first refusing judgement, or the last allowing one with all that was tolerated; and
        whether it had to be waited for, so that anything else may have changed.

    Raises:
        UnforeseenError: something that nobody foresaw, with where it was raised.
    """
    judgements: dict[Source, Judgement] = {}
    without: list[Prechecked] = []
    for one in prechecked:
        lifetime = one.protection.requirements.cache_ttl_seconds
        kept = recall(one.endpoint, one.protection.origin, lifetime)
        if kept is None:
            without.append(one)
            continue
        judgements[one.protection.source] = judgement = _judge(one, kept)
        if judgement.reason is not None:
            return judgement, False
    if without:
        refusal = await _ask(without, judgements)
        if refusal is not None:
            return refusal, True
    return _allowed([judgements[one.protection.source] for one in prechecked]), bool(without)


async def _ask(
    prechecked: Sequence[Prechecked], judgements: dict[Source, Judgement]
) -> Judgement | None:
    """Judge with one request, each layer at its own deadline; return the first refusal.

    Args:
        prechecked: the protections without evidence.
        judgements: gets theirs.
    """
    in_time = sorted(prechecked, key=lambda one: one.protection.requirements.timeout_seconds)
    requirements = [one.protection.requirements for one in in_time]
    ages = [each.cache_ttl_seconds for each in requirements]
    with ask(
        in_time[0].endpoint,
        origin=in_time[0].protection.origin,
        timeout_seconds=requirements[-1].timeout_seconds,
        max_age_seconds=min(ages),
        is_kept=max(ages) > 0,
    ) as inquiry:
        for one, required in zip(in_time, requirements, strict=True):
            evidence = await _answer(inquiry, required.timeout_seconds)
            judgement = _judge(one, evidence)
            if judgement.reason is not None:
                return judgement
            judgements[one.protection.source] = judgement
    return None


async def _answer(inquiry: Inquiry, timeout_seconds: float) -> Evidence:
    try:
        return await inquiry.observation(timeout_seconds)
    except (EvidenceUnavailable, ContractViolation) as refusal:
        return refusal


def _allowed(judgements: Sequence[Judgement]) -> Judgement:
    """Return the last of allowing judgements, with all that any of them tolerated."""
    tolerated = [word for judgement in judgements for word in judgement.tolerated]
    if len(tolerated) == len(judgements[-1].tolerated):
        return judgements[-1]
    return judgements[-1]._replace(tolerated=tuple(dict.fromkeys(tolerated)))


def _judge(prechecked: Prechecked, evidence: Evidence) -> Judgement:
    protection, endpoint = prechecked
    requirements = protection.requirements
    reason, sub_reason, tolerated = decide(evidence, requirements.policy)
    observation = evidence if isinstance(evidence, Observation) else None
    return Judgement(
        reason=reason,
        sub_reason=sub_reason,
        server=protection.approval.name,
        endpoint=endpoint.redacted,
        tool=protection.view.tool,
        observation=observation,
        error=None if isinstance(evidence, Observation) else evidence.sub_reason,
        tolerated=tolerated,
        guild_origin=protection.origin,
        cache_ttl_seconds=requirements.cache_ttl_seconds,
        source=protection.source,
    )
