"""Is a plugin switched on? The files by which the framework decides.

Rules of this module:

1. Every plugin is on, unless a file `.toggle-0` switches it off; then only a file `.toggle-1` in
   a more specific folder switches it on again. In one folder the one that changes something
   counts.

The module imports nothing of the framework and nothing of the other rooms. Source: the
framework's `determined_toggle_from_paths`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

OFF: Final = ".toggle-0"
ON: Final = ".toggle-1"


class Toggle(NamedTuple):
    """Whether a plugin is switched on.

    Attributes:
        is_on: it is.
        off: the files that switch it off; without all of them it is on.
        overruled: files that would switch it off, each with the file that overrules it.
    """

    is_on: bool
    off: tuple[Path, ...] = ()
    overruled: tuple[tuple[Path, Path], ...] = ()


def resolve(folders: Iterable[Path]) -> Toggle:
    """Follow the toggles through the folders of a plugin.

    Args:
        folders: each more specific than the one before it; they need not exist.

    Returns:
        Whether the plugin is on, and by which files.
    """
    off: list[Path] = []
    overruled: list[tuple[Path, Path]] = []
    for folder in folders:
        if off and os.path.exists(folder / ON):
            overruled += [(file, folder / ON) for file in off]
            off = []
        elif os.path.exists(folder / OFF):
            off.append(folder / OFF)
    return Toggle(not off, tuple(off), tuple(overruled))
