"""What can the operator ask for? Every setting, with its unit and its default.

The defaults are those of the shipped `default_config.yaml`; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..binding.approval import Approval
from ..requirements import (
    DEFAULT_CACHE_TTL_SECONDS,
    DEFAULT_TIMEOUT_SECONDS,
    Policy,
    Requirements,
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, validated; the defaults are the shipped ones.

    Attributes:
        protected_servers: what is approved, by normalised server name.
        policy, timeout_seconds, cache_ttl_seconds: see `Requirements`; for every server whose
            entry has none of its own.
        allow_private_hosts: let private endpoints be told to a local service; in a more specific
            file only where the global one does, too.
        fixture_guild_origin: the origin of a local service, or None for the public one; that of
            the global file, see `in_force`.
        floor: the global file stays in force under more specific ones, see `in_force`.
    """

    protected_servers: Mapping[str, Approval] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    cache_ttl_seconds: float = DEFAULT_CACHE_TTL_SECONDS
    allow_private_hosts: bool = False
    fixture_guild_origin: str | None = None
    floor: bool = False

    @property
    def requirements(self) -> Requirements:
        """What is asked for a server whose entry says nothing else."""
        return Requirements(self.policy, self.timeout_seconds, self.cache_ttl_seconds)
