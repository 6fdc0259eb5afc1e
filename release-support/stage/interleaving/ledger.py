"""What happened in one schedule, as seen from outside the gate.

The module imports nothing of the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a preflight service said of a URL: the status of the checks, as far as one is set."""

    origin: str
    url: str
    checks: Mapping[str, str]


class Delivery(NamedTuple):
    """Bytes of a call that a server got.

    Attributes:
        call: whose, from the arguments of the call.
        server: the name by which the host found the server.
        url: who got them.
        answers: how many answers the service had given before.
    """

    call: str
    server: str
    url: str
    answers: int


class Read(NamedTuple):
    """Settings that a call read.

    Attributes:
        raw: what the host returned; a text where it could not.
        answers: how many answers the service had given before.
    """

    raw: Any
    answers: int


@dataclass
class Ledger:
    """What happened in one schedule.

    Attributes:
        read: by call, the settings that it was judged by: those in force, those for everybody.
        answers: what the services said, in order.
        deliveries: who got bytes, in order.
        kept: by call, its records by id; a later one takes the place of an earlier one.
        shown: by call, the result that the model was shown.
    """

    read: dict[str, dict[str, Read]] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    kept: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
