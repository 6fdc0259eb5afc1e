"""Which settings must a call satisfy? The file in force, and the floor below it.

Rules of this module:

1. The framework's most specific file is in force, whole. A call must satisfy it.
2. `floor: true` in the global file keeps that file in force as well: a call must satisfy both,
   each with its own policy. Anywhere else `floor` is a problem.
3. If the global file is unreadable, not an object, has a `floor` that is neither true, false nor
   null, or has no `floor` but an unknown key (perhaps a misspelled one), it is treated as an invalid
   floor.
4. The global file alone decides who is told a URL. Every layer asks the service that the global
   file names, whatever its own file says; a private endpoint is told to it only where the global
   file permits that, too. While the global file is not valid, nobody is told: it is taken for a
   floor below all that the specific file protects.
5. A file that holds exactly what the global one holds is the global one.

The module imports nothing of the framework; its `normalize_name` is handed in.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ..binding.approval import Approval
from .configuration import Configuration
from .problems import InvalidConfiguration, Problem
from .reader import SETTINGS, parse

MAX_REMEMBERED: Final = 32  # pairs of files
MAX_REMEMBERED_BYTES: Final = 65_536  # of two files; what is read of them takes ten times that

# The form without references: equal bytes are equal values, of equal types, in equal order.
_EXACT: Final = 2


class Source(StrEnum):
    """Which file a layer is."""

    SELECTED = "selected"
    FLOOR = "floor"


class Layer(NamedTuple):
    """One file that a call must satisfy.

    Attributes:
        source: which one.
        settings: what it says, or what is wrong with it.
    """

    source: Source
    settings: Configuration | InvalidConfiguration

    @property
    def protected(self) -> Mapping[str, Approval] | None:
        """What is approved, by normalised name; None when nobody can tell."""
        return self.settings.protected_servers


# Stands for settings that are there and that the framework does not find, see `locations`.
MISREAD: Final = Layer(
    Source.SELECTED, InvalidConfiguration((("", Problem.TAKEN_FOR_PATTERN),), None)
)

# Stands for settings that nobody can look for, or that change as often as they are read.
UNREAD: Final = Layer(Source.SELECTED, InvalidConfiguration((("", Problem.UNREADABLE),), None))


def layers_in_force(
    selected: object, everywhere: object, *, normalize_name: Callable[[str], str]
) -> tuple[Layer, ...]:
    """Return the settings that a call must satisfy.

    Args:
        selected: what the most specific file holds, as parsed JSON or YAML, or `UNREADABLE`.
        everywhere: the same of the global file.
        normalize_name: the framework's normalisation of server names.

    Returns:
        The layer of the file in force, then that of the floor, if there is one.
    """
    files = _exact((selected, everywhere))
    if files is None or len(files) > MAX_REMEMBERED_BYTES:
        return _layers_in_force(selected, everywhere, normalize_name)
    return _remembered(files, normalize_name)


@lru_cache(maxsize=MAX_REMEMBERED)
def _remembered(files: bytes, normalize_name: Callable[[str], str]) -> tuple[Layer, ...]:
    """Return the layers of files read before. The framework hands them over anew for each call.

    Comparing them as bytes saves 20 us of a call, which the benchmark's target needs.
    """
    selected, everywhere = marshal.loads(files)
    return _layers_in_force(selected, everywhere, normalize_name)


def _layers_in_force(
    selected: object, everywhere: object, normalize_name: Callable[[str], str]
) -> tuple[Layer, ...]:
    exact = _exact(selected)
    if selected is everywhere or (exact is not None and exact == _exact(everywhere)):
        return (Layer(Source.SELECTED, _read(selected, normalize_name)),)
    specific = _read(selected, normalize_name, is_global=False)
    globally = _read(everywhere, normalize_name)
    has_floor = _may_have_floor(everywhere)
    if isinstance(globally, InvalidConfiguration):
        globally = _below(specific, globally, has_floor)
        has_floor = has_floor or bool(globally.protected_servers)
    elif isinstance(specific, Configuration):
        specific = _as_disclosed(specific, globally)
    layer = Layer(Source.SELECTED, specific)
    return (layer, Layer(Source.FLOOR, globally)) if has_floor else (layer,)


def _as_disclosed(specific: Configuration, globally: Configuration) -> Configuration:
    """Return what a specific file says, and the global one of who is told."""
    return replace(
        specific,
        fixture_guild_origin=globally.fixture_guild_origin,
        allow_private_hosts=specific.allow_private_hosts and globally.allow_private_hosts,
    )


def _below(
    specific: Configuration | InvalidConfiguration, globally: InvalidConfiguration, has_floor: bool
) -> InvalidConfiguration:
    """Return an invalid global file as one that protects what the specific file does, too."""
    protected = globally.protected_servers if has_floor else {}
    if protected is None:
        return globally
    both = dict(protected)
    for name, approval in (specific.protected_servers or {}).items():
        if both.setdefault(name, approval).url != approval.url:
            both[f"{name} (specific)"] = approval  # this URL is protected no less
    return InvalidConfiguration(globally.problems, MappingProxyType(both))


def _may_have_floor(everywhere: object) -> bool:
    """Whether the global file has a floor, or nobody can tell."""
    if not isinstance(everywhere, dict):
        return True
    if "floor" not in everywhere:
        return not SETTINGS.issuperset(everywhere)
    return everywhere["floor"] is not None and everywhere["floor"] is not False


def _read(
    raw: object, normalize_name: Callable[[str], str], **where: Any
) -> Configuration | InvalidConfiguration:
    try:
        return parse(raw, normalize_name=normalize_name, **where)
    except InvalidConfiguration as invalid:
        # It may be kept for long, and must keep nothing of the stack.
        invalid.__context__ = None
        return invalid.with_traceback(None)


def _exact(value: object) -> bytes | None:
    """Return bytes that are equal for equal values only; None where marshal knows none."""
    try:
        return marshal.dumps(value, _EXACT)  # type: ignore[arg-type]
    except ValueError:  # not of plain values only, or nested without end
        return None
