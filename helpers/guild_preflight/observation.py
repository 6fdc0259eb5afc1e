"""What one valid answer of the preflight service says, and when it was obtained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from .verdicts import Check, Status, Verdict


@dataclass(frozen=True)
class Observation:
    """What one valid answer says, and when and how it was obtained.

    Attributes:
        verdict: the verdict, as computed from the checks.
        statuses: each known check's status, in the order of the contract.
        details: each known check's detail, marked and escaped by `untrusted`.
        other_checks: how many further checks the answer names.
        other_failed: how many of those have failed.
        method, limits: texts of the answer, marked and escaped by `untrusted`.
        requested_at, observed_at: our own clock, UTC; None until dated.
        cached: the observation was made for an earlier call.
        age_seconds: how long ago, 0 when it was made for this call.
    """

    verdict: Verdict
    statuses: Mapping[Check, Status]
    details: Mapping[Check, str]
    other_checks: int
    other_failed: int
    method: str
    limits: str
    requested_at: datetime | None = None
    observed_at: datetime | None = None
    cached: bool = False
    age_seconds: float = 0.0

    def names(self, status: Status) -> tuple[Check, ...]:
        """Return the known checks that have a status, in the order of the contract."""
        return tuple(check for check, found in self.statuses.items() if found is status)

    @cached_property
    def proven(self) -> frozenset[Check]:
        """The known checks that are proven."""
        return frozenset(self.names(Status.PROVEN))

    @cached_property
    def failed(self) -> frozenset[Check]:
        """The known checks that have failed."""
        return frozenset(self.names(Status.FAILED))

    @cached_property
    def plain(self) -> Mapping[str, Any]:
        """The observation, its age apart, as plain JSON values.

        Shared by all that keep it, since it is made for many calls: not to be changed.
        """
        failed, unknowns = self.names(Status.FAILED), self.names(Status.UNKNOWN)
        return {
            "verdict": self.verdict.value,
            "failed": [check.value for check in failed],
            "unknowns": [check.value for check in unknowns],
            "scored": [check.value for check in self.statuses if check not in unknowns],
            "checks": [
                {"check": check.value, "status": status.value, "detail": self.details[check]}
                for check, status in self.statuses.items()
            ],
            "other_checks": self.other_checks,
            "other_failed": self.other_failed,
            "method": self.method,
            "limits": self.limits,
            "requested_at": self.requested_at and written(self.requested_at),
            "observed_at": self.observed_at and written(self.observed_at),
        }

    def aged(self, seconds: float) -> Observation:
        """Return the observation as one that was made so long ago.

        Each call with kept evidence does this. A constructor or `replace` takes 5 us more, which
        the benchmark's target needs.
        """
        attributes = {**self.__dict__, "plain": self.plain}
        attributes["cached"] = True
        attributes["age_seconds"] = seconds
        aged = object.__new__(Observation)
        object.__setattr__(aged, "__dict__", attributes)
        return aged


def written(moment: datetime) -> str:
    """Return a moment in UTC as ISO 8601, to the second."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
