"""What is asked of the evidence for a call to one server?

The defaults are those of the shipped `default_config.yaml`; a test compares them. The module
imports nothing of the framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .guild_preflight.verdicts import Check

DEFAULT_TIMEOUT_SECONDS: Final = 5.0
DEFAULT_CACHE_TTL_SECONDS: Final = 300.0


class OnCaution(StrEnum):
    """What to do with the verdict `delegate_with_caution`."""

    DENY = "deny"
    ALLOW = "allow"


class OnUnavailable(StrEnum):
    """What to do without a valid observation."""

    DENY = "deny"
    ALLOW_UNREACHABLE = "allow_unreachable"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator asks of the evidence; the defaults are the shipped ones."""

    required_proven: tuple[Check, ...] = (Check.ENDPOINT_REACHABLE, Check.PROTOCOL_HANDSHAKE)
    tolerate_unknown_required: bool = False
    on_caution: OnCaution = OnCaution.DENY
    on_unavailable: OnUnavailable = OnUnavailable.DENY


@dataclass(frozen=True, slots=True)
class Requirements:
    """A policy, and how new and how quick its evidence must be.

    Attributes:
        policy: what is asked of the evidence.
        timeout_seconds: one wall-clock deadline for a preflight, in seconds, 0.1 to 15.
        cache_ttl_seconds: maximum age of cached evidence in seconds; 0 disables caching and request
            sharing.
    """

    policy: Policy = field(default_factory=Policy)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    cache_ttl_seconds: float = DEFAULT_CACHE_TTL_SECONDS
