"""`pin`: the digests of every tool that a server exposes now, and what differs from the pins.

A pin is only a digest, so it does not tell what was pinned. Therefore `--json` also gives the
definitions themselves: kept in a file when they are approved, they are what `--against` compares
with, field by field. Without such a file `pin` says which tools differ, not in what.

    pin tools                            digests, and which tools differ from the pins in force
    pin tools --definitions              the definitions as well, to be read before they are pinned
    pin tools --json > tools.json        the same as data, to be kept
    pin tools --against tools.json       what has changed since then, field by field

Rules of this module:

1. It connects to a server that the gate would let pass as far as that needs no evidence: one
   live remote server of that name, its URL screened and, where it is protected, the approved
   one, TLS verified, no header that names another host. Then it says to whom it connects.
2. The digests are those that the gate computes, over what Agent Zero exposes (see `catalogue`).
   A name that two tools have cannot be pinned, nor a definition that is no JSON or too
   large (see `pins`).
3. All that the server says is data: shown with control characters visible, and bounded.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...binding.approval import Approval
from ...binding.pins import digest
from ...binding.view import View
from ...judgement import Judgement
from ...reasons import Reason
from ...settings.configuration import Configuration
from ...settings.files import read_json
from ...settings.in_force import Layer
from ...settings.locations import Locations, normalize_name
from ...untrusted import visible
from ..shared import network
from ..shared.in_effect import entries_of
from ..shared.mcp_settings import McpServer, McpSettings, read_mcp_settings
from ..shared.output import Exit, Output
from ..shared.protection import not_read, not_valid, protections_for
from . import output
from .difference import Definition, compare, read_saved
from .output import Comparison

if TYPE_CHECKING:
    from ...evaluation import Protection

HELP = "print the digests of a server's tools, and what differs from those that are pinned"
EXAMPLE = "pin tools --against tools.json"
INIT_SECONDS: Final = 10.0  # the framework's own default
MAX_INIT_SECONDS: Final = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run` reads.

    Args:
        parser: the command's own parser.
    """
    parser.add_argument("name", metavar="NAME", help="an MCP server of the settings")
    parser.add_argument(
        "--definitions", action="store_true", help="print the definitions too, to be read"
    )
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="say field by field what differs from FILE, an earlier output of pin NAME --json",
    )


def run(arguments: argparse.Namespace) -> Output:
    """Let a server name its tools and compare them with what is pinned.

    Args:
        arguments: `locations`, `name`, `definitions`, and `against`, a path or None.

    Returns:
        The output: fine, something differs or the server is refused, the server could not be
        asked, or a configuration problem.
    """
    locations, name = arguments.locations, normalize_name(arguments.name)
    saved = None if arguments.against is None else _read_saved(arguments.against, name)
    if isinstance(saved, Output):
        return saved
    settings = read_mcp_settings(locations)
    if settings.unreadable:
        return not_read(locations, settings.unreadable)
    protections = _protections(locations, settings, name)
    if isinstance(protections, Output):
        return protections
    refusal = _refusal(protections)
    if refusal is not None:
        return refusal
    return _ask(arguments, settings.live(name)[0], protections, saved)


def _protections(locations: Locations, mcp: McpSettings, name: str) -> list[Protection] | Output:
    """Return what the connection must satisfy; for a server that nothing protects, its own URL."""
    from ...evaluation import Protection

    view, layers = mcp.view(name), locations.layers()
    protections = protections_for(layers, view)
    if isinstance(protections, Layer):
        return not_valid(locations, protections)
    if reason := _unusable(view):
        data = {"reason": reason.value, "server": name}
        return Output(Exit.REFUSED, _reason_lines(visible(name), reason), data)
    if not protections:
        source, settings = layers[0]
        assert isinstance(settings, Configuration)  # else it was said above
        approval = Approval(name, view.servers[0].url)
        protections = [Protection(source, settings, approval, view)]
    return protections


def _unusable(view: View) -> Reason | None:
    if not view.servers:
        return Reason.SERVER_NOT_CONFIGURED
    if len(view.servers) > 1:
        return Reason.SERVER_AMBIGUOUS
    return None if view.servers[0].is_remote else Reason.SERVER_NOT_REMOTE


def _refusal(protections: Sequence[Protection]) -> Output | None:
    """Return what the screen or the binding says against the server, pins left aside."""
    from ...evaluation import precheck_all

    unpinned = [each._replace(approval=each.approval._replace(pins=None)) for each in protections]
    found = precheck_all(unpinned)
    if not isinstance(found, Judgement):
        return None
    assert found.reason is not None and found.source is not None
    server, sub_reason = protections[0].view.server, found.sub_reason
    lines = _reason_lines(visible(server), found.reason)
    if sub_reason is not None:
        lines.insert(1, f"{sub_reason.value}: {sub_reason.sentence}")
    data = {
        "reason": found.reason.value,
        "sub_reason": sub_reason.value if sub_reason else None,
        "refused_by": found.source.value,
        "server": server,
    }
    return Output(Exit.REFUSED, lines, data)


def _reason_lines(subject: str, reason: Reason) -> list[str]:
    return [f"{subject}: {reason.value}: {reason.sentence}", f"What to do: {reason.remedy}"]


def _ask(
    arguments: argparse.Namespace,
    server: McpServer,
    protections: Sequence[Protection],
    saved: Mapping[str, Definition] | None,
) -> Output:
    from .catalogue import NoCatalogue, list_tools

    network.announce(f"connects to {server.url}")
    try:
        catalogue = list_tools(server, _seconds(arguments.locations, server))
    except NoCatalogue as failed:
        why, status = failed.why, failed.status
    else:
        comparisons = _comparisons(arguments.locations, protections, catalogue.tools, saved)
        return output.report(
            server,
            catalogue,
            comparisons,
            others=_others(arguments.locations, protections[0]),
            with_definitions=arguments.definitions,
        )
    shown = why.value if status is None else f"{why.value} {status}"
    lines = [f"{visible(server.normalized)}: {shown}: {why.sentence}"]
    data = {"error": why.value, "status": status, "server": server.normalized}
    return Output(Exit.NO_EVIDENCE, lines, data)


def _comparisons(
    locations: Locations,
    protections: Sequence[Protection],
    tools: Sequence[Definition],
    saved: Mapping[str, Definition] | None,
) -> list[Comparison]:
    """Compare with every table of pins in force, or else with what was saved."""
    found = [
        Comparison(
            protection.source.value,
            locations.shown(locations.file_of(protection.source).path),
            compare(protection.approval.pins, tools, saved or {}),
            saved is not None,
        )
        for protection in protections
        if protection.approval.pins is not None
    ]
    if not found and saved is not None:
        pins = {name: digest(definition) for name, definition in saved.items()}
        found.append(Comparison("saved", None, compare(pins, tools, saved), True))
    return found


def _others(locations: Locations, protection: Protection) -> dict[str, Any]:
    """Return what the server's entry has besides its URL and its pins, as it is written."""
    raw = locations.file_of(protection.source).read()
    entry = entries_of(raw).get(protection.approval.name, {})
    return {key: value for key, value in entry.items() if key not in ("url", "tools")}


def _seconds(locations: Locations, server: McpServer) -> float:
    """Return the deadline: the server's own, or the settings', or the default one."""
    settings = read_json(locations.root / "usr" / "settings.json")
    everywhere = settings.get("mcp_client_init_timeout") if isinstance(settings, dict) else None
    for value in (server.raw.get("init_timeout"), everywhere):
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(min(value, MAX_INIT_SECONDS))
    return INIT_SECONDS


def _read_saved(path: str, name: str) -> dict[str, Definition] | Output:
    """Read the definitions of an earlier output; a name that is there twice tells nothing."""
    saved = read_saved(read_json(Path(path)), name)
    if saved is not None:
        return saved
    lines = [f"--against: the file is no output of pin {visible(name)} --json"]
    return Output(Exit.CONFIGURATION, lines, {"error": "against_unusable", "server": name})
