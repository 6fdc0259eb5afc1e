"""What differs between the tools that were pinned and the tools that are there?

Rules of this module:

1. A pin is only a digest. It tells whether a definition is the pinned one, and, when only the
   name is another, that as well: with the old name the digest is the pinned one again. Which
   other field has changed it cannot tell.
2. A saved definition tells it, but only where its own digest is the pinned one. Any other saved
   definition is not what was pinned, and is not compared; nor is what is no JSON.
3. Values are compared in their canonical form, as `pins` states it: 1, 1.0 and true differ.
4. Everything is bounded: paths into a schema, and the pairs tried for a new name.

The module imports nothing of the framework.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ...binding.pins import DEFINITION_KEYS, canonical, digest

MAX_PATHS: Final = 20
MAX_PAIRS: Final = 400  # of a tool that is gone and one that is new

# How the canonical form of a definition without a name ends, and how one of a name alone begins.
_NO_NAME: Final = b"null}"
_NO_MORE_THAN_NAME: Final = canonical({}).removesuffix(_NO_NAME)

Definition = Mapping[str, Any]


class State(StrEnum):
    """What has become of one tool."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    RENAMED = "renamed"
    NEW = "new"
    GONE = "gone"
    AMBIGUOUS = "ambiguous"


class SchemaPaths(NamedTuple):
    """Where two schemas differ, as JSON pointers (RFC 6901), at most `MAX_PATHS` in all.

    Attributes:
        added, removed, changed: the paths.
        further: how many more there are.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    further: int


class Difference(NamedTuple):
    """What has become of one tool.

    Attributes:
        tool: its name; of a renamed one the new name.
        state: what has become of it.
        fields: which parts of the definition differ; None where that cannot be told.
        was: the pinned definition, where it is known and differs.
        now: the definition that is there, where it differs.
        old_name: of a renamed one the pinned name.
    """

    tool: str
    state: State
    fields: tuple[str, ...] | None = ()
    was: Definition | None = None
    now: Definition | None = None
    old_name: str | None = None

    @property
    def schema_paths(self) -> SchemaPaths | None:
        """Where the schemas differ; None where they do not, or where that cannot be told."""
        if self.was is None or self.now is None or "input_schema" not in (self.fields or ()):
            return None
        return schema_paths(self.was["input_schema"], self.now["input_schema"])


def compare(
    pins: Mapping[str, str], tools: Sequence[Definition], saved: Mapping[str, Definition]
) -> list[Difference]:
    """Hold the tools that are there against the pinned ones.

    Args:
        pins: digest by tool name.
        tools: the tools that are there; two may have one name.
        saved: definitions from before, by name.

    Returns:
        A difference for every tool, pinned or there, in the order of their names.
    """
    counts = Counter(tool["name"] for tool in tools)
    there = {tool["name"]: tool for tool in tools}
    renamed = _renamed(
        {name: pin for name, pin in pins.items() if name not in there},
        [tool for name, tool in there.items() if name not in pins and counts[name] == 1],
    )
    found = []
    for name in sorted({*pins, *there} - set(renamed.values())):
        if counts[name] > 1:
            found.append(Difference(name, State.AMBIGUOUS))
        elif name not in there:
            found.append(Difference(name, State.GONE))
        elif name in renamed:
            found.append(Difference(name, State.RENAMED, ("name",), old_name=renamed[name]))
        elif name not in pins:
            found.append(Difference(name, State.NEW))
        else:
            found.append(_compare_one(pins[name], there[name], saved.get(name)))
    return found


def _compare_one(pin: str, now: Definition, saved: Definition | None) -> Difference:
    if pin and digest(now) == pin:  # what is no JSON has no digest, and equals nothing
        return Difference(now["name"], State.UNCHANGED)
    if saved is None or digest(saved) != pin or not digest(now):
        return Difference(now["name"], State.CHANGED, None, now=now)
    fields = tuple(key for key in DEFINITION_KEYS if not _same(saved.get(key), now.get(key)))
    return Difference(now["name"], State.CHANGED, fields, saved, now)


def _renamed(gone: Mapping[str, str], new: Sequence[Definition]) -> dict[str, str]:
    """Return the old name by the new one, of the tools that differ in nothing else."""
    if len(gone) * len(new) > MAX_PAIRS:
        return {}
    found: dict[str, str] = {}
    for tool in new:
        unnamed = _Unnamed(tool)
        for name, pin in gone.items():
            if pin and name not in found.values() and unnamed.digest(name) == pin:
                found[tool["name"]] = name
                break
    return found


class _Unnamed:
    """A definition without its name: it may be large, so it is digested once for all names."""

    def __init__(self, tool: Definition) -> None:
        self._begun = None
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # it is no JSON
            text = canonical({**tool, "name": None})  # where the name comes last
            self._begun = sha256(text.removesuffix(_NO_NAME))

    def digest(self, name: str) -> str:
        """Return the digest that the definition has with a name; "" where that is no JSON."""
        try:
            rest = canonical({"name": name}).removeprefix(_NO_MORE_THAN_NAME)
        except ValueError:  # a lone surrogate
            return ""
        if self._begun is None:
            return ""
        whole = self._begun.copy()
        whole.update(rest)
        return f"sha256:{whole.hexdigest()}"


def _same(one: Any, other: Any) -> bool:
    return canonical({"input_schema": one}) == canonical({"input_schema": other})


def schema_paths(was: Any, now: Any) -> SchemaPaths:
    """Find where two schemas differ.

    Args:
        was, now: two JSON values.

    Returns:
        The paths.
    """
    found: dict[str, list[str]] = {"added": [], "removed": [], "changed": []}
    count = 0
    for kind, steps in _walk(was, now):
        count += 1
        if count <= MAX_PATHS:
            found[kind].append(_pointer(steps))
    return SchemaPaths(
        tuple(found["added"]),
        tuple(found["removed"]),
        tuple(found["changed"]),
        max(0, count - MAX_PATHS),
    )


# The last step of a path after those before it; written out only where it is shown.
Steps = tuple[Any, Any] | None


def _walk(was: Any, now: Any) -> Iterator[tuple[str, Steps]]:
    """Return each difference as its kind and path, without recursion: a saved file may be deep."""
    pending: deque[tuple[Steps, Any, Any]] = deque([(None, was, now)])
    while pending:
        steps, one, other = pending.popleft()
        ones, others = _members(one), _members(other)
        if ones is None or others is None or type(one) is not type(other):
            if ones is not None or others is not None or json.dumps(one) != json.dumps(other):
                yield "changed", steps
            continue
        for key in [*ones, *(key for key in others if key not in ones)]:
            if key not in others:
                yield "removed", (steps, key)
            elif key not in ones:
                yield "added", (steps, key)
            else:
                pending.append(((steps, key), ones[key], others[key]))


def _pointer(steps: Steps) -> str:
    parts: list[str] = []
    while steps is not None:
        steps, key = steps
        parts.append("/" + str(key).replace("~", "~0").replace("/", "~1"))
    return "".join(reversed(parts))


def _members(value: Any) -> Mapping[Any, Any] | None:
    """Return the parts of an object or a list by key or index; None for any other value."""
    if isinstance(value, dict):
        return value
    return dict(enumerate(value)) if isinstance(value, list) else None


def read_saved(output: object, server: str) -> dict[str, Definition] | None:
    """Read the definitions that an earlier `pin NAME --json` gave.

    Args:
        output: the parsed JSON text.
        server: the normalised name of the server.

    Returns:
        The definitions by name, without those whose name is there twice; None where it is no
        such output, or one of another server.
    """
    if not isinstance(output, dict) or output.get("server") != server:
        return None
    listed = output.get("definitions")
    if not isinstance(listed, list) or not all(_is_definition(each) for each in listed):
        return None
    counts = Counter(each["name"] for each in listed)
    return {each["name"]: each for each in listed if counts[each["name"]] == 1}


def _is_definition(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == set(DEFINITION_KEYS)
        and isinstance(value["name"], str)
        and isinstance(value["description"], str | None)
    )
