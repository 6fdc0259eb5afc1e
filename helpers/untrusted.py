"""Remote text in a form that nothing can take for its own.

A marked text is ASCII, without quotation marks, cut to size, and never the start of a JSON
text: when a chat is deleted, the framework parses stored strings and acts on ids that it
finds. The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "untrusted: "
MAX_CHARACTERS: Final = 600


def untrusted(text: str, characters: int = MAX_CHARACTERS) -> str:
    """Mark, escape and cut a text.

    Args:
        text: any text; a lone surrogate may be in it.
        characters: how many to keep, the mark not counted.

    Returns:
        The text to keep.
    """
    escaped = text[:characters].encode("unicode_escape").decode("ascii")
    return MARK + escaped.replace('"', "\\x22")[:characters]
