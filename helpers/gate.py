"""The whole story of one call, from top to bottom.

Rules of this module:

1. Deny-only: a call goes on as it would without the gate, or it is refused.
2. A plain local tool costs two attribute reads. Without a protected server nothing is
   sent, logged or kept.
3. The first stage that refuses wins: configuration, dispatch, endpoint, binding,
   evidence, policy, re-check, execution.
4. For a protected call, and for an MCP call of which nobody can tell whether it is one,
   every unforeseen exception is the refusal `internal_error`.
5. Cancellation is no error: it passes through and leaves no record.
6. An allowed call is watched until its tool has answered: it is refused if the binding
   changed before it began, and its result is withheld if it changed while it ran.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import evidence, host
from .binding import Approval, Binding, BindingRefused, View, classify, compare
from .configuration import Configuration, InvalidConfiguration
from .contract import ContractViolation, Observation
from .denial import GuildPreflightError, line
from .endpoint import Endpoint, require_disclosable, screen
from .guild_preflight import PUBLIC_ORIGIN, EvidenceUnavailable, observe
from .host import Call
from .judgement import Judgement
from .policy import Evidence, decide
from .reasons import Reason, Refusal


async def guard(agent: Any, tool_name: object) -> None:
    """Refuse a protected call that has not earned to go on.

    Args:
        agent: the calling agent.
        tool_name: the name that the hook was told.

    Raises:
        GuildPreflightError: the call is refused; `str()` is the line for the model.
    """
    call = host.bound_call(agent, tool_name)
    if call is None:
        return
    judgement = await _judge_safely(call)
    if judgement is not None and judgement.reason is not None:
        raise GuildPreflightError(line(judgement))


@dataclass(slots=True)
class _Case:
    """What is known so far of a call.

    Attributes:
        is_protected: None while nobody can tell.
        server, tool, endpoint: what a refusal at this point can say.
    """

    call: Call
    record_id: str
    is_protected: bool | None = None
    server: str | None = None
    tool: str = ""
    endpoint: str | None = None

    def found(self, **more: Any) -> Judgement:
        """Give a judgement with what is known so far."""
        return Judgement(server=self.server, tool=self.tool, endpoint=self.endpoint, **more)


async def _judge_safely(call: Call) -> Judgement | None:
    """Judge a call; give None when it is not protected."""
    case = _Case(call, evidence.new_id())
    try:
        return await _judge(case)
    except Exception as error:
        # Its text may hold anything and ends here; the name of its class is the library's.
        unforeseen = type(error).__name__
    if case.is_protected is False:
        return None
    judgement = case.found(reason=Reason.INTERNAL_ERROR, unforeseen=unforeseen)
    with contextlib.suppress(Exception):  # the refusal stands, with or without its record
        _keep(case, judgement)
    return judgement


async def _judge(case: _Case) -> Judgement | None:
    try:
        settings = host.read_configuration(case.call.agent)
    except InvalidConfiguration as error:
        invalid = error
    else:
        approved = _approval(case, settings.protected_servers)
        if approved is None:
            return None
        judgement = await _judge_protected(case, settings, *approved)
        _keep(case, judgement)
        return judgement
    return _judge_unconfigured(case, invalid)


def _judge_unconfigured(case: _Case, invalid: InvalidConfiguration) -> Judgement | None:
    """Refuse what may be protected, while the settings do not say what is."""
    call = case.call
    if invalid.protected is not None and _approval(case, invalid.protected) is None:
        return None
    case.is_protected = True
    evidence.write_configuration_log(call.agent, invalid.problems, invalid.protected is None)
    return case.found(reason=Reason.INVALID_CONFIGURATION)


def _approval(case: _Case, protected: Mapping[str, str]) -> tuple[Approval, View] | None:
    """Give the approval that protects a call, and what there is under its name."""
    if not protected:
        case.is_protected = False
        return None
    servers = host.servers_for(case.call.agent)
    for name in case.call.names:
        view = host.look(servers, name)
        approval = classify(view, protected)
        if approval is not None:
            case.is_protected, case.server, case.tool = True, approval.name, view.tool
            return approval, view
        server = host.aliased_server(name, protected)
        if server is not None:
            case.is_protected, case.server, case.tool = True, server, view.tool
            return Approval(server, protected[server]), view
    case.is_protected = False
    return None


async def _judge_protected(
    case: _Case, settings: Configuration, approval: Approval, view: View
) -> Judgement:
    """Take a protected call through the stages."""
    try:
        if case.call.announced != case.call.bound or not host.claim(case.call.tool):
            raise Refusal(Reason.DISPATCH_MISMATCH)
        local = settings.fixture_guild_origin
        endpoint = screen(approval.url, allow_private_hosts=settings.allow_private_hosts)
        require_disclosable(endpoint, service_is_local=local is not None)
        case.endpoint = endpoint.redacted
        binding = compare(view, approval)
        if not case.call.is_mcp:  # a local tool, or none, where the server has one
            raise Refusal(Reason.DISPATCH_MISMATCH)
    except Refusal as refusal:
        return case.found(reason=refusal.reason, sub_reason=refusal.sub_reason)
    origin = local or PUBLIC_ORIGIN
    found = await _observe(endpoint, origin, settings)
    decision = decide(found, settings.policy)
    judgement = case.found(
        reason=decision.reason,
        sub_reason=decision.sub_reason,
        tolerated=decision.tolerated,
        observation=found if isinstance(found, Observation) else None,
        error=None if isinstance(found, Observation) else found.sub_reason,
        guild_origin=origin,
        cache_ttl_seconds=settings.cache_ttl_seconds,
    )
    if decision.reason is not None:
        return judgement
    watch = _Watch(case, approval, binding, judgement)
    # Evidence that was kept was had without waiting: nobody could change anything.
    if not (judgement.observation and judgement.observation.cached) and not watch.holds():
        return judgement._replace(reason=Reason.BINDING_CHANGED, tolerated=())
    host.around_execution(case.call.tool, watch.before, watch.after)
    return judgement


async def _observe(endpoint: Endpoint, origin: str, settings: Configuration) -> Evidence:
    try:
        return await observe(
            endpoint,
            origin=origin,
            timeout_seconds=settings.timeout_seconds,
            max_age_seconds=settings.cache_ttl_seconds,
        )
    except (EvidenceUnavailable, ContractViolation) as refusal:
        return refusal


class _Watch:
    """Watches the binding of an allowed call until its tool has answered."""

    def __init__(
        self, case: _Case, approval: Approval, binding: Binding, allowed: Judgement
    ) -> None:
        self._case = case
        self._approval = approval
        self._binding = binding
        self._allowed = allowed
        self._servers: Any = None

    def holds(self) -> bool:
        """Look the servers up anew and compare."""
        self._servers = host.servers_for(self._case.call.agent)
        return self._compare()

    def before(self) -> None:
        """Refuse a call whose binding changed after it was allowed."""
        self._require(self.holds, Reason.BINDING_CHANGED)

    def after(self) -> None:
        """Withhold the result of a call whose binding changed while it ran.

        Compares what the framework looked up when the call began: a second look-up would
        say where the next call goes.
        """
        self._require(self._compare, Reason.BINDING_CHANGED_DURING_CALL)

    def _compare(self) -> bool:
        call = self._case.call
        try:
            view = host.look(self._servers, str(call.tool.name))
            return compare(view, self._approval) == self._binding
        except BindingRefused:
            return False

    def _require(self, holds: Callable[[], bool], reason: Reason) -> None:
        refused = self._allowed._replace(reason=reason, tolerated=())
        try:
            if holds():
                return
        except Exception as error:
            refused = refused._replace(
                reason=Reason.INTERNAL_ERROR, unforeseen=type(error).__name__
            )
        with contextlib.suppress(Exception):
            _keep(self._case, refused)
        raise GuildPreflightError(line(refused))


def _keep(case: _Case, judgement: Judgement) -> None:
    for agent in host.concerned_agents(case.call.agent):
        evidence.keep(agent, judgement, case.record_id)
        evidence.write_log(agent, judgement)
