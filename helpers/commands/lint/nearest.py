"""Which setting may a misspelled key mean?

A key is compared with the settings that are valid where it stands. A setting that is valid
elsewhere is proposed only when it has exactly the key's name, or nearly.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from ...settings.configuration import Configuration, Policy
from ...settings.problems import shown_path
from ...settings.reader import SERVER_SETTINGS

ELSEWHERE_CUTOFF: Final = 0.85  # of likeness, for a setting that is valid at another level

# The settings by level: the path of the object that they stand in, and what that is called.
_TOP, _POLICY, _SERVER = "", "policy.", "protected_servers.<name>."
_LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    _TOP: tuple(Configuration.__dataclass_fields__),
    _POLICY: tuple(Policy.__dataclass_fields__),
    _SERVER: SERVER_SETTINGS,
}
_CALLED: Final[Mapping[str, str]] = {
    _TOP: "at the top level",
    _POLICY: "in policy",
    _SERVER: "in the object of a server",
}


class Setting(NamedTuple):
    """A setting that a misspelled key may mean.

    Attributes:
        path: its path.
        words: the same for a person.
    """

    path: str
    words: str


def nearest_settings(raw: object) -> dict[str, Setting]:
    """Find what the keys that are no settings may mean.

    Args:
        raw: what a configuration file holds.

    Returns:
        The nearest setting by the path of the key, as problems show it; a key that is like none
        is left out.
    """
    found = {}
    for level, path, key in _keys(raw):
        nearest = None if key in _LEVELS[level] else _nearest(key, level)
        if nearest is not None:
            found[shown_path(path)] = nearest
    return found


def _keys(raw: object) -> Iterator[tuple[str, str, str]]:
    """Return every key that should be a setting: its level, its path and itself."""
    settings = raw if isinstance(raw, dict) else {}
    policy, servers = settings.get("policy"), settings.get("protected_servers")
    for key in settings:
        yield _TOP, str(key), str(key)
    for key in policy if isinstance(policy, dict) else ():
        yield _POLICY, f"policy.{key}", str(key)
    for name, server in servers.items() if isinstance(servers, dict) else ():
        for key in server if isinstance(server, dict) else ():
            yield _SERVER, f"protected_servers.{name}.{key}", str(key)


def _nearest(key: str, level: str) -> Setting | None:
    plain = key.strip().lower().replace("-", "_").rpartition(".")[2]
    elsewhere = {setting: other for other in _LEVELS for setting in _LEVELS[other]}
    if plain not in elsewhere:
        alike = get_close_matches(plain, _LEVELS[level], n=1)
        if alike:
            return _setting(level, alike[0])
    alike = get_close_matches(plain, elsewhere, n=1, cutoff=ELSEWHERE_CUTOFF)
    return _setting(elsewhere[alike[0]], alike[0]) if alike else None


def _setting(level: str, key: str) -> Setting:
    return Setting(level + key, f"{key} {_CALLED[level]}")
