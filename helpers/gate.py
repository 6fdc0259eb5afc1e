"""The whole story of one call, from top to bottom.

Rules of this module:

1. Deny-only: a call goes on as it would without the gate, or it is refused.
2. A plain local tool costs two attribute reads. Without a protected server nothing is
   sent, logged or kept.
3. The first stage that refuses wins: configuration, dispatch, endpoint, binding,
   evidence, policy, re-check, execution. Where a call must satisfy two files, it is
   cleared by both before anything is sent.
4. For a protected call, and for an MCP call of which nobody can tell whether it is one,
   every unforeseen exception is the refusal `internal_error`.
5. Cancellation is no error: it passes through and leaves no record.
6. An allowed call is watched until its tool has answered: it is refused if the binding
   changed before it began, and its result is withheld if it changed while it ran.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import evidence, host
from .binding import BindingRefused, View, classify, require_approved
from .configuration import Approval
from .demands import Demand
from .denial import GuildPreflightError
from .evaluation import Claim, Cleared, Unusable, claims_on, clear, weigh
from .host import Call
from .judgement import Judgement
from .problems import InvalidConfiguration
from .reasons import Reason
from .wording import line


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
    case = _Case(call, evidence.new_id())
    unforeseen = None
    try:
        # Nothing is left that could fail once a call is known not to be protected.
        judgement = await _judge(case)
    except Exception as error:
        # Its text may hold anything and ends here; the name of its class is the library's.
        unforeseen = type(error).__name__
    if unforeseen is not None:
        judgement = _refuse_unforeseen(case, unforeseen)
    if judgement is not None and judgement.reason is not None:
        raise GuildPreflightError(line(judgement))


@dataclass(slots=True)
class _Case:
    """What is known so far of a call.

    Attributes:
        is_kept: it may have a record already, which a later one replaces.
        server, tool, endpoint: what a refusal at this point can say.
    """

    call: Call
    record_id: str
    is_kept: bool = False
    server: str | None = None
    tool: str = ""
    endpoint: str | None = None

    def refused(self, reason: Reason, **more: Any) -> Judgement:
        """Refuse with what is known so far."""
        return Judgement(reason, None, self.server, self.endpoint, self.tool, **more)


def _refuse_unforeseen(case: _Case, unforeseen: str) -> Judgement:
    """Refuse a call on which the gate has failed."""
    judgement = case.refused(Reason.INTERNAL_ERROR, unforeseen=unforeseen)
    with contextlib.suppress(Exception):  # the refusal stands, with or without its record
        _keep(case, judgement)
    return judgement


async def _judge(case: _Case) -> Judgement | None:
    """Judge a call; give None when it is not protected."""
    demands = host.demands_for(case.call.agent)
    claims = claims_on(demands, _Sight(case.call).match)
    if isinstance(claims, Unusable):
        case.server = claims.approval.name if claims.approval else None
        return _refuse_unconfigured(case, demands)
    if not claims:
        return None
    case.server, case.tool = claims[0].approval.name, claims[0].view.tool
    judgement = await _judge_protected(case, claims)
    _keep(case, judgement)
    return judgement


class _Sight:
    """What there is under the names that a call may go by, looked up when it is first needed."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._servers: Any = None
        self._seen: list[tuple[str, View]] = []

    def match(self, protected: Mapping[str, Approval]) -> tuple[Approval, View] | None:
        """Give the approval that protects the call, and what is under its name."""
        if not self._seen:
            self._servers = host.servers_for(self._call.agent)
            self._seen = [(name, host.look(self._servers, name)) for name in self._call.names]
        for name, view in self._seen:
            approval = classify(view, protected) or host.aliased_approval(name, protected)
            if approval is not None:
                is_pinned = approval.pins is not None
                return approval, host.look(self._servers, name, pinned=True) if is_pinned else view
        return None


def _refuse_unconfigured(case: _Case, demands: Sequence[Demand]) -> Judgement:
    """Refuse what is protected, or may be, while the settings do not say how."""
    for agent in host.concerned_agents(case.call.agent):
        for demand in demands:
            if isinstance(demand.settings, InvalidConfiguration):
                evidence.write_configuration_log(agent, demand.settings, demand.source)
    return case.refused(Reason.INVALID_CONFIGURATION)


async def _judge_protected(case: _Case, claims: Sequence[Claim]) -> Judgement:
    """Take a protected call through the stages."""
    call = case.call
    if call.announced != call.bound or not host.claim(call.tool):
        return case.refused(Reason.DISPATCH_MISMATCH)
    cleared: list[Cleared] = []
    for claim in claims:
        found = clear(claim)
        if isinstance(found, Judgement):
            return found
        cleared.append(found)
        case.endpoint = found.endpoint.redacted
    if not call.is_mcp:  # a local tool, or none, where the server has one
        return case.refused(Reason.DISPATCH_MISMATCH)
    judgement, waited = await weigh(cleared)
    if judgement.reason is not None:
        return judgement
    watch = _Watch(case, cleared, judgement)
    # Where nothing was awaited, nobody could change anything.
    if waited and not watch.holds():
        return judgement._replace(reason=Reason.BINDING_CHANGED, tolerated=(), source=None)
    host.around_execution(call.tool, watch.before, watch.after)
    return judgement


class _Watch:
    """Watches the binding of an allowed call until its tool has answered."""

    def __init__(self, case: _Case, cleared: Sequence[Cleared], allowed: Judgement) -> None:
        self._case = case
        self._cleared = cleared
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
        name = str(self._case.call.tool.name)
        try:
            for claim, _ in self._cleared:
                view = host.look(self._servers, name, pinned=claim.approval.pins is not None)
                require_approved(view, claim.approval)
                if view != claim.view:
                    return False
        except BindingRefused:
            return False
        return True

    def _require(self, holds: Callable[[], bool], reason: Reason) -> None:
        refused = self._allowed._replace(reason=reason, tolerated=(), source=None)
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
    again, case.is_kept = case.is_kept, True
    for agent in host.concerned_agents(case.call.agent):
        evidence.keep(agent, judgement, case.record_id, replace=again)
        evidence.write_log(agent, judgement)
