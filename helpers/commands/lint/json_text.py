"""Where is the text of a settings file broken, and which keys does it repeat?

A spot in a file is told as a line and a column, or as the path of a key. No content is shown.

The module imports nothing of the framework.
"""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ...settings.files import read_text
from ...settings.locations import ConfigFile, Scope
from ...settings.problems import MAX_PATH_CHARACTERS, shown_path


class BrokenText(NamedTuple):
    """Why a file cannot be read.

    Attributes:
        sentence: what is so, in words of ours.
        line, column: where, counted from 1; 0 where there is no such place.
    """

    sentence: str
    line: int = 0
    column: int = 0


def broken_text(file: ConfigFile) -> BrokenText:
    """Return why a file cannot be read.

    Args:
        file: one that reads as `UNREADABLE`.

    Returns:
        Where its text is broken.
    """
    try:
        text = read_text(file.path)
    except UnicodeDecodeError:
        return BrokenText("It is not UTF-8.")
    except ValueError:
        if any(os.path.islink(step) and not os.path.exists(step) for step in _steps(file.path)):
            return BrokenText("It, or a folder on the way to it, is a link that leads nowhere.")
        return BrokenText("It is gone, may not be read, or is larger than 64 MiB.")
    try:
        yaml.safe_load(text) if file.scope is Scope.DEFAULT else json.loads(text)
    except json.JSONDecodeError as error:
        return _at(error.lineno, error.colno)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return _at(mark.line + 1, mark.column + 1) if mark else BrokenText("It is no YAML.")
    except RecursionError:
        return BrokenText("It is nested too deeply.")
    except (ValueError, yaml.YAMLError):
        return BrokenText("A number or a character in it is not permitted.")
    return BrokenText("It could be read just now.")


def _steps(path: Path) -> list[Path]:
    return [path, *path.parents]


def _at(line: int, column: int) -> BrokenText:
    return BrokenText(f"Line {line}, column {column}.", line, column)


def repeated_keys(path: Path) -> list[str]:
    """Return the keys that a JSON file repeats.

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
