"""By which names may a model call a server's tool, where its provider allows no dot in a name?

Rules of this module:

1. The framework makes an alias of "server.tool": each run of other characters than ASCII
   letters, digits, - and _ becomes one _, those at both ends go, 52 characters stay, and _ and
   the first 8 hexadecimal digits of the name's SHA-1 follow. Where nothing stays, "a0_tool"
   stands for it.
2. Whether an alias is that of a tool that is known is certain. Of a tool that nobody knows the
   digest tells nothing, since some tool name gives any: `may_be_of` answers by what stands
   before it, and is true for exactly those aliases that a tool of the server could have.

The module imports nothing of the framework and nothing of the other rooms. Source: the
framework's `_native_tool_name`; the tests compare.
"""

from __future__ import annotations

import re
from hashlib import sha1
from typing import Final

MAX_STEM_CHARACTERS: Final = 52
EMPTY_STEM: Final = "a0_tool"

_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
_ALIAS = re.compile(r"[A-Za-z0-9_-]{1,52}_[0-9a-f]{8}")


def is_alias(name: str) -> bool:
    """Whether a name has the form of an alias; local tools may have it too."""
    return _ALIAS.fullmatch(name) is not None


def alias_of(qualified_name: str) -> str:
    """Return the alias of "server.tool"."""
    stem = _plain(qualified_name).strip("_")[:MAX_STEM_CHARACTERS]
    digest = sha1(qualified_name.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return f"{stem or EMPTY_STEM}_{digest[:8]}"


def may_be_of(alias: str, server: str) -> bool:
    """Whether some tool of a server could have an alias.

    Args:
        alias: a name for which `is_alias` holds.
        server: the normalised name of the server.
    """
    stem = alias[:-9]
    if stem.startswith("_") or (stem.endswith("_") and len(stem) < MAX_STEM_CHARACTERS):
        return False
    start = _plain(f"{server}.").lstrip("_")
    if not start:  # nothing of the server's name stays
        return True
    if stem == start.rstrip("_"):  # nothing of the tool's name stays
        return True
    is_longer = len(stem) > len(start) or len(start) >= MAX_STEM_CHARACTERS
    return is_longer and stem.startswith(start[:MAX_STEM_CHARACTERS])


def _plain(text: str) -> str:
    return _OTHERS.sub("_", text)
