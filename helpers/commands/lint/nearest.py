"""Which setting may a misspelled key mean, and which server a misspelled name?

Rules of this module:

1. A key is compared with the settings that are valid where it stands. A setting that is valid
   elsewhere is proposed only when it has exactly the key's name, or nearly. What a server may
   have as well as the file is proposed for where the key stands: for the server, or the file.
2. To compare takes as long as two texts are long, one by the other. So only the first keys and
   names are compared, and of the rest it is said that they were not.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from ...settings.configuration import Configuration
from ...settings.problems import MAX_PATH_CHARACTERS, shown_path
from ...settings.reader import POLICY_SETTINGS, SERVER_SETTINGS
from ...untrusted import visible

ELSEWHERE_CUTOFF: Final = 0.85  # of likeness, for a setting that is valid at another level
MAX_KEYS: Final = 200  # that are compared with the settings
MAX_KEY_CHARACTERS: Final = 64  # a longer key is like none of them
MAX_COMPARED: Final = 10_000_000  # pairs of characters of names, about a second
COMPARISON: Final = 500  # pairs of characters that take as long as to begin with a pair of names

# The settings by level: the path of the object that they stand in, and what that is called.
_TOP, _POLICY, _SERVER = "", "policy.", "protected_servers.<name>."
_SERVER_POLICY = f"{_SERVER}{_POLICY}"
_LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    _TOP: tuple(Configuration.__dataclass_fields__),
    _POLICY: POLICY_SETTINGS,
    _SERVER: SERVER_SETTINGS,
    _SERVER_POLICY: POLICY_SETTINGS,
}
_CALLED: Final[Mapping[str, str]] = {
    _TOP: "at the top level",
    _POLICY: "in policy",
    _SERVER: "in the object of a server",
    _SERVER_POLICY: "in policy of a server",
}


def _elsewhere(level: str) -> dict[str, str]:
    """Return the level of every setting; of two, the one that is as near to a server as a level."""
    of_server = level.startswith(_SERVER)
    levels = sorted(_LEVELS, key=lambda other: other.startswith(_SERVER) is of_server)
    return {setting: other for other in levels for setting in _LEVELS[other]}


_ELSEWHERE: Final = {level: _elsewhere(level) for level in _LEVELS}


class Setting(NamedTuple):
    """A setting that a misspelled key may mean.

    Attributes:
        path: its path; None where none was looked for.
        words: the same for a person.
    """

    path: str | None
    words: str


NOT_LOOKED_FOR: Final = Setting(None, f"not looked for, after {MAX_KEYS} other keys")


def nearest_settings(raw: object) -> dict[str, Setting]:
    """Find what the keys that are no settings may mean.

    Args:
        raw: what a configuration file holds.

    Returns:
        The nearest setting by the path of the key, as problems show it; a key that is like none
        is left out.
    """
    found = {}
    unknown = (
        (level, path, key)
        for level, path, key in _keys(raw)
        if key not in _LEVELS[level] and len(key) <= MAX_KEY_CHARACTERS
    )
    for number, (level, path, key) in enumerate(unknown):
        nearest = _nearest(key, level) if number < MAX_KEYS else NOT_LOOKED_FOR
        if nearest is not None:
            found[shown_path(path)] = nearest
    return found


class NearestName:
    """Finds the nearest of some names, while that is quick."""

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare to compare.

        Args:
            names: the names that may be meant.
        """
        self._names = sorted(names)
        self._characters = sum(map(len, self._names))
        self._left = MAX_COMPARED

    def words(self, name: str) -> str:
        """Return what can be said of a name: the nearest one, or nothing where none is near.

        Args:
            name: a normalised name, not one of those that may be meant.
        """
        self._left -= len(name) * self._characters + COMPARISON * len(self._names)
        if self._left < 0:
            return "The nearest name was not looked for: there are too many."
        nearest = get_close_matches(name, self._names, n=1)
        return f"Nearest name in the MCP settings: {visible(nearest[0])}." if nearest else ""


def _keys(raw: object) -> Iterator[tuple[str, str, str]]:
    """Return every key that should be a setting: its level, its path and itself."""
    settings = raw if isinstance(raw, dict) else {}
    policy, servers = settings.get("policy"), settings.get("protected_servers")
    most = (
        MAX_PATH_CHARACTERS + 1
    )  # no more of a name can be shown, and it is repeated for each key
    for key in settings:
        yield _TOP, str(key), str(key)
    for key in policy if isinstance(policy, dict) else ():
        yield _POLICY, f"policy.{key}", str(key)
    for name, server in servers.items() if isinstance(servers, dict) else ():
        entry, path = server if isinstance(server, dict) else {}, f"protected_servers.{name[:most]}"
        for key in entry:
            yield _SERVER, f"{path}.{key}", str(key)
        policy = entry.get("policy")
        for key in policy if isinstance(policy, dict) else ():
            yield _SERVER_POLICY, f"{path}.policy.{key}", str(key)


def _nearest(key: str, level: str) -> Setting | None:
    plain = key.strip().lower().replace("-", "_").rpartition(".")[2]
    elsewhere = _ELSEWHERE[level]
    if plain not in elsewhere:
        alike = get_close_matches(plain, _LEVELS[level], n=1)
        if alike:
            return _setting(level, alike[0])
    alike = get_close_matches(plain, elsewhere, n=1, cutoff=ELSEWHERE_CUTOFF)
    return _setting(elsewhere[alike[0]], alike[0]) if alike else None


def _setting(level: str, key: str) -> Setting:
    return Setting(level + key, f"{key} {_CALLED[level]}")
