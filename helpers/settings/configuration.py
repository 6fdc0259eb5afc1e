"""What can the operator ask for? Every setting, with its unit and its default.

The defaults are those of the shipped `default_config.yaml`; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ..binding.approval import Approval
from ..guild_preflight.verdicts import Check


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
class Configuration:
    """The settings, validated; the defaults are the shipped ones.

    Attributes:
        protected_servers: what is approved, by normalised server name.
        policy: what is asked of the evidence.
        timeout_seconds: one wall-clock deadline for a preflight, in seconds, 0.1 to 15.
        cache_ttl_seconds: maximum age of cached evidence in seconds; 0 disables caching and request
            sharing.
        allow_private_hosts: let private endpoints be told to a local service; in a more specific
            file only where the global one does, too.
        fixture_guild_origin: the origin of a local service, or None for the public one; that of
            the global file, see `in_force`.
        floor: the global file stays in force under more specific ones, see `in_force`.
    """

    protected_servers: Mapping[str, Approval] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    timeout_seconds: float = 5.0
    cache_ttl_seconds: float = 300.0
    allow_private_hosts: bool = False
    fixture_guild_origin: str | None = None
    floor: bool = False
