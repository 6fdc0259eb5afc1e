"""What stands at the places where settings may be?

The framework takes for absent whatever it cannot follow: a link to nothing, a folder that it may
not enter. Then a less specific file is in force, or none. Here a place counts as empty only if
nothing at all is there.

Rules of this module:

1. A place is followed from its base, one folder after the other. It is empty only when a folder on
   the way, or the file itself, is not there. A link that leads nowhere or in a circle, and what
   may not be looked at, is `BROKEN`; so is what is no plain file, or larger than `files` reads.
2. A file that is written, replaced, or put anywhere else, has another stamp.

The order of places is the framework's own (see `locations`). The module imports nothing of the
framework.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import lru_cache
from glob import has_magic
from os import F_OK, X_OK, access
from pathlib import PurePath
from typing import Final, NamedTuple

from ..product import NAME as PLUGIN_NAME
from .files import MAX_FILE_BYTES

Stamp = tuple[int, ...]  # device, inode, size, and when it was changed

BROKEN: Final[Stamp] = ()  # something is there, and it cannot be read

GLOBAL_PLACES: Final = 2  # the last of them: the global file, and the built-in one

_FILE: Final = ("plugins", PLUGIN_NAME, "config.json")

# Where it can be told, at once, that a folder has nothing of a name, not even a link to nothing.
_CAN_TELL: Final = os.access in os.supports_follow_symlinks


class Place(NamedTuple):
    """A place where settings may be.

    Attributes:
        steps: every folder below the base, then the file; absolute paths.
        rarely_in: the base, where there is seldom even the first step below it; there are dozens
            of such places. Else empty.
    """

    steps: tuple[str, ...]
    rarely_in: str = ""

    @property
    def path(self) -> str:
        return self.steps[-1]


@lru_cache(maxsize=64)
def places(
    root: str, project: str, profile: str, plugin_folders: tuple[str, ...]
) -> tuple[Place, ...]:
    """Return every place where settings for an agent may be, in the order in which they win.

    Args:
        root: the Agent Zero folder, absolute.
        project, profile: the agent's; empty for none.
        plugin_folders: the plugins that are switched on, by name.

    Returns:
        The places; the last ones are those without project and profile.
    """
    found = []
    of_project = ("usr", "projects", project, ".a0proj")
    of_profile = ("agents", profile)
    if project and profile:
        found.append(_place(root, *of_project, *of_profile))
    if project:
        found.append(_place(root, *of_project))
    if profile:
        found.append(_place(root, "usr", *of_profile))
        found += [
            _place(folder, *of_profile)._replace(rarely_in=folder if _CAN_TELL else "")
            for folder in plugin_folders
        ]
        found.append(_place(root, *of_profile))
    return (*found, _place(root, "usr"), _place(root))


@lru_cache(maxsize=64)
def misread_places(
    root: str, project: str, profile: str, plugin_folders: tuple[str, ...]
) -> tuple[Place, ...]:
    """Return the places that the framework takes for a pattern, and so does not find.

    Args:
        root, project, profile, plugin_folders: as for `places`.
    """
    at = places(root, project, profile, plugin_folders)
    return tuple([place for place in at if has_magic(place.path)])


def _place(base: str, *below: str) -> Place:
    path, steps = base.rstrip("/"), []
    for part in (*below, *_FILE):
        path = f"{path}/{part}"
        steps.append(path)
    return Place(tuple(steps))


def stamps_at(at: Sequence[Place]) -> tuple[Stamp | None, ...]:
    """Return what stands at each place: a stamp, or None where nothing does."""
    return tuple(
        [
            None if rarely_in and _has_nothing(rarely_in, steps[0]) else stamp(steps, rarely_in)
            for steps, rarely_in in at
        ]
    )


def _has_nothing(folder: str, path: str) -> bool:
    """Whether there is surely nothing at a path in a folder, not even a link to nothing."""
    return not access(path, F_OK, follow_symlinks=False) and access(folder, X_OK)


def stamp(steps: Sequence[str], base: str = "") -> Stamp | None:
    """Return the stamp of what stands at the end of some steps, or None where nothing does.

    Args:
        steps: every folder on the way, then the file.
        base: a folder that leads to them, and that may have gone since it was found; or empty.
    """
    try:
        if base and not access(base, X_OK):
            return BROKEN if _stands(base) else None
        for path in steps:
            if not access(path, F_OK):
                return BROKEN if _stands(path) else None
        status = os.stat(steps[-1])
    except (OSError, ValueError):  # gone again, or no path at all
        return BROKEN
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        return BROKEN
    changed = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *changed


def _stands(path: str) -> bool:
    """Whether there is something that cannot be followed, or nobody can tell."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def stands(path: PurePath) -> bool:
    """Whether anything stands at an absolute path, or on the way to it where that leads nowhere."""
    return stamp([*map(str, reversed(path.parents)), str(path)]) is not None


def is_broken(stamps: Sequence[Stamp | None]) -> bool:
    """Whether the first thing that stands at some places cannot be read."""
    return next((found for found in stamps if found is not None), None) == BROKEN
