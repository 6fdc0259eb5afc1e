"""`check`: one preflight with the settings in force, and what the gate would make of it.

Rules of this module:

1. The judgement is that of `evaluation`, asked as the gate asks it: every demand is cleared
   before anything is sent, and the first that refuses decides. A demand after that one is
   undecided, here as there.
2. Tools are not looked at: which ones a server exposes is not known without connecting to it.
   So pins are left aside, but for an empty table, and the tool is taken to be there.
3. With `--url` the binding is left aside as well: the URL is judged as if every file in force
   approved it, and MCP settings had it with TLS verified and no headers. A policy belongs to a
   file, not to a name, so with `--url` a NAME only says under which name it would be refused.
4. What the screen or the binding refuses is neither shown nor sent.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..binding import ServerView, View
from ..configuration import Approval
from ..demands import Demand
from ..judgement import Judgement
from ..places import Place, normalize_name
from ..problems import InvalidConfiguration
from ..reasons import Reason
from ..untrusted import visible
from . import checked, network
from .findings import STOPS_THE_GATE, Found
from .mcp_settings import read_mcp_settings
from .outcome import Exit, Outcome
from .protecting import claims_for, not_read, not_valid, protected_names
from .shadows import found_shadows

if TYPE_CHECKING:
    from ..evaluation import Claim, Cleared

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
        "MCP settings; NAME then only says under which name",
    )
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace) -> Outcome:
    """Make one preflight and judge it.

    Args:
        arguments: `place`, `name` and `url`, one of the last two at least.

    Returns:
        The outcome: fine when the gate would allow the call, refused, without evidence, or a
        configuration problem.

    Raises:
        SystemExit: there is neither a name nor a URL.
    """
    place, name, url = arguments.place, normalize_name(arguments.name or ""), arguments.url
    if not name and url is None:
        arguments.usage_error("name a server, or a URL with --url")
    if stopped := [found for found in found_shadows(place) if found.finding in STOPS_THE_GATE]:
        return _not_checked(stopped)
    demands = place.demands()
    claims = (
        _claims_of_server(place, demands, name)
        if url is None
        else _claims_of_url(place, demands, name, url)
    )
    if isinstance(claims, Outcome):
        return claims
    judgement, milliseconds = _judge(claims)
    if not name:
        judgement = judgement._replace(server=None)
    return checked.outcome(place, demands, claims, judgement, milliseconds)


def _not_checked(found: Sequence[Found]) -> Outcome:
    """Say that the gate does not run: whatever it would decide, every call goes on."""
    lines = [f"{one.subject}: {one.finding.sentence}" for one in found]
    lines.append(f"What to do: {found[0].finding.remedy}")
    data = [{"warning": one.finding.value, "subject": one.subject} for one in found]
    return Outcome(Exit.CONFIGURATION, lines, {"error": "nothing_is_checked", "found": data})


def _claims_of_server(place: Place, demands: Sequence[Demand], name: str) -> list[Claim] | Outcome:
    settings = read_mcp_settings(place)
    if settings.unreadable:
        return not_read(place, settings.unreadable)
    claims = claims_for(demands, settings.view(name))
    if isinstance(claims, Demand):
        return not_valid(place, claims)
    if not claims:
        names = protected_names(demands)
        shown = ", ".join(visible(each) for each in names) or "none"
        lines = [
            f"{visible(name)}: no file in force protects this server.",
            f"Protected: {shown}.",
        ]
        return Outcome(
            Exit.CONFIGURATION,
            lines,
            {"error": "not_protected", "server": name, "protected": names},
        )
    return [_without_pins(claim) for claim in claims]


def _without_pins(claim: Claim) -> Claim:
    """Leave the pins aside: the exposed tools are not known here. An empty table refuses each."""
    if not claim.approval.pins:
        return claim
    return claim._replace(approval=claim.approval._replace(pins=None))


def _claims_of_url(
    place: Place, demands: Sequence[Demand], name: str, url: str
) -> list[Claim] | Outcome:
    from ..evaluation import Claim

    server = ServerView(name, True, url, "", "", True, (), b"", True)
    claims = []
    for demand in demands:
        if isinstance(demand.settings, InvalidConfiguration):
            return not_valid(place, demand)
        approval = Approval(name, url)
        claims.append(Claim(demand.source, demand.settings, approval, View(name, "", (server,))))
    return claims


def _judge(claims: Sequence[Claim]) -> tuple[Judgement, int | None]:
    """Give the judgement, and the milliseconds that the evidence took, None where none was asked."""
    from ..evaluation import clear

    cleared: list[Cleared] = []
    for claim in claims:
        found = clear(claim)
        if isinstance(found, Judgement):
            return found, None
        cleared.append(found)
    for origin in dict.fromkeys(claim.origin for claim in claims):
        network.announce(f"sends {cleared[0].endpoint.url} to {origin}")
    started = time.monotonic()
    judgement = _weigh(cleared)
    return judgement, round((time.monotonic() - started) * 1000)


def _weigh(cleared: Sequence[Cleared]) -> Judgement:
    from ..evaluation import weigh

    try:
        judgement, _ = network.run(weigh(cleared))
    except Exception as error:  # as the gate does; its text may hold anything
        return Judgement(
            reason=Reason.INTERNAL_ERROR,
            server=cleared[0].claim.approval.name,
            endpoint=cleared[0].endpoint.redacted,
            unforeseen=type(error).__name__,
        )
    return judgement
