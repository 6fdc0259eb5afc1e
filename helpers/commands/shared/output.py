"""What a command has to say: an exit code, lines for a person, data for a program.

Rules of this module:

1. A command returns one `Outcome` and prints nothing itself, but for the one line on standard
   error that says to whom a URL is about to go.
2. Text that is not ours (names of tools, what a server or the service said, names of files) is
   shown as `visible` gives it: a terminal obeys what it is shown.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ...untrusted import visible

MAX_NAME_CHARACTERS: Final = 80


class Exit(IntEnum):
    """The exit codes."""

    FINE = 0
    USAGE = 2
    REFUSED = 10
    NO_EVIDENCE = 11
    CONFIGURATION = 12


class Output(NamedTuple):
    """What a command found.

    Attributes:
        exit: the exit code.
        lines: for a person.
        data: the same as plain JSON values, for `--json`.
    """

    exit: Exit
    lines: Sequence[str]
    data: dict[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lay out a table, its columns as wide as their widest cell.

    Args:
        header: a title for each column.
        rows: a cell for each column; whatever is not ours must have been made `visible`.

    Returns:
        The lines, the header first.
    """
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def quoted(text: str, characters: int = MAX_NAME_CHARACTERS) -> str:
    """Quote a text that may hold anything, made visible and cut to size.

    Args:
        text: any text.
        characters: how many to keep.

    Returns:
        The text in quotation marks, with none within them.
    """
    return '"{}"'.format(cut(text, characters).replace('"', "\\x22"))


def cut(text: str, characters: int) -> str:
    """Return a text made visible; where it was longer, "..." stands for the rest."""
    return visible(text[:characters]) + "..." * (len(text) > characters)
