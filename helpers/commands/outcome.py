"""What a command has to say: an exit code, lines for a person, data for a program.

Rules of this module:

1. A command returns one `Outcome` and prints nothing itself, but for the one line on standard
   error that says to whom a URL is about to go.
2. Text that is not ours (names of tools, what a server or the service said) is shown with
   every control character made visible: a terminal obeys what it is shown.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple


class Exit(IntEnum):
    """The exit codes."""

    FINE = 0
    USAGE = 2
    REFUSED = 10
    NO_EVIDENCE = 11
    CONFIGURATION = 12


class Outcome(NamedTuple):
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


def visible(text: str) -> str:
    """Show a text with nothing in it that a terminal or a reader could take for more.

    Args:
        text: any text; a lone surrogate may be in it.

    Returns:
        One line. Control, format, surrogate, private and unassigned characters and line
        separators are written as escapes, a backslash is doubled.
    """
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character == " " or unicodedata.category(character)[0] not in "CZ":
        return character
    return character.encode("unicode_escape").decode("ascii")
