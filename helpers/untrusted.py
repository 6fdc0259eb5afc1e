"""Escape remote text so that nothing downstream parses or trusts it.

A marked text is ASCII, without quotation marks, cut to size, and never the start of a JSON
text: when a chat is deleted, the framework parses stored strings and acts on ids that it
finds. A visible text has nothing in it that a terminal would obey or a reader could not see.
The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import unicodedata
from typing import Final

MARK: Final = "untrusted: "
MAX_CHARACTERS: Final = 600

# Letters, marks and symbols that show nothing (Unicode's Default_Ignorable_Code_Point outside of
# the category of format characters, and the blank Braille pattern): text can be hidden in them.
_BLANK: Final = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0000, 0xE1000),
        ),
    )
)


def untrusted(text: str, characters: int = MAX_CHARACTERS) -> str:
    """Mark, escape and cut a text.

    Args:
        text: any text; a lone surrogate may be in it.
        characters: how many to keep, the mark not counted.

    Returns:
        The text to keep.
    """
    escaped = text[:characters]
    if not (escaped.isascii() and escaped.isprintable() and "\\" not in escaped):
        escaped = escaped.encode("unicode_escape").decode("ascii")
    return MARK + escaped.replace('"', "\\x22")[:characters]


def visible(text: str) -> str:
    """Show a text with nothing in it that a terminal or a reader could take for more.

    Args:
        text: any text; a lone surrogate may be in it.

    Returns:
        One line. Control, format, surrogate, private and unassigned characters, blank ones but
        the space, and line separators are written as escapes; a backslash is doubled.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:  # nearly always, and quick
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character)[0] in "CZ" or character in _BLANK:
        return character.encode("unicode_escape").decode("ascii")  # a space stays one
    return character
