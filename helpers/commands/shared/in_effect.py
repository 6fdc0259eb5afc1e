"""What is asked of the evidence for one server, and where each value comes from.

Rules of this module:

1. A value comes from the server's entry, from the top level of the same file, or from the
   defaults: from the first of these that has it. null has nothing.
2. For a program every value is given. For a person only what differs from the shipped default
   is spelled, once for all servers of which the same is to be said, within `MAX_COLUMNS`.

The values are those that the gate judges by; where they come from is read in the file again.
The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from textwrap import wrap
from typing import Any, Final, NamedTuple

from ...binding.approval import Approval
from ...requirements import Policy, Requirements
from ...settings.configuration import Configuration
from ...settings.in_force import Layer, Source
from ...settings.locations import Locations, normalize_name
from ...untrusted import visible

MAX_COLUMNS: Final = 80
_POLICY: Final = "policy"


class Origin(StrEnum):
    """Where a value comes from."""

    ENTRY = "entry"
    TOP_LEVEL = "top_level"
    DEFAULT = "default"


class Value(NamedTuple):
    """One setting in effect.

    Attributes:
        path: its key, below the entry or the top level.
        value: as JSON has it.
        origin: where it comes from.
        is_shipped: it is the shipped default, wherever it comes from.
    """

    path: str
    value: Any
    origin: Origin
    is_shipped: bool


class InEffect(NamedTuple):
    """What one layer asks of the evidence for one server.

    Attributes:
        server: the name of its entry.
        source: which layer.
        values: every setting that an entry may have of its own.
    """

    server: str
    source: Source
    values: Sequence[Value]


def in_effect_everywhere(locations: Locations, layers: Sequence[Layer]) -> list[InEffect]:
    """Return what is asked for every protected server.

    Args:
        locations: where the settings are.
        layers: those in force; what is not valid asks nothing.
    """
    return [
        each
        for layer in layers
        if isinstance(layer.settings, Configuration)
        for each in in_effect(
            locations, layer.source, layer.settings, layer.settings.protected_servers.values()
        )
    ]


def in_effect(
    locations: Locations, source: Source, settings: Configuration, approvals: Iterable[Approval]
) -> list[InEffect]:
    """Return what one layer asks for some servers.

    Args:
        locations: where the settings are.
        source: which layer.
        settings: the whole of it.
        approvals: by which it protects the servers.
    """
    raw = locations.file_of(source).read()
    top, entries = raw if isinstance(raw, dict) else {}, entries_of(raw)
    return [
        InEffect(
            approval.name,
            source,
            _values(
                approval.requirements or settings.requirements, entries.get(approval.name, {}), top
            ),
        )
        for approval in approvals
    ]


def entries_of(raw: object) -> dict[str, Mapping[str, Any]]:
    """Return what a file has in the objects of its servers, as it is written.

    Args:
        raw: what the file holds.

    Returns:
        The objects by normalised name; servers in the short form are left out.
    """
    servers = raw.get("protected_servers") if isinstance(raw, dict) else None
    return {
        normalize_name(str(name)): entry
        for name, entry in (servers.items() if isinstance(servers, dict) else ())
        if isinstance(entry, dict)
    }


def lines_of(found: Sequence[InEffect], *, with_source: bool) -> list[str]:
    """Return lines for a person, none where everything is as shipped.

    Args:
        found: what is in effect.
        with_source: say of which layer.
    """
    servers: dict[tuple[Source, tuple[str, ...]], list[str]] = {}
    for each in found:
        said = tuple(_line(value) for value in each.values if not value.is_shipped)
        if said:
            servers.setdefault((each.source, said), []).append(visible(each.server))
    lines = []
    for (source, said), names in servers.items():
        whose = ", ".join(name for name in names if name) or "any server"
        lines += _wrapped(f"policy of {whose}{f' ({source.value})' if with_source else ''}:")
        lines += [part for line in said for part in _wrapped(line)]
    return lines


def data_of(found: Sequence[InEffect]) -> list[dict[str, Any]]:
    """Return the same for a program, every value of it.

    Args:
        found: what is in effect.
    """
    return [
        {
            "server": each.server or None,
            "source": each.source.value,
            "settings": {
                value.path: {"value": value.value, "from": value.origin.value}
                for value in each.values
            },
        }
        for each in found
    ]


def _values(
    requirements: Requirements, entry: Mapping[str, Any], top: Mapping[str, Any]
) -> list[Value]:
    found = []
    for path, value in _flat(requirements).items():
        origin = Origin.DEFAULT
        if _has(entry, path):
            origin = Origin.ENTRY
        elif _has(top, path):
            origin = Origin.TOP_LEVEL
        found.append(Value(path, value, origin, value == _SHIPPED[path]))
    return found


def _has(raw: Mapping[str, Any], path: str) -> bool:
    """Whether there is a value, at the path of a key or of a key of `policy`."""
    section, _, key = path.rpartition(".")
    within = raw.get(section) if section else raw
    return isinstance(within, Mapping) and within.get(key) is not None


def _flat(requirements: Requirements) -> dict[str, Any]:
    """Return every value as JSON has it, by its path."""
    policy = {
        f"{_POLICY}.{each.name}": _plain(getattr(requirements.policy, each.name))
        for each in fields(Policy)
    }
    others = [each.name for each in fields(Requirements) if each.name != _POLICY]
    return policy | {name: _plain(getattr(requirements, name)) for name in others}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [each.value for each in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value.value if isinstance(value, StrEnum) else value


_SHIPPED: Final = _flat(Requirements())


def _line(value: Value) -> str:
    shown = value.value
    if isinstance(shown, list):
        shown = ", ".join(shown) or "none"
    elif isinstance(shown, bool):
        shown = "true" if shown else "false"
    return f"  {value.path.rpartition('.')[2]}: {shown} (from the {value.origin.replace('_', ' ')})"


def _wrapped(line: str) -> list[str]:
    return wrap(line, MAX_COLUMNS, subsequent_indent="    ", break_on_hyphens=False)
