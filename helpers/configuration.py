"""What did the operator ask for? The settings, read without guessing.

Rules of this module:

1. null or absent means the default; anything else of the wrong type is a problem.
   `"false"` is no boolean, `true` is no number, NaN is no duration.
2. An unknown key is a problem at every level: a typo must not widen a policy.
3. A whole file that is null, a list or a text is no configuration.
4. All problems are reported together, each with the path of its key, never with a value.
5. Two protected names that the framework would normalise alike are a problem.
6. When `protected_servers` is absent or unreadable and anything else is wrong, nobody can
   tell which servers are protected. `InvalidConfiguration.protected` is None then.

The module imports nothing of the framework; its `normalize_name` is handed in.
"""

from __future__ import annotations

import marshal
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from .policy import OnCaution, OnUnavailable, Policy
from .reasons import Reason, Refusal
from .verdicts import Check

MAX_TIMEOUT_SECONDS: Final = 15.0
MAX_CACHE_TTL_SECONDS: Final = 86_400.0
MAX_NAME_CHARACTERS: Final = 128
MAX_PATH_CHARACTERS: Final = 80
MAX_REMEMBERED: Final = 32  # settings

# A local service is a bare loopback origin: one that cannot lead anywhere else.
_LOCAL_ORIGIN = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})")


Choice = TypeVar("Choice", bound=StrEnum)


class Problem(StrEnum):
    """What can be wrong with one key; the value is the sentence for the operator."""

    UNREADABLE = "cannot be read as plain JSON, or is gone"
    NOT_AN_OBJECT = "must be an object, {...}"
    UNKNOWN_KEY = "is not a setting"
    NOT_TEXT = "must be a text"
    NOT_BOOLEAN = "must be true or false"
    NOT_A_NUMBER = "must be a number of seconds"
    OUT_OF_RANGE = "is outside its limits"
    NOT_A_CHOICE = "is none of the permitted values"
    NOT_CHECK_NAMES = "must be a list of known check names, each at most once"
    NOT_LOCAL_ORIGIN = "must be http://127.0.0.1:<port> or http://[::1]:<port>"
    NAME_UNUSABLE = "is not usable as a server name"
    NAME_TWICE = "is the same server name as another once normalised"


class InvalidConfiguration(Refusal):
    """The settings do not validate.

    Attributes:
        problems: every problem as (key path, problem).
        protected: the protected names with their approved URLs, as far as these can be
            read; None when it cannot be told which servers are protected.
    """

    def __init__(
        self,
        problems: tuple[tuple[str, Problem], ...],
        protected: Mapping[str, str] | None,
    ) -> None:
        super().__init__(Reason.INVALID_CONFIGURATION)
        self.problems = problems
        self.protected = protected


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, validated; the defaults are the shipped ones.

    Attributes:
        protected_servers: approved URL by normalised server name.
        policy: what is asked of the evidence.
        timeout_seconds: one wall-clock deadline for a preflight, at most 15.
        cache_ttl_seconds: how old evidence may be; 0 is never old and never shared.
        allow_private_hosts: let private endpoints be told to a local service.
        fixture_guild_origin: the origin of a local service, or None for the public one.
    """

    protected_servers: Mapping[str, str] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    timeout_seconds: float = 5.0
    cache_ttl_seconds: float = 300.0
    allow_private_hosts: bool = False
    fixture_guild_origin: str | None = None


def parse(raw: object, *, normalize_name: Callable[[str], str]) -> Configuration:
    """Read the settings.

    Args:
        raw: what the configuration file holds, as parsed JSON or YAML.
        normalize_name: the framework's normalisation of server names.

    Returns:
        The configuration.

    Raises:
        InvalidConfiguration: with every problem found.
    """
    try:
        return _remembered(marshal.dumps(raw, _EXACT), normalize_name)  # type: ignore[arg-type]
    except ValueError:  # not of plain values only, or nested without end
        return _parse(raw, normalize_name)


# The form without references: equal bytes are equal values, of equal types, in equal order.
_EXACT: Final = 2


@lru_cache(maxsize=MAX_REMEMBERED)
def _remembered(raw: bytes, normalize_name: Callable[[str], str]) -> Configuration:
    """Read settings that were read before: the framework gives them anew for every call."""
    return _parse(marshal.loads(raw), normalize_name)


def _parse(raw: object, normalize_name: Callable[[str], str]) -> Configuration:
    reader = _Reader()
    settings = reader.section(raw, "", _SETTINGS, required=True)
    policy = reader.section(settings.get("policy"), "policy", _POLICY_SETTINGS)
    protected = reader.protected_servers(settings.get("protected_servers"), normalize_name)
    configuration = Configuration(
        protected_servers=MappingProxyType(protected or {}),  # remembered, so not to be changed
        policy=Policy(
            required_proven=reader.checks(policy, "required_proven"),
            tolerate_unknown_required=reader.flag(policy, "tolerate_unknown_required", "policy."),
            on_caution=reader.choice(policy, "on_caution", OnCaution.DENY),
            on_unavailable=reader.choice(policy, "on_unavailable", OnUnavailable.DENY),
        ),
        timeout_seconds=reader.seconds(settings, "timeout_seconds", 5.0, MAX_TIMEOUT_SECONDS),
        cache_ttl_seconds=reader.seconds(
            settings, "cache_ttl_seconds", 300.0, MAX_CACHE_TTL_SECONDS, zero=True
        ),
        allow_private_hosts=reader.flag(settings, "allow_private_hosts"),
        fixture_guild_origin=reader.local_origin(settings, "fixture_guild_origin"),
    )
    if reader.problems:
        raise InvalidConfiguration(tuple(reader.problems), protected)
    return configuration


def local_origin(raw: object) -> str | None:
    """Give the local service that a configuration names, whatever else it holds.

    Args:
        raw: what a configuration file holds.

    Returns:
        The origin, or None where the file names no valid one.
    """
    origin = raw.get("fixture_guild_origin") if isinstance(raw, dict) else None
    return origin if isinstance(origin, str) and _is_local_origin(origin) else None


def _is_local_origin(text: str) -> bool:
    match = _LOCAL_ORIGIN.fullmatch(text)
    return match is not None and int(match.group(1)) <= 65535


_SETTINGS: Final = frozenset(Configuration.__dataclass_fields__)
_POLICY_SETTINGS: Final = frozenset(Policy.__dataclass_fields__)


class _Reader:
    """Reads one setting at a time and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, Problem]] = []

    def report(self, path: str, problem: Problem) -> None:
        self.problems.append((shown_path(path), problem))

    def section(
        self, value: object, path: str, known: frozenset[str], *, required: bool = False
    ) -> dict[str, Any]:
        if value is None and not required:
            return {}
        if not isinstance(value, dict):
            self.report(path, Problem.NOT_AN_OBJECT)
            return {}
        for key in value:
            if key not in known:
                self.report(f"{path}.{key}" if path else str(key), Problem.UNKNOWN_KEY)
        return value

    def protected_servers(
        self, value: object, normalize_name: Callable[[str], str]
    ) -> dict[str, str] | None:
        """Give the approved URLs by normalised name, or None where the names are unreadable."""
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            self.report("protected_servers", Problem.NOT_AN_OBJECT)
            return None
        protected: dict[str, str] = {}
        for key, url in value.items():
            name = normalize_name(key)
            path = f"protected_servers.{key}"
            if not 0 < len(name) <= MAX_NAME_CHARACTERS:
                self.report(path, Problem.NAME_UNUSABLE)
            if name in protected:
                self.report(path, Problem.NAME_TWICE)
                name = f"{name} ({len(protected)})"  # this one's URL is protected no less
            if not isinstance(url, str):
                self.report(path, Problem.NOT_TEXT)
            protected[name] = url if isinstance(url, str) else ""
        return protected

    def flag(self, settings: Mapping[str, Any], key: str, prefix: str = "") -> bool:
        value = settings.get(key)
        if value is not None and not isinstance(value, bool):
            self.report(prefix + key, Problem.NOT_BOOLEAN)
        return value is True

    def seconds(
        self,
        settings: Mapping[str, Any],
        key: str,
        default: float,
        limit: float,
        *,
        zero: bool = False,
    ) -> float:
        value = settings.get(key)
        if value is None:
            return default
        is_number = type(value) is int or (type(value) is float and not math.isnan(value))
        if not is_number:
            self.report(key, Problem.NOT_A_NUMBER)
        elif not (0 < value <= limit or (zero and value == 0)):
            self.report(key, Problem.OUT_OF_RANGE)
        else:
            return float(value)
        return default

    def choice(self, policy: Mapping[str, Any], key: str, default: Choice) -> Choice:
        value = policy.get(key)
        if value is None:
            return default
        try:
            return type(default)(value)
        except ValueError:
            self.report(f"policy.{key}", Problem.NOT_A_CHOICE)
            return default

    def checks(self, policy: Mapping[str, Any], key: str) -> tuple[Check, ...]:
        value = policy.get(key)
        if value is None:
            return Policy().required_proven
        try:
            checks = tuple(Check(item) for item in value) if isinstance(value, list) else None
        except ValueError:
            checks = None
        if checks is None or len(set(checks)) != len(checks):
            self.report(f"policy.{key}", Problem.NOT_CHECK_NAMES)
            return Policy().required_proven
        return checks

    def local_origin(self, settings: Mapping[str, Any], key: str) -> str | None:
        value = settings.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not _is_local_origin(value):
            self.report(key, Problem.NOT_LOCAL_ORIGIN)
            return None
        return value


def shown_path(path: str) -> str:
    """Give a key path as printable ASCII, cut to size: a key is the operator's free text."""
    text = path.encode("unicode_escape").decode("ascii")
    return text if len(text) <= MAX_PATH_CHARACTERS else text[: MAX_PATH_CHARACTERS - 3] + "..."
