"""Everything that was found out about one call; what is said and kept is built from it.

A judgement is made in one go, from what is known then. Of two layers one may be judged while the
other still waits for its evidence; the binding is compared again after that. A later stage replaces
a judgement with a new one; none is changed in place. The module imports nothing of the framework.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .exceptions import Unforeseen
from .guild_preflight.observation import Observation
from .guild_preflight.verdicts import Check
from .reasons import NextStep, Reason, Stage, SubReason
from .settings.in_force import Source


class Judgement(NamedTuple):
    """What the gate makes of one protected call.

    Attributes:
        reason, sub_reason: why it is refused; `reason` is None when it is not.
        server: the operator's name for the server; None where it cannot be told.
        endpoint: scheme, host and port of a screened URL, else None.
        tool: the tool's own name: text chosen by the server, never to be shown to a model.
        observation: the valid observation, if there is one.
        error: why there is none, if one was asked for; set also when that is tolerated.
        tolerated: what an allowing decision tolerated.
        guild_origin: the service that was asked, else None.
        cache_ttl_seconds: how long evidence stays fresh.
        source: which layer it was judged by; None where that does not matter.
        unforeseen: what may be told of the exception behind `internal_error`, for the operator.
        is_withheld: the tool had run; what is refused is its result.
    """

    reason: Reason | None = None
    sub_reason: SubReason | None = None
    server: str | None = None
    endpoint: str | None = None
    tool: str = ""
    observation: Observation | None = None
    error: SubReason | None = None
    tolerated: tuple[str, ...] = ()
    guild_origin: str | None = None
    cache_ttl_seconds: float = 0.0
    source: Source | None = None
    unforeseen: Unforeseen | None = None
    is_withheld: bool = False

    @property
    def decision(self) -> str:
        """ "allowed" or "refused"."""
        return "allowed" if self.reason is None else "refused"

    @property
    def next_step(self) -> str:
        """The next step's word, with the seconds where cached evidence decided."""
        step, seconds = self._step()
        if step is None:
            return ""
        return step.value if seconds is None else f"{step.value} {seconds} s"

    @property
    def next_step_sentence(self) -> str:
        """The fixed sentence for the next step."""
        step, _ = self._step()
        return "" if step is None else step.sentence

    def _step(self) -> tuple[NextStep | None, int | None]:
        """Return the next step, and the seconds of `RETRY_AFTER`; None for an allowed call.

        A policy refuses an endpoint that was reached for what it is: trying again changes
        nothing. One that was not reached may be back later, and until the evidence expires the
        same call gives the same answer.
        """
        reason, observation = self.reason, self.observation
        if reason is None:
            return None, None
        if reason.stage is not Stage.POLICY or observation is None:
            return reason.next_step, None
        if Check.ENDPOINT_REACHABLE in observation.proven:
            return NextStep.OPERATOR, None
        if reason.next_step is not NextStep.RETRY_LATER or self.cache_ttl_seconds == 0:
            return reason.next_step, None
        left = self.cache_ttl_seconds - observation.age_seconds
        return NextStep.RETRY_AFTER, max(1, math.ceil(left))
