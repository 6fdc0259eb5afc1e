"""`check`: one preflight with the settings in force, and what the gate would make of it.

Rules of this module:

1. The judgement is that of `evaluation`, asked as the gate asks it: every layer prechecks the
   call before anything is sent, and the first that refuses decides. A layer that would decide
   after that one is undecided, here as there.
2. Tools are not looked at: which ones a server exposes is not known without connecting to it.
   So pins are left aside, but for an empty table, and the tool is taken to be there.
3. With `--url` the binding is left aside as well: the URL is judged as if every file in force
   approved it, and MCP settings had it with TLS verified and no headers. The policy is that of
   the entry of NAME, else of the entry with this URL, else of the file.
4. What the screen or the binding refuses is neither shown nor sent.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...binding.approval import Approval
from ...binding.comparison import classify
from ...binding.view import ServerView, View
from ...exceptions import unforeseen
from ...judgement import Judgement
from ...reasons import Reason
from ...settings.in_force import Layer
from ...settings.locations import Locations, normalize_name
from ...settings.problems import InvalidConfiguration
from ...untrusted import visible
from ..shared import network
from ..shared.findings import Found
from ..shared.mcp_settings import read_mcp_settings
from ..shared.obstacles import found_obstacles
from ..shared.output import Exit, Output
from ..shared.protection import not_read, not_valid, protected_names, protections_for
from . import output

if TYPE_CHECKING:
    from ...evaluation import Prechecked, Protection

HELP = "make one preflight now and say what the gate would decide"
EXAMPLE = "check tools"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run` reads.

    Args:
        parser: the command's own parser.
    """
    parser.add_argument("name", nargs="?", metavar="NAME", help="a protected MCP server")
    parser.add_argument(
        "--url",
        metavar="URL",
        help="a URL that is not configured yet: judged by every file in force, without the "
        "MCP settings; NAME then says whose policy",
    )
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace) -> Output:
    """Make one preflight and judge it.

    Args:
        arguments: `locations`, `name` and `url`, one of the last two at least.

    Returns:
        The output: fine when the gate would allow the call, refused, without evidence, or a
        configuration problem.

    Raises:
        SystemExit: there is neither a name nor a URL.
    """
    locations, name, url = arguments.locations, normalize_name(arguments.name or ""), arguments.url
    if not name and url is None:
        arguments.usage_error("name a server, or a URL with --url")
    if stopped := [found for found in found_obstacles(locations) if found.is_problem]:
        return _not_checked(stopped)
    layers = locations.layers()
    protections = (
        _protections_of_server(locations, layers, name)
        if url is None
        else _protections_of_url(locations, layers, name, url)
    )
    if isinstance(protections, Output):
        return protections
    judgement, milliseconds = _judge(protections)
    if not name:
        judgement = judgement._replace(server=None)
    return output.report(locations, layers, protections, judgement, milliseconds)


def _not_checked(found: Sequence[Found]) -> Output:
    """Say that the gate does not run, or may not: what it would decide says nothing of a call."""
    lines = [f"{one.subject}: {one.finding.sentence}" for one in found]
    lines.append(f"What to do: {found[0].finding.remedy}")
    data = [{"warning": one.finding.value, "subject": one.subject} for one in found]
    return Output(Exit.CONFIGURATION, lines, {"error": "nothing_is_checked", "found": data})


def _protections_of_server(
    locations: Locations, layers: Sequence[Layer], name: str
) -> list[Protection] | Output:
    settings = read_mcp_settings(locations)
    if settings.unreadable:
        return not_read(locations, settings.unreadable)
    protections = protections_for(layers, settings.view(name))
    if isinstance(protections, Layer):
        return not_valid(locations, protections)
    if not protections:
        names = protected_names(layers)
        shown = ", ".join(visible(each) for each in names) or "none"
        lines = [
            f"{visible(name)}: no file in force protects this server.",
            f"Protected: {shown}.",
        ]
        return Output(
            Exit.CONFIGURATION,
            lines,
            {"error": "not_protected", "server": name, "protected": names},
        )
    return [_without_pins(protection) for protection in protections]


def _without_pins(protection: Protection) -> Protection:
    """Leave the pins aside: the exposed tools are not known here. An empty table refuses each."""
    if not protection.approval.pins:
        return protection
    return protection._replace(approval=protection.approval._replace(pins=None))


def _protections_of_url(
    locations: Locations, layers: Sequence[Layer], name: str, url: str
) -> list[Protection] | Output:
    from ...evaluation import Protection

    server = ServerView(name, True, url, "", "", True, (), b"", True)
    protections = []
    for layer in layers:
        if isinstance(layer.settings, InvalidConfiguration):
            return not_valid(locations, layer)
        view = View(name, "", (server,))
        entry = classify(view, layer.settings.protected_servers) or Approval(name, url)
        approval = Approval(entry.name, url, requirements=entry.requirements)
        protections.append(Protection(layer.source, layer.settings, approval, view))
    return protections


def _judge(protections: Sequence[Protection]) -> tuple[Judgement, int | None]:
    """Return the judgement, and how many milliseconds the evidence took; None where nobody was asked."""
    from ...evaluation import precheck_all

    prechecked = precheck_all(protections)
    if isinstance(prechecked, Judgement):
        return prechecked, None
    network.announce(f"sends {prechecked[0].endpoint.url} to {protections[0].origin}")
    started = time.monotonic()
    judgement = _evaluate(prechecked)
    return judgement, round((time.monotonic() - started) * 1000)


def _evaluate(prechecked: Sequence[Prechecked]) -> Judgement:
    from ...evaluation import evaluate

    try:
        judgement, _ = network.run(evaluate(prechecked))
    except Exception as error:  # as the gate does; its text may hold anything
        return Judgement(
            reason=Reason.INTERNAL_ERROR,
            server=prechecked[0].protection.approval.name,
            endpoint=prechecked[0].endpoint.redacted,
            unforeseen=unforeseen(error),
        )
    return judgement
