"""What does the endpoint prove right now? Asks the preflight service, or remembers.

Rules of this module:

1. With a maximum age of 0 a call makes a request of its own and shares it with nobody; its answer
   is kept only where another layer of the call wants that. Otherwise valid observations are kept
   (see `cache`), and concurrent calls for one URL share one request (see `single_flight`).
2. A failure is never kept. It reaches each caller as an exception of its own.
3. One request may serve more than one deadline, see `Inquiry`.

The module imports nothing of the framework.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from ..exceptions import Unforeseen, UnforeseenError
from ..reasons import SubReason
from .cache import Key, ObservationCache
from .contract import ContractViolation, parse
from .endpoint import Endpoint
from .observation import Observation
from .request import PreflightRequest
from .salvage import Claims, EvidenceUnavailable
from .single_flight import Joined, SingleFlight

PUBLIC_ORIGIN: Final = "https://agent-guild-5d5r.onrender.com"


class _Preflight:
    """The work of one request for one key."""

    def __init__(self, key: Key, cache: ObservationCache | None) -> None:
        self._key = key
        self._cache = cache
        self._request = PreflightRequest(*key)

    async def run(self) -> Observation | tuple[type, SubReason, Claims]:
        _, target = self._key
        requested_at = datetime.now(UTC)
        try:
            observation = parse(await self._request.run(), target=target)
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
        return _portable(self._request.unavailable(SubReason.TIMEOUT))


def _portable(
    refusal: EvidenceUnavailable | ContractViolation,
) -> tuple[type, SubReason, Claims]:
    """Return a refusal as a value: one exception must not be raised in several threads."""
    assert refusal.sub_reason is not None
    return type(refusal), refusal.sub_reason, refusal.claims


_cache: Final = ObservationCache()
_single_flight: Final = SingleFlight()


def recall(endpoint: Endpoint, origin: str, max_age_seconds: float) -> Observation | None:
    """Return the kept observation of an endpoint, without waiting for anything.

    Args:
        endpoint: the screened endpoint.
        origin: scheme, host and port of the preflight service.
        max_age_seconds: how old it may be; 0 gives none.

    Returns:
        The observation with its age, or None where none is kept that is fresh enough.
    """
    return _cache.fresh((origin, endpoint.url), max_age_seconds)


class Inquiry:
    """One question to the service, for whoever wants its answer by a deadline of his own.

    Used in a `with` block; an unshared request ends with the block.
    """

    def __init__(self, joined: Joined) -> None:
        self._joined = joined

    def __enter__(self) -> Inquiry:
        return self

    def __exit__(self, *_: object) -> None:
        self._joined.__exit__()

    async def observation(self, timeout_seconds: float) -> Observation:
        """Get what the service says by a deadline.

        Args:
            timeout_seconds: one deadline over everything, from the question on; at most the one
                that the question was asked with.

        Returns:
            A valid observation, dated, kept or new.

        Raises:
            EvidenceUnavailable: no usable answer by the deadline.
            ContractViolation: an answer that breaks the contract.
            UnforeseenError: something that nobody foresaw, with where it was raised.
        """
        result = await self._joined.result(timeout_seconds)
        if isinstance(result, Observation):
            return result
        if isinstance(result, Unforeseen):
            raise UnforeseenError(result)
        refusal, sub_reason, claims = result
        raise refusal(sub_reason, claims)


def ask(
    endpoint: Endpoint,
    *,
    origin: str,
    timeout_seconds: float,
    max_age_seconds: float,
    is_kept: bool,
) -> Inquiry:
    """Ask the service about an endpoint; on the loop of the caller.

    Args:
        endpoint: the screened endpoint.
        origin: scheme, host and port of the preflight service.
        timeout_seconds: the last deadline that will be looked at.
        max_age_seconds: how old a kept observation may be; 0 asks anew, and alone.
        is_kept: a valid answer is kept for later calls.

    Returns:
        The question on its way.
    """
    key = (origin, endpoint.url)
    cache = _cache if is_kept else None
    if max_age_seconds > 0:
        joined = _single_flight.join(
            key,
            timeout_seconds,
            prepare=lambda: _Preflight(key, cache),
            recall=lambda: _cache.fresh(key, max_age_seconds),
        )
    else:
        joined = _single_flight.join(None, timeout_seconds, prepare=lambda: _Preflight(key, cache))
    return Inquiry(joined)
