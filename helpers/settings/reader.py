"""What did the operator ask for? The settings, read without guessing.

Rules of this module:

1. null or absent means the default; anything else of the wrong type is a problem.
   `"false"` is no boolean, `true` is no number, NaN is no duration.
2. An unknown key is a problem at every level: a typo must not widen a policy.
3. A whole file that is null, a list or a text is no configuration.
4. What an entry of `protected_servers` leaves out of its requirements is that of the top level,
   key by key.
5. All problems are reported together, each with the path of its key, never with a value.
6. Two protected names that the framework would normalise alike are a problem.
7. When `protected_servers` is absent or unreadable and anything else is wrong, nobody can
   tell which servers are protected. `InvalidConfiguration.protected_servers` is None then.

The module imports nothing of the framework; its `normalize_name` is handed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from ..binding.approval import Approval
from ..binding.headers import folded
from ..binding.pins import is_digest
from ..guild_preflight.verdicts import Check
from ..requirements import Policy, Requirements
from .configuration import Configuration
from .files import UNREADABLE
from .problems import MAX_PATH_CHARACTERS, InvalidConfiguration, Problem, shown_path

MIN_TIMEOUT_SECONDS: Final = 0.1  # less is no deadline: nothing can answer by then
MAX_TIMEOUT_SECONDS: Final = 15.0
MAX_CACHE_TTL_SECONDS: Final = 86_400.0
MAX_NAME_CHARACTERS: Final = 128

# A local service is a bare loopback origin: one that cannot lead anywhere else.
_LOCAL_ORIGIN = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]):([1-9][0-9]{0,4})")

# A header's name as HTTP permits it: a token of RFC 9110.
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Choice = TypeVar("Choice", bound=StrEnum)


def parse(
    raw: object, *, normalize_name: Callable[[str], str], is_global: bool = True
) -> Configuration:
    """Read the settings.

    Args:
        raw: what the configuration file holds, as parsed JSON or YAML, or `UNREADABLE`.
        normalize_name: the framework's normalisation of server names.
        is_global: it is the global file, where `floor` may stand.

    Returns:
        The configuration.

    Raises:
        InvalidConfiguration: with every problem found.
    """
    reader = _Reader()
    settings = reader.section(raw, "", SETTINGS, required=True)
    requirements = reader.requirements(settings, "", Requirements())
    protected = reader.protected_servers(
        settings.get("protected_servers"), normalize_name, requirements
    )
    if not is_global and settings.get("floor") is not None:
        reader.report("floor", Problem.FLOOR_ELSEWHERE)
    configuration = Configuration(
        protected_servers=MappingProxyType(protected or {}),  # remembered, so not to be changed
        policy=requirements.policy,
        timeout_seconds=requirements.timeout_seconds,
        cache_ttl_seconds=requirements.cache_ttl_seconds,
        allow_private_hosts=reader.flag(
            settings.get("allow_private_hosts"), "allow_private_hosts", False
        ),
        fixture_guild_origin=reader.local_origin(settings, "fixture_guild_origin"),
        floor=reader.flag(settings.get("floor"), "floor", False) if is_global else False,
    )
    if reader.problems:
        raise InvalidConfiguration(tuple(reader.problems), protected)
    return configuration


def local_origin(raw: object) -> str | None:
    """Return the local service that a configuration names, whatever else it holds.

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


SETTINGS: Final = frozenset(Configuration.__dataclass_fields__)
POLICY_SETTINGS: Final = tuple(Policy.__dataclass_fields__)
SERVER_SETTINGS: Final = ("url", "tools", "headers", *Requirements.__dataclass_fields__)


class _Reader:
    """Reads one setting at a time and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, Problem]] = []

    def report(self, path: str, problem: Problem) -> None:
        self.problems.append((shown_path(path), problem))

    def section(
        self, value: object, path: str, known: Collection[str], *, required: bool = False
    ) -> dict[str, Any]:
        if value is None and not required:
            return {}
        if not isinstance(value, dict):
            unreadable = value is UNREADABLE
            self.report(path, Problem.UNREADABLE if unreadable else Problem.NOT_AN_OBJECT)
            return {}
        path = path[: MAX_PATH_CHARACTERS + 1]  # or a long name would be copied for each key
        for key in value:
            if key not in known:
                self.report(f"{path}.{key}" if path else str(key), Problem.UNKNOWN_KEY)
        return value

    def protected_servers(
        self, value: object, normalize_name: Callable[[str], str], requirements: Requirements
    ) -> dict[str, Approval] | None:
        """Return what is approved by normalised name, or None where the names are unreadable."""
        if value is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            self.report("protected_servers", Problem.NOT_AN_OBJECT)
            return None
        protected: dict[str, Approval] = {}
        for key, approved in value.items():
            name = normalize_name(key)
            path = f"protected_servers.{key}"
            if not 0 < len(name) <= MAX_NAME_CHARACTERS:
                self.report(path, Problem.NAME_UNUSABLE)
            if name in protected:
                self.report(path, Problem.NAME_TWICE)
                name = f"{name} ({len(protected)})"  # this one's URL is protected no less
            # A name that is not usable is shown all the same, with what is wrong with it.
            shown = name[:MAX_NAME_CHARACTERS]
            protected[name] = self.approval(shown, approved, path, requirements)
        return protected

    def approval(self, name: str, value: object, path: str, requirements: Requirements) -> Approval:
        if isinstance(value, str):
            return Approval(name, value)
        if not isinstance(value, dict):
            self.report(path, Problem.NOT_A_SERVER)
            return Approval(name, "")
        server = self.section(value, path, SERVER_SETTINGS)
        url = server.get("url")
        if not isinstance(url, str):
            self.report(f"{path}.url", Problem.NOT_TEXT)
            url = ""
        pins = self.pins(server.get("tools"), f"{path}.tools")
        headers = self.headers(server.get("headers"), f"{path}.headers")
        own = self.requirements(server, f"{path}.", requirements)
        return Approval(name, url, pins, headers, None if own == requirements else own)

    def pins(self, value: object, path: str) -> Mapping[str, str] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self.report(path, Problem.NOT_AN_OBJECT)
            return {}
        path = path[: MAX_PATH_CHARACTERS + 1]  # as above
        for tool, digest in value.items():
            if not (isinstance(tool, str) and isinstance(digest, str) and is_digest(digest)):
                self.report(f"{path}.{tool}", Problem.NOT_A_DIGEST)
        return MappingProxyType(dict(value))

    def headers(self, value: object, path: str) -> frozenset[str] | None:
        """Return the permitted headers, folded; none where they are unreadable."""
        if value is None:
            return None
        names = value if isinstance(value, list) else [value]
        is_read = isinstance(value, list) and all(
            isinstance(name, str) and _HEADER.fullmatch(name) for name in names
        )
        permitted = frozenset(map(folded, names)) if is_read else frozenset()
        if not is_read or len(permitted) != len(names) or "" in permitted:
            self.report(path, Problem.NOT_HEADER_NAMES)
            return frozenset()
        return permitted

    def requirements(
        self, settings: Mapping[str, Any], prefix: str, default: Requirements
    ) -> Requirements:
        """Return what is asked of the evidence: key by key what is written, or else the default."""
        prefix = prefix[: MAX_PATH_CHARACTERS + 1]  # as above
        return Requirements(
            self.policy(settings.get("policy"), f"{prefix}policy", default.policy),
            self.seconds(
                settings.get("timeout_seconds"),
                f"{prefix}timeout_seconds",
                default.timeout_seconds,
                (MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS),
            ),
            self.seconds(
                settings.get("cache_ttl_seconds"),
                f"{prefix}cache_ttl_seconds",
                default.cache_ttl_seconds,
                (0.0, MAX_CACHE_TTL_SECONDS),
            ),
        )

    def policy(self, value: object, path: str, default: Policy) -> Policy:
        written = self.section(value, path, POLICY_SETTINGS)

        def read(how: Callable[[object, str, Any], Any], key: str) -> Any:
            return how(written.get(key), f"{path}.{key}", getattr(default, key))

        return Policy(
            required_proven=read(self.checks, "required_proven"),
            tolerate_unknown_required=read(self.flag, "tolerate_unknown_required"),
            on_caution=read(self.choice, "on_caution"),
            on_unavailable=read(self.choice, "on_unavailable"),
        )

    def flag(self, value: object, path: str, default: bool) -> bool:
        if value is None:
            return default
        if not isinstance(value, bool):
            self.report(path, Problem.NOT_BOOLEAN)
        return value is True

    def seconds(self, value: Any, path: str, default: float, limits: tuple[float, float]) -> float:
        if value is None:
            return default
        is_number = type(value) is int or (type(value) is float and not math.isnan(value))
        if not is_number:
            self.report(path, Problem.NOT_A_NUMBER)
        elif not limits[0] <= value <= limits[1]:
            self.report(path, Problem.OUT_OF_RANGE)
        else:
            return float(value)
        return default

    def choice(self, value: Any, path: str, default: Choice) -> Choice:
        if value is None:
            return default
        try:
            return type(default)(value)
        except ValueError:
            self.report(path, Problem.NOT_A_CHOICE)
            return default

    def checks(self, value: object, path: str, default: tuple[Check, ...]) -> tuple[Check, ...]:
        if value is None:
            return default
        try:
            checks = tuple(Check(item) for item in value) if isinstance(value, list) else None
        except ValueError:
            checks = None
        if checks is None or len(set(checks)) != len(checks):
            self.report(path, Problem.NOT_CHECK_NAMES)
            return default
        return checks

    def local_origin(self, settings: Mapping[str, Any], key: str) -> str | None:
        value = settings.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not _is_local_origin(value):
            self.report(key, Problem.NOT_LOCAL_ORIGIN)
            return None
        return value
