"""What the operator approved for one server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..requirements import Requirements


class Approval(NamedTuple):
    """What the operator approved for one server.

    Attributes:
        name: the normalised name of the server.
        url: its URL, byte for byte.
        pins: digest by tool name; None when the tools are not pinned.
        headers: the headers that it gets, folded (see `headers`); None for any.
        requirements: what is asked of its evidence; None for what the file asks of any.
    """

    name: str
    url: str
    pins: Mapping[str, str] | None = None
    headers: frozenset[str] | None = None
    requirements: Requirements | None = None
