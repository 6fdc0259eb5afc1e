"""`lint`: which settings are in force, what is wrong with them, and what is worth a warning.

Rules of this module:

1. Problems are what the gate itself finds in the files in force, and whatever keeps it from
   running, or may do so. The exit code says that there is one; warnings do not change it.
2. Nothing is sent without `--network`, and nothing is written at all.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ...settings.configuration import Configuration
from ...settings.in_force import Layer
from ...settings.locations import Locations
from ...settings.problems import InvalidConfiguration, Problem
from ..shared.findings import Found
from ..shared.mcp_settings import read_mcp_settings
from ..shared.obstacles import found_obstacles
from ..shared.output import Output
from .json_text import broken_text
from .nearest import nearest_settings
from .output import LocatedProblem, OtherFile, Report, Role
from .servers import found_in_approvals, found_in_mcp_settings
from .settings import found_in_settings

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


def run(arguments: argparse.Namespace) -> Output:
    """Look at the settings, at what they protect, and at what keeps the gate from running.

    Args:
        arguments: `locations` and `network`.

    Returns:
        The output: a configuration problem when there is one; else fine.
    """
    locations: Locations = arguments.locations
    layers = locations.layers()
    findings = [
        *found_in_settings(locations, layers),
        *found_in_approvals(layers),
        *found_in_mcp_settings(locations, layers, read_mcp_settings(locations)),
        *found_obstacles(locations),
    ]
    answers: list[tuple[str, Found | None]] | None = None
    if arguments.network:
        from .redirects import ask, endpoints_to_ask

        answers = ask(endpoints_to_ask(layers))
        findings += [found for _, found in answers if found is not None]
    return Report(
        locations=locations,
        selected=locations.selected(),
        others=_others(locations, layers),
        layers=layers,
        problems=_problems(locations, layers),
        findings=list(dict.fromkeys(findings)),  # two files may approve one URL
        answers=answers,
    ).output()


def _others(locations: Locations, layers: Sequence[Layer]) -> list[OtherFile]:
    """Return the other settings files that there are."""
    selected, everywhere = locations.selected(), locations.everywhere()
    floor = len(layers) > 1 or _has_floor(layers[0])
    files = [file for file in locations.config_files() if file.exists and file != selected]
    return [
        *(
            OtherFile(file, Role.FLOOR if floor and file == everywhere else Role.NOTHING)
            for file in files
        ),
        *(OtherFile(file, Role.OTHER_AGENTS) for file in locations.foreign_files() if file.exists),
    ]


def _has_floor(layer: Layer) -> bool:
    """Whether a file that holds just what the global one holds has its floor."""
    return isinstance(layer.settings, Configuration) and layer.settings.floor


def _problems(locations: Locations, layers: Sequence[Layer]) -> list[LocatedProblem]:
    """Return every problem of the files in force, with all that can be said of it."""
    found = []
    for layer in layers:
        file = locations.file_of(layer.source)
        if isinstance(layer.settings, InvalidConfiguration):
            nearest = nearest_settings(file.read())
            for path, problem in layer.settings.problems:
                found.append(
                    LocatedProblem(
                        file=locations.shown(file.path),
                        path=path,
                        problem=problem,
                        nearest=nearest.get(path) if problem is Problem.UNKNOWN_KEY else None,
                        broken_text=broken_text(file) if problem is Problem.UNREADABLE else None,
                    )
                )
    return found
