"""Where two URLs differ.

Rules of this module:

1. Any text may be compared; it is taken apart as RFC 3986 (appendix B) does, and not otherwise
   changed.
2. A part that differs only in upper and lower case is named as that.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import re
from enum import StrEnum

_PARTS = re.compile(
    r"(?s)([^:/?#]*)://(?:([^/?#]*)@)?([^/?#]*?)(?::([0-9]*))?([/][^?#]*)?([?#].*)?"
)


class Difference(StrEnum):
    """A part of a URL; the value is what it is called."""

    SPACE = "white space"
    SCHEME = "scheme"
    USER = "user part"
    HOST = "host"
    HOST_CASE = "upper and lower case of the host"
    PORT = "port"
    PATH = "path"
    PATH_CASE = "upper and lower case of the path"
    SLASH = "slash at the end"
    TAIL = "what follows a ? or #"
    UNCLEAR = "one of them is no URL"


def differences(one: str, other: str) -> list[Difference]:
    """Return where two URLs differ.

    Args:
        one, other: the URLs; not the same.

    Returns:
        Every part that differs, in the order of a URL; at least one.
    """
    if "".join(one.split()) == "".join(other.split()):
        return [Difference.SPACE]
    parts, others = _PARTS.fullmatch(one), _PARTS.fullmatch(other)
    if parts is None or others is None:
        return [Difference.UNCLEAR]
    pairs = list(zip(parts.groups(default=""), others.groups(default=""), strict=True))
    scheme, user, host, port, path, tail = pairs
    return [
        *([Difference.SCHEME] if scheme[0] != scheme[1] else []),
        *([Difference.USER] if user[0] != user[1] else []),
        *_with_case(host, Difference.HOST, Difference.HOST_CASE),
        *([Difference.PORT] if port[0] != port[1] else []),
        *_of_path(*path),
        *([Difference.TAIL] if tail[0] != tail[1] else []),
    ]


def _of_path(one: str, other: str) -> list[Difference]:
    bare = one.removesuffix("/"), other.removesuffix("/")
    found = _with_case(bare, Difference.PATH, Difference.PATH_CASE)
    if one.endswith("/") != other.endswith("/") and found != [Difference.PATH]:
        found.append(Difference.SLASH)
    return found


def _with_case(
    pair: tuple[str, str], otherwise: Difference, in_case: Difference
) -> list[Difference]:
    if pair[0] == pair[1]:
        return []
    return [in_case if pair[0].casefold() == pair[1].casefold() else otherwise]
