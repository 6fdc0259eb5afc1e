"""What `pin` has to say of the tools that are there: lines for a person, data for a program.

Rules of this module:

1. The entry for `protected_servers` is one JSON text, its names sorted, in ASCII, and comes
   last: whoever copies it has seen what differs. It keeps what the entry has besides pins.
2. Names, descriptions and schemas are the server's words. For a person they are quoted, cut to
   size where they are not to be approved whole, and every control character is visible.
3. What cannot be pinned is left out of the entry, and that is said.

The module imports nothing of the framework.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...binding.pins import digest
from ...untrusted import visible
from ..shared.output import Exit, Output, cut, quoted, table
from .difference import Definition, Difference, State

if TYPE_CHECKING:
    from ..shared.mcp_settings import McpServer
    from .catalogue import Catalogue

MAX_PATH_CHARACTERS: Final = 120
MAX_DESCRIPTION_CHARACTERS: Final = 400
SHARED_CHARACTERS: Final = 40  # shown before the first difference

NOT_TOLD: Final = (
    "A pin is only a digest: which field of a changed tool differs is told by --against FILE, "
    "where FILE is the output of pin NAME --json from when it was pinned."
)
NOT_SAVED: Final = (
    "Where it is not known what a changed tool differs in, FILE does not hold the definition that "
    "is pinned."
)


class Comparison(NamedTuple):
    """What differs from one table of pins.

    Attributes:
        label: whose pins they are: selected, floor, or saved for those of a file.
        file: the settings file; None for a saved one.
        differences: one for every tool.
        has_saved: there was a saved file to tell the fields.
    """

    label: str
    file: str | None
    differences: Sequence[Difference]
    has_saved: bool

    @property
    def is_clean(self) -> bool:
        return all(each.state is State.UNCHANGED for each in self.differences)


class _Pins(NamedTuple):
    """The digests by name, and the names that have none."""

    digests: Mapping[str, str]
    ambiguous: list[str]
    not_json: list[str]


def report(
    server: McpServer,
    catalogue: Catalogue,
    comparisons: Sequence[Comparison],
    *,
    others: Mapping[str, Any],
    with_definitions: bool,
) -> Output:
    """Say which tools there are, and what differs.

    Args:
        server: the server that named them.
        catalogue: what it named.
        comparisons: what that was compared with.
        others: what the server's entry has besides its URL and its pins.
        with_definitions: show a person the definitions as well.

    Returns:
        The output: fine, or refused where something differs.
    """
    pins = _pins(catalogue.tools)
    entry = {server.normalized: {"url": server.url, "tools": pins.digests, **others}}
    lines = [
        f"server  {visible(server.normalized)}",
        f"tools   {len(catalogue.tools)}",
        *_notes(catalogue, pins),
    ]
    lines += [] if comparisons else ["pins    none in the settings in force"]
    for comparison in comparisons:
        lines += ["", *_comparison(comparison)]
    if with_definitions:
        lines += [line for tool in _by_name(catalogue.tools) for line in ("", *_definition(tool))]
    lines += ["", "What is there now, for protected_servers; paste it only once you approve of it:"]
    lines += ["", *json.dumps(entry, indent=2).splitlines()]
    is_clean = all(comparison.is_clean for comparison in comparisons)
    return Output(
        Exit.FINE if is_clean else Exit.REFUSED,
        lines,
        {
            "server": server.normalized,
            "protected_servers": entry,
            "ambiguous": pins.ambiguous,
            "not_json": pins.not_json,
            "has_more": catalogue.has_more,
            "compared": [_comparison_data(comparison) for comparison in comparisons],
            "definitions": [dict(tool) for tool in _by_name(catalogue.tools) if digest(tool)],
        },
    )


def _by_name(tools: Sequence[Definition]) -> list[Definition]:
    return sorted(tools, key=lambda tool: str(tool["name"]))


def _pins(tools: Sequence[Definition]) -> _Pins:
    counts = Counter(tool["name"] for tool in tools)
    digests = {tool["name"]: digest(tool) for tool in _by_name(tools)}
    ambiguous = [name for name in digests if counts[name] > 1]
    not_json = [name for name, found in digests.items() if not found and counts[name] == 1]
    usable = {name: found for name, found in digests.items() if found and counts[name] == 1}
    return _Pins(usable, ambiguous, not_json)


def _notes(catalogue: Catalogue, pins: _Pins) -> list[str]:
    lines = []
    if not catalogue.tools:
        lines.append("The server exposes no tool, and an empty table refuses every tool.")
    for name in pins.ambiguous:
        lines.append(f"{quoted(name)} cannot be pinned: more than one tool has this name")
    for name in pins.not_json:
        why = "its definition is no JSON, or too large"
        lines.append(f"{quoted(name)} cannot be pinned: {why}")
    if catalogue.has_more:
        lines.append("The server has further tools on a next page, which Agent Zero does not read.")
    return lines


def _comparison(comparison: Comparison) -> list[str]:
    pinned_by = f"{comparison.label} settings, {comparison.file}"
    lines = [f"Compared with {pinned_by if comparison.file else 'the saved file'}:"]
    rows = [(quoted(each.tool), each.state.value, _what(each)) for each in comparison.differences]
    lines += table(("tool", "state", "differs in"), rows)
    for each in comparison.differences:
        lines += _details(each)
    if any(each.fields is None for each in comparison.differences):
        lines.append(NOT_SAVED if comparison.has_saved else NOT_TOLD)
    return lines


def _what(difference: Difference) -> str:
    if difference.old_name is not None:
        return f"name only; was {quoted(difference.old_name)}"
    return "not known" if difference.fields is None else ", ".join(difference.fields)


def _details(difference: Difference) -> list[str]:
    was, now, lines = difference.was, difference.now, []
    if was is None or now is None:
        return []
    if "description" in (difference.fields or ()):
        start = _first_difference(was["description"], now["description"])
        lines.append(
            f"  {quoted(difference.tool)} description (untrusted), from character {start}:"
        )
        lines.append(f"    was {_excerpt(was['description'], start)}")
        lines.append(f"    is  {_excerpt(now['description'], start)}")
    paths = difference.schema_paths
    if paths is not None:
        lines.append(f"  {quoted(difference.tool)} input_schema (untrusted):")
        for kind in ("added", "removed", "changed"):
            lines += [
                f"    {kind:<7} {cut(path, MAX_PATH_CHARACTERS)}" for path in getattr(paths, kind)
            ]
        lines += [f"    and {paths.further} more"] * bool(paths.further)
    return lines


def _first_difference(was: str | None, now: str | None) -> int:
    """Return where to begin: a little before the first character that differs."""
    one, other = was or "", now or ""
    pairs = zip(one, other, strict=False)
    shared = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    return max(0, shared - SHARED_CHARACTERS)


def _excerpt(text: str | None, start: int) -> str:
    return "none" if text is None else quoted(text[start:], MAX_DESCRIPTION_CHARACTERS)


def _definition(tool: Definition) -> list[str]:
    """Show a definition whole: it is to be read before it is approved."""
    description = tool["description"]
    schema = "no JSON"
    if digest(tool):
        text = json.dumps(tool["input_schema"], ensure_ascii=False, sort_keys=True)
        schema = "".join(each if each == "\\" else visible(each) for each in text)
    return [
        f"tool {quoted(tool['name'], len(tool['name']))} (untrusted: the server's words)",
        f"  description  {'none' if description is None else quoted(description, len(description))}",
        f"  schema       {schema}",
    ]


def _comparison_data(comparison: Comparison) -> dict[str, Any]:
    return {
        "with": comparison.label,
        "file": comparison.file,
        "tools": [_difference_data(each) for each in comparison.differences],
    }


def _difference_data(difference: Difference) -> dict[str, Any]:
    paths = difference.schema_paths
    was = difference.was if "description" in (difference.fields or ()) else None
    return {
        "tool": difference.tool,
        "state": difference.state.value,
        "fields": None if difference.fields is None else list(difference.fields),
        "old_name": difference.old_name,
        "old_description": was["description"] if was else None,
        "schema_paths": None if paths is None else paths._asdict(),
    }
