"""What can be said of a settings file beyond its problems: where its text is broken, which keys
it repeats, and which setting a misspelled key may mean.

Rules of this module:

1. A place in a file is a line and a column, or the path of a key; no content is shown.
2. A key is compared with the settings that are valid where it stands. A setting that is valid
   elsewhere is proposed only when it has exactly the key's name, or nearly.

The module imports nothing of the framework.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from ..configuration import Configuration
from ..places import ConfigFile, Scope, read_text
from ..policy import Policy
from ..problems import MAX_PATH_CHARACTERS, shown_path

ELSEWHERE_CUTOFF: Final = 0.85  # of likeness, for a setting that is valid at another level

# The settings by level: the path of the object that they stand in, and what that is called.
_TOP, _POLICY, _SERVER = "", "policy.", "protected_servers.<name>."
_LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    _TOP: tuple(Configuration.__dataclass_fields__),
    _POLICY: tuple(Policy.__dataclass_fields__),
    _SERVER: ("url", "tools"),
}
_CALLED: Final[Mapping[str, str]] = {
    _TOP: "at the top level",
    _POLICY: "in policy",
    _SERVER: "in the object of a server",
}


class Fault(NamedTuple):
    """Why a file cannot be read.

    Attributes:
        sentence: what is so, in words of ours.
        line, column: where, counted from 1; 0 where there is no such place.
    """

    sentence: str
    line: int = 0
    column: int = 0


class Setting(NamedTuple):
    """A setting that a misspelled key may mean.

    Attributes:
        path: its path.
        words: the same for a person.
    """

    path: str
    words: str


def fault(file: ConfigFile) -> Fault:
    """Say why a file cannot be read.

    Args:
        file: one that reads as `UNREADABLE`.

    Returns:
        The fault.
    """
    try:
        text = read_text(file.path)
    except UnicodeDecodeError:
        return Fault("It is not UTF-8.")
    except ValueError:
        return Fault("It is gone, may not be read, or is larger than 64 MiB.")
    try:
        yaml.safe_load(text) if file.scope is Scope.DEFAULT else json.loads(text)
    except json.JSONDecodeError as error:
        return _at(error.lineno, error.colno)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return _at(mark.line + 1, mark.column + 1) if mark else Fault("It is no YAML.")
    except RecursionError:
        return Fault("It is nested too deeply.")
    except (ValueError, yaml.YAMLError):
        return Fault("A number or a character in it is not permitted.")
    return Fault("It could be read just now.")


def _at(line: int, column: int) -> Fault:
    return Fault(f"Line {line}, column {column}.", line, column)


def repeated_keys(path: Path) -> list[str]:
    """Give the keys that a JSON file repeats.

    Args:
        path: the file.

    Returns:
        The path of each, ready to be shown; none of a file that cannot be read.
    """
    try:
        content = json.loads(read_text(path), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []
    found = []
    pending: deque[tuple[str, Any]] = deque([("", content)])
    while pending:  # no recursion: the parser takes deeper files than a function of ours
        prefix, value = pending.popleft()
        children: Any = ()
        if isinstance(value, _Pairs):
            times = Counter(key for key, _ in value)
            found += [prefix + key for key in times if times[key] > 1]
            children = dict(value).items()
        elif isinstance(value, list):
            children = enumerate(value)
        # No more of a path than can be shown: a long key above a long list would be kept for each.
        pending += [
            (f"{prefix}{key}."[: MAX_PATH_CHARACTERS + 1], child)
            for key, child in children
            if isinstance(child, list | _Pairs)
        ]
    return [shown_path(path) for path in found]


class _Pairs(tuple[tuple[str, Any], ...]):
    """An object of a JSON text, with the keys that it repeats."""


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
    """Give every key that should be a setting: its level, its path and itself."""
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
