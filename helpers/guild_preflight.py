"""What does the endpoint prove right now? Asks the preflight service, or remembers.

Rules of this module:

1. Valid observations are kept, per origin and exact URL, at most 256 of them, the least
   recently used going first. Nothing else is kept: no failure is ever remembered.
2. The reader decides how old is fresh enough. A kept observation says that it is one,
   with the time at which it was made and its age.
3. Age runs on a clock that also runs while the machine sleeps.
4. With a maximum age of 0 every call makes a request of its own, shares it with nobody and
   leaves nothing behind; otherwise concurrent calls for one URL share one (see `flights`).

The module imports nothing of the framework.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from .claims import Claims, EvidenceUnavailable
from .contract import ContractViolation, Observation, parse
from .endpoint import Endpoint
from .exchange import Exchange
from .flights import Flights
from .reasons import SubReason

PUBLIC_ORIGIN: Final = "https://agent-guild-5d5r.onrender.com"
MAX_KEPT_OBSERVATIONS: Final = 256

Key = tuple[str, str]


class ObservationCache:
    """The observations kept, by origin and URL. Safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[float, Observation]] = OrderedDict()

    def keep(self, key: Key, observation: Observation) -> None:
        """Keep an observation that was made just now."""
        with self._lock:
            self._kept[key] = (boot_seconds(), observation)
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_KEPT_OBSERVATIONS:
                self._kept.popitem(last=False)

    def fresh(self, key: Key, max_age_seconds: float) -> Observation | None:
        """Give the kept observation with its age, if it is younger than the maximum."""
        with self._lock:
            made, observation = self._kept.get(key, (0.0, None))
            if observation is None:
                return None
            age = boot_seconds() - made
            if not 0 <= age < max_age_seconds:
                return None
            self._kept.move_to_end(key)
        return observation.aged(age)


class _Preflight:
    """One request for one key, as the cargo of a flight."""

    def __init__(self, key: Key, cache: ObservationCache | None) -> None:
        self._key = key
        self._cache = cache
        self._exchange = Exchange(*key)

    async def run(self) -> Observation | tuple[type, SubReason, Claims]:
        _, target = self._key
        requested_at = datetime.now(UTC)
        try:
            observation = parse(await self._exchange.run(), target=target)
        except (EvidenceUnavailable, ContractViolation) as refusal:
            return _portable(refusal)
        observation = replace(
            observation,
            requested_at=requested_at,
            observed_at=datetime.now(UTC),
        )
        if self._cache is not None:
            self._cache.keep(self._key, observation)
        return observation

    def overdue(self) -> tuple[type, SubReason, Claims]:
        return _portable(self._exchange.unavailable(SubReason.TIMEOUT))


def _portable(
    refusal: EvidenceUnavailable | ContractViolation,
) -> tuple[type, SubReason, Claims]:
    """Give a refusal as a value: one exception must not be raised in several threads."""
    assert refusal.sub_reason is not None
    return type(refusal), refusal.sub_reason, refusal.claims


_cache: Final = ObservationCache()
_flights: Final = Flights()


def recall(endpoint: Endpoint, origin: str, max_age_seconds: float) -> Observation | None:
    """Give the kept observation of an endpoint, without waiting for anything.

    Args:
        endpoint: the screened endpoint.
        origin: scheme, host and port of the preflight service.
        max_age_seconds: how old it may be; 0 gives none.

    Returns:
        The observation with its age, or None where none is kept that is fresh enough.
    """
    return _cache.fresh((origin, endpoint.url), max_age_seconds)


async def observe(
    endpoint: Endpoint, *, origin: str, timeout_seconds: float, max_age_seconds: float
) -> Observation:
    """Get an observation of an endpoint.

    Args:
        endpoint: the screened endpoint.
        origin: scheme, host and port of the preflight service.
        timeout_seconds: one deadline over everything.
        max_age_seconds: how old a kept observation may be; 0 asks anew, and alone.

    Returns:
        A valid observation, dated, kept or new.

    Raises:
        EvidenceUnavailable: no usable answer by the deadline.
        ContractViolation: an answer that breaks the contract.
        RuntimeError: something unforeseen; says no more than that.
    """
    key = (origin, endpoint.url)
    if max_age_seconds > 0:
        outcome = await _flights.outcome(
            key,
            timeout_seconds,
            prepare=lambda: _Preflight(key, _cache),
            recall=lambda: _cache.fresh(key, max_age_seconds),
        )
    else:
        outcome = await _flights.outcome(
            None, timeout_seconds, prepare=lambda: _Preflight(key, None)
        )
    if isinstance(outcome, Observation):
        return outcome
    if outcome is None:
        raise RuntimeError("the preflight ended in an unforeseen way")
    refusal, sub_reason, claims = outcome
    raise refusal(sub_reason, claims)


def boot_seconds() -> float:
    """Give the seconds of a clock that also runs while the machine sleeps."""
    return time.clock_gettime(_BOOT_CLOCK) if _BOOT_CLOCK is not None else time.monotonic()


# Linux counts sleep in CLOCK_BOOTTIME, macOS in CLOCK_MONOTONIC; Windows counts it in the
# clock behind time.monotonic and has neither.
_BOOT_CLOCK: Final[int | None] = getattr(
    time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None)
)
