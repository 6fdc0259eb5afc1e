"""The whole story of one call, from top to bottom.

Rules of this module:

1. Deny-only: a call goes on as it would without the gate, or it is refused.
2. Without a protected server nothing is sent, logged or kept. A plain local tool costs a few
   attribute reads and three matches of one pattern.
3. The first stage that refuses wins: configuration, dispatch, endpoint, binding, evidence,
   policy, re-check, execution. One question of dispatch comes after the binding, so that a missing
   server or tool is named first: is the bound tool one of MCP at all? Where a call must satisfy two
   layers of settings, both precheck it, one after the other, before anything is sent.
4. For a protected call, and for an MCP call of which nobody can tell whether it is one,
   every unforeseen exception is the refusal `internal_error`.
5. Cancellation is no error: it passes through and leaves no record.
6. An allowed call is watched until its tool has answered. It is refused if the binding
   changed before it began. Then it goes to the very servers that were compared last, whatever
   is edited meanwhile, see `look_up`. Its result is withheld if these changed while it ran, or
   if nobody can tell that it went to them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from . import execution, host, look_up, records
from .binding.alias import is_alias, may_be_of
from .binding.approval import Approval
from .binding.comparison import BindingRefused, classify, require_approved
from .binding.view import View
from .denial import GuildPreflightError
from .evaluation import (
    Prechecked,
    Protection,
    Unusable,
    evaluate,
    precheck_all,
    protections_of,
)
from .exceptions import Unforeseen, unforeseen
from .host import Call
from .judgement import Judgement
from .look_up import Hold
from .message import line
from .reasons import Reason
from .settings.in_force import Layer
from .settings.problems import InvalidConfiguration

Found = TypeVar("Found")


async def guard(agent: Any, tool_name: object) -> None:
    """Refuse a protected call that does not satisfy the settings.

    Args:
        agent: the calling agent.
        tool_name: the name that the hook was told.

    Raises:
        GuildPreflightError: the call is refused; `str()` is the line for the model.
    """
    call = host.bound_call(agent, tool_name)
    if call is None:
        return
    execution.forget()
    case = _Case(call, records.new_id())
    origin = None
    try:
        # Nothing is left that could fail once a call is known not to be protected.
        judgement = await _judge(case)
    except Exception as error:
        # Its text may hold anything and ends here.
        origin = unforeseen(error)
    if origin is not None:
        judgement = _refuse_unforeseen(case, origin)
    if judgement is not None and judgement.reason is not None:
        raise GuildPreflightError(line(judgement))


@dataclass(slots=True)
class _Case:
    """What is known so far of a call.

    Attributes:
        has_record: it may have a record already, which a later one replaces.
        server, tool, endpoint: what a refusal at this point can say.
    """

    call: Call
    record_id: str
    has_record: bool = False
    server: str | None = None
    tool: str = ""
    endpoint: str | None = None

    def refused(self, reason: Reason, origin: Unforeseen | None = None) -> Judgement:
        """Return a refusal with what is known so far."""
        return Judgement(
            reason=reason,
            server=self.server,
            endpoint=self.endpoint,
            tool=self.tool,
            unforeseen=origin,
        )


async def _judge(case: _Case) -> Judgement | None:
    """Return the judgement on a call; None when it is not protected."""
    layers = host.layers_for(case.call.agent)
    found = _Lookup(case)
    protections = protections_of(layers, found.match)
    if isinstance(protections, Unusable):
        if protections.approval is None and found.is_plain:
            return None
        judgement = _refuse_unconfigured(case, layers, protections)
    elif protections:
        case.server, case.tool = protections[0].approval.name, protections[0].view.tool
        judgement = await _judge_protected(case, protections)
    else:
        return None
    _keep(case, judgement)
    return judgement


class _Lookup:
    """What there is under the names that a call may go by, looked up when it is first needed.

    An alias that the agent no longer maps is resolved, in the call as well, where any server is
    known to have its tool. Where none has, it may be that of a tool that has gone, unless the
    framework has found a local tool of that very name.
    """

    def __init__(self, case: _Case) -> None:
        self._case = case
        self._servers: Any = None

    @cached_property
    def _names(self) -> tuple[str, ...]:
        call = self._case.call
        self._servers = look_up.servers_for(call.agent)
        known = {name: host.tool_behind(name, self._servers) or name for name in call.names}
        self._case.call = call._replace(announced=known[call.announced])
        return tuple(dict.fromkeys(known.values()))

    @cached_property
    def _views(self) -> dict[str, View]:
        return {name: host.look(self._servers, name) for name in self._names}

    @cached_property
    def is_plain(self) -> bool:
        """Whether the call is surely one of a local tool."""
        call = self._case.call
        if call.announced != call.bound or not host.is_local(call.tool):
            return False
        return not any("." in name for name in self._names)

    def match(self, protected: Mapping[str, Approval]) -> tuple[Approval, View] | None:
        """Return the approval that protects the call and what is under its name, or None."""
        for name, view in self._views.items():
            approval = classify(view, protected) or self._behind_alias(name, protected)
            if approval is not None:
                is_pinned = approval.pins is not None
                return approval, host.look(self._servers, name, pinned=True) if is_pinned else view
        return None

    def _behind_alias(self, name: str, protected: Mapping[str, Approval]) -> Approval | None:
        """Return the approval of a server that may have had a tool of that alias, or None."""
        if not is_alias(name) or self.is_plain:
            return None
        return next((protected[server] for server in protected if may_be_of(name, server)), None)


def _refuse_unconfigured(case: _Case, layers: Sequence[Layer], unusable: Unusable) -> Judgement:
    """Refuse what is protected, or may be, while the settings do not say how."""
    case.server = unusable.approval.name if unusable.approval else None
    case.tool = case.call.names[0].partition(".")[2]
    for agent in host.concerned_agents(case.call.agent):
        for layer in layers:
            if isinstance(layer.settings, InvalidConfiguration):
                records.write_configuration_log(agent, layer.settings, layer.source)
    return case.refused(Reason.INVALID_CONFIGURATION)._replace(source=unusable.layer.source)


async def _judge_protected(case: _Case, protections: Sequence[Protection]) -> Judgement:
    """Take a protected call through the stages."""
    call = case.call
    if call.announced != call.bound or not host.take(call.tool):
        return case.refused(Reason.DISPATCH_MISMATCH)
    prechecked = precheck_all(protections)
    if isinstance(prechecked, Judgement):
        return prechecked
    case.endpoint = prechecked[-1].endpoint.redacted
    if not call.is_mcp:  # a local tool, or none, where the server has one
        return case.refused(Reason.DISPATCH_MISMATCH)
    judgement, waited = await evaluate(prechecked)
    if judgement.reason is not None:
        return judgement
    watch = _Watch(case, prechecked, judgement)
    # Where nothing was awaited, nobody could change anything.
    if waited and not watch.is_unchanged():
        return judgement._replace(reason=Reason.BINDING_CHANGED, tolerated=(), source=None)
    execution.around_execution(call.tool, watch.before, watch.after)
    return judgement


class _Watch:
    """Watches the binding of an allowed call until its tool has answered."""

    def __init__(self, case: _Case, prechecked: Sequence[Prechecked], allowed: Judgement) -> None:
        self._case = case
        self._prechecked = prechecked
        self._allowed = allowed
        self._servers: Any = None

    def is_unchanged(self) -> bool:
        """Look the servers up anew; whether they are what was judged."""
        self._servers = look_up.servers_for(self._case.call.agent)
        return self._is_judged(self._servers)

    def before(self) -> Hold:
        """Hold a call to what was judged, or refuse it because its binding changed since."""
        return self._require(self._begin, Reason.BINDING_CHANGED)

    def after(self, hold: Hold) -> None:
        """Withhold the result of a call whose binding changed while it ran.

        Compares what the call was held to, and what the framework had when it began: another
        look-up would say where the next call goes.
        """
        self._require(lambda: self._end(hold), Reason.BINDING_CHANGED_DURING_CALL, is_withheld=True)

    def _begin(self) -> Hold | None:
        """Look the servers up anew; hold the call to them if they are what was judged."""
        self._servers = look_up.servers_for(self._case.call.agent)
        servers = look_up.frozen(self._servers)  # first, so that nothing changes what was compared
        return Hold(self._case.call.tool.agent, servers) if self._is_judged(servers) else None

    def _end(self, hold: Hold) -> bool:
        """Whether the call surely went to what was judged, and that is still there."""
        return hold.was_called and self._is_judged(hold.servers) and self._is_judged(self._servers)

    def _is_judged(self, servers: Any) -> bool:
        name = str(self._case.call.tool.name)
        try:
            for protection, _ in self._prechecked:
                approval = protection.approval
                view = host.look(servers, name, pinned=approval.pins is not None)
                require_approved(view, approval)
                if view != protection.view:
                    return False
        except BindingRefused:
            return False
        return True

    def _require(
        self, look: Callable[[], Found | None], reason: Reason, *, is_withheld: bool = False
    ) -> Found:
        """Return what a look finds; refuse the call, or its result, where that is nothing."""
        refused = self._allowed._replace(
            reason=reason, tolerated=(), source=None, is_withheld=is_withheld
        )
        try:
            if found := look():
                return found
        except Exception as error:
            refused = refused._replace(reason=Reason.INTERNAL_ERROR, unforeseen=unforeseen(error))
        with contextlib.suppress(Exception):
            _keep(self._case, refused)
        raise GuildPreflightError(line(refused))


def _refuse_unforeseen(case: _Case, origin: Unforeseen) -> Judgement:
    """Refuse a call on which the gate has failed."""
    judgement = case.refused(Reason.INTERNAL_ERROR, origin)
    with contextlib.suppress(Exception):  # the refusal stands, with or without its record
        _keep(case, judgement)
    return judgement


def _keep(case: _Case, judgement: Judgement) -> None:
    again, case.has_record = case.has_record, True
    for agent in host.concerned_agents(case.call.agent):
        records.keep(agent, judgement, case.record_id, replace=again)
        records.write_log(agent, judgement)
