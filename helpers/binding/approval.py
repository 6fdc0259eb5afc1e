"""What the operator approved for one server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Approval(NamedTuple):
    """What the operator approved for one server.

    Attributes:
        name: the normalised name of the server.
        url: its URL, byte for byte.
        pins: digest by tool name; None when the tools are not pinned.
    """

    name: str
    url: str
    pins: Mapping[str, str] | None = None
