"""What a tool's definition is, as one digest.

A server may change what a tool says of itself, and what it wants to be told, without changing
its name or its URL. An operator who has read a definition can pin it.

Rules of this module:

1. A definition is what Agent Zero exposes to a model: `name`, `description`, `input_schema`.
   A tool's title, annotations, output schema, icons and metadata are not exposed, so they are
   no part of it.
2. Its canonical form is the JSON text of the object with exactly these three keys, in UTF-8:
   keys sorted by code point at every level; no white space; in texts only the quotation mark,
   the backslash and the characters below U+0020 escaped, those as \\b, \\t, \\n, \\f, \\r where
   that is possible and else as \\u00xx in lower case. What is not there is null. Numbers are
   written as Python's `repr` writes them: 1 and 1.0 are two forms, and 1e16 is 1e+16.
3. The digest is "sha256:" and the SHA-256 of that text, 64 hexadecimal digits in lower case.
4. What JSON cannot say (NaN, a lone surrogate) has no digest, and so equals no pin. Definitions
   are parsed JSON, so that every key is a text.
5. A definition of more than `MAX_CHARACTERS` has no digest either: each layer that pins looks at it
   four times for a call, five times after a preflight, while nothing else of the framework runs.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

DEFINITION_KEYS: Final = ("name", "description", "input_schema")
MAX_CHARACTERS: Final = 1_048_576  # of texts, keys and values together, each value at least one

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Made once: `json.dumps` with these options makes one for every definition.
_CANONICAL: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def canonical(tool: Mapping[str, Any]) -> bytes:
    """Return the canonical form of a tool's definition.

    Args:
        tool: the tool as the framework exposes it.

    Returns:
        The JSON text in UTF-8.

    Raises:
        TypeError, ValueError, RecursionError: something in it is no JSON.
    """
    text = _CANONICAL.encode({key: tool.get(key) for key in DEFINITION_KEYS})
    return text.encode("utf-8")


def digest(tool: Mapping[str, Any]) -> str:
    """Return the digest of a tool's definition.

    Args:
        tool: the tool as the framework exposes it.

    Returns:
        "sha256:" and 64 hexadecimal digits; "" for what is no JSON, or too large.
    """
    try:
        if _is_too_large([tool.get(key) for key in DEFINITION_KEYS]):
            return ""
        return f"sha256:{sha256(canonical(tool)).hexdigest()}"
    except (TypeError, ValueError, RecursionError):  # a lone surrogate is a ValueError, too
        return ""


def _is_too_large(value: Any) -> bool:
    """Whether a JSON value is larger than what gets a digest; looks at no more than that."""
    left, found = MAX_CHARACTERS, [value]
    while found:
        each = found.pop()
        left -= len(each) if isinstance(each, (str, list, dict)) else 1
        if isinstance(each, dict):
            left -= sum(map(len, each))
        if left < 0:
            return True
        if isinstance(each, dict):
            found += each.values()
        elif isinstance(each, list):
            found += each
    return False
