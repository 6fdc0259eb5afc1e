"""`lint`: which settings are in force, what is wrong with them, and what is worth a warning.

Rules of this module:

1. Problems are what the gate itself finds in the files in force; one of them makes the settings
   invalid, and the exit code says so. It says so too where the gate does not run at all; other
   warnings do not change it.
2. Nothing is sent without `--network`, and nothing is written at all.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..configuration import Configuration
from ..demands import Demand
from ..places import Place
from ..problems import InvalidConfiguration, Problem
from .cautions import found_in_settings
from .faults import fault, nearest_settings
from .findings import Found
from .linted import Other, Report, Role, Wrong
from .mcp_settings import read_mcp_settings
from .outcome import Outcome
from .servers import found_in_approvals, found_in_mcp_settings
from .shadows import found_shadows

HELP = "see which settings are in force, and what is wrong with them"
EXAMPLE = "lint --project shop --network"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run` reads.

    Args:
        parser: the command's own parser.
    """
    parser.add_argument(
        "--network",
        action="store_true",
        help="ask each approved URL once whether it redirects; nobody else is told of it",
    )


def run(arguments: argparse.Namespace) -> Outcome:
    """Look at the settings, at what they protect, and at what keeps the gate from running.

    Args:
        arguments: `place` and `network`.

    Returns:
        The outcome: a configuration problem when a file in force has one, or nothing is checked;
        else fine.
    """
    place: Place = arguments.place
    demands = place.demands()
    warnings = [
        *found_in_settings(place, demands),
        *found_in_approvals(demands),
        *found_in_mcp_settings(place, demands, read_mcp_settings(place)),
        *found_shadows(place),
    ]
    answers: list[tuple[str, Found | None]] | None = None
    if arguments.network:
        from .redirects import ask, endpoints_to_ask

        answers = ask(endpoints_to_ask(demands))
        warnings += [found for _, found in answers if found is not None]
    return Report(
        place=place,
        selected=place.selected(),
        others=_others(place, demands),
        demands=demands,
        problems=_problems(place, demands),
        warnings=list(dict.fromkeys(warnings)),  # two files may approve one URL
        answers=answers,
    ).outcome()


def _others(place: Place, demands: Sequence[Demand]) -> list[Other]:
    """Give the other settings files that there are."""
    selected, everywhere = place.selected(), place.everywhere()
    floor = len(demands) > 1 or _has_floor(demands[0])
    files = [file for file in place.config_files() if file.exists and file != selected]
    return [
        *(
            Other(file, Role.FLOOR if floor and file == everywhere else Role.NOTHING)
            for file in files
        ),
        *(Other(file, Role.OTHER_AGENTS) for file in place.foreign_files() if file.exists),
    ]


def _has_floor(demand: Demand) -> bool:
    """Say whether a file that holds just what the global one holds has its floor."""
    return isinstance(demand.settings, Configuration) and demand.settings.floor


def _problems(place: Place, demands: Sequence[Demand]) -> list[Wrong]:
    """Give every problem of the files in force, with all that can be said of it."""
    found = []
    for demand in demands:
        file = place.file_of(demand.source)
        if isinstance(demand.settings, InvalidConfiguration):
            nearest = nearest_settings(file.read())
            for path, problem in demand.settings.problems:
                found.append(
                    Wrong(
                        file=place.shown(file.path),
                        path=path,
                        problem=problem,
                        nearest=nearest.get(path) if problem is Problem.UNKNOWN_KEY else None,
                        fault=fault(file) if problem is Problem.UNREADABLE else None,
                    )
                )
    return found
