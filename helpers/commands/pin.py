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
   A name that two tools have, and a definition that is no JSON, cannot be pinned.
3. All that the server says is data: shown with control characters visible, and bounded.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..binding import View
from ..configuration import Approval, Configuration
from ..demands import Demand
from ..judgement import Judgement
from ..pins import digest
from ..places import Place, normalize_name, read_json
from ..reasons import Reason
from ..untrusted import visible
from . import network, pinned
from .difference import Definition, compare, read_saved
from .mcp_settings import McpServer, McpSettings, read_mcp_settings
from .outcome import Exit, Outcome
from .pinned import Comparison
from .protecting import claims_for, not_read, not_valid

if TYPE_CHECKING:
    from ..evaluation import Claim

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


def run(arguments: argparse.Namespace) -> Outcome:
    """Let a server name its tools and compare them with what is pinned.

    Args:
        arguments: `place`, `name`, `definitions`, and `against`, a path or None.

    Returns:
        The outcome: fine, something differs or the server is refused, the server could not be
        asked, or a configuration problem.
    """
    place, name = arguments.place, normalize_name(arguments.name)
    saved = None if arguments.against is None else _read_saved(arguments.against, name)
    if isinstance(saved, Outcome):
        return saved
    settings = read_mcp_settings(place)
    if settings.unreadable:
        return not_read(place, settings.unreadable)
    claims = _claims(place, settings, name)
    if isinstance(claims, Outcome):
        return claims
    refusal = _refusal(claims)
    if refusal is not None:
        return refusal
    return _ask(arguments, settings.live(name)[0], claims, saved)


def _claims(place: Place, settings: McpSettings, name: str) -> list[Claim] | Outcome:
    """Give what the connection must satisfy; for a server that nothing protects, its own URL."""
    from ..evaluation import Claim

    view, demands = settings.view(name), place.demands()
    claims = claims_for(demands, view)
    if isinstance(claims, Demand):
        return not_valid(place, claims)
    if reason := _unusable(view):
        data = {"reason": reason.value, "server": name}
        return Outcome(Exit.REFUSED, _reason_lines(visible(name), reason), data)
    if not claims:
        in_force = demands[0]
        assert isinstance(in_force.settings, Configuration)  # else it was said above
        approval = Approval(name, view.servers[0].url)
        claims = [Claim(in_force.source, in_force.settings, approval, view)]
    return claims


def _unusable(view: View) -> Reason | None:
    if not view.servers:
        return Reason.SERVER_NOT_CONFIGURED
    if len(view.servers) > 1:
        return Reason.SERVER_AMBIGUOUS
    return None if view.servers[0].is_remote else Reason.SERVER_NOT_REMOTE


def _refusal(claims: Sequence[Claim]) -> Outcome | None:
    """Give what the screen or the binding says against the server, pins left aside."""
    from ..evaluation import clear

    for claim in claims:
        found = clear(claim._replace(approval=claim.approval._replace(pins=None)))
        if isinstance(found, Judgement):
            assert found.reason is not None
            lines = _reason_lines(visible(claim.view.server), found.reason)
            sub_reason = found.sub_reason
            if sub_reason is not None:
                lines.insert(1, f"{sub_reason.value}: {sub_reason.sentence}")
            data = {
                "reason": found.reason.value,
                "sub_reason": sub_reason.value if sub_reason else None,
                "refused_by": claim.source.value,
                "server": claim.view.server,
            }
            return Outcome(Exit.REFUSED, lines, data)
    return None


def _reason_lines(subject: str, reason: Reason) -> list[str]:
    return [f"{subject}: {reason.value}: {reason.sentence}", f"What to do: {reason.remedy}"]


def _ask(
    arguments: argparse.Namespace,
    server: McpServer,
    claims: Sequence[Claim],
    saved: Mapping[str, Definition] | None,
) -> Outcome:
    from .catalogue import NoCatalogue, list_tools

    network.announce(f"connects to {server.url}")
    try:
        catalogue = list_tools(server, _seconds(arguments.place, server))
    except NoCatalogue as failed:
        failure, status = failed.failure, failed.status
    else:
        comparisons = _comparisons(arguments.place, claims, catalogue.tools, saved)
        return pinned.outcome(
            server, catalogue, comparisons, with_definitions=arguments.definitions
        )
    shown = failure.value if status is None else f"{failure.value} {status}"
    lines = [f"{visible(server.normalized)}: {shown}: {failure.sentence}"]
    data = {"error": failure.value, "status": status, "server": server.normalized}
    return Outcome(Exit.NO_EVIDENCE, lines, data)


def _comparisons(
    place: Place,
    claims: Sequence[Claim],
    tools: Sequence[Definition],
    saved: Mapping[str, Definition] | None,
) -> list[Comparison]:
    """Compare with every table of pins in force, or else with what was saved."""
    found = [
        Comparison(
            claim.source.value,
            place.shown(place.file_of(claim.source).path),
            compare(claim.approval.pins, tools, saved or {}),
            saved is not None,
        )
        for claim in claims
        if claim.approval.pins is not None
    ]
    if not found and saved is not None:
        pins = {name: digest(definition) for name, definition in saved.items()}
        found.append(Comparison("saved", None, compare(pins, tools, saved), True))
    return found


def _seconds(place: Place, server: McpServer) -> float:
    """Give the deadline: the server's own, or the settings', or the default one."""
    settings = read_json(place.root / "usr" / "settings.json")
    everywhere = settings.get("mcp_client_init_timeout") if isinstance(settings, dict) else None
    for value in (server.raw.get("init_timeout"), everywhere):
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(min(value, MAX_INIT_SECONDS))
    return INIT_SECONDS


def _read_saved(path: str, name: str) -> dict[str, Definition] | Outcome:
    """Read the definitions of an earlier output; a name that is there twice tells nothing."""
    saved = read_saved(read_json(Path(path)), name)
    if saved is not None:
        return saved
    lines = [f"--against: the file is no output of pin {visible(name)} --json"]
    return Outcome(Exit.CONFIGURATION, lines, {"error": "against_unusable", "server": name})
