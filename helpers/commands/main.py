"""The command line: which command, where, and in which form the answer is printed.

Rules of this module:

1. Each command is a module with `HELP`, `EXAMPLE`, `add_arguments` and `run`; it is imported
   only here.
2. Standard output holds the answer and nothing else: lines for a person, or with `--json` one
   JSON text. What goes wrong before there is an answer goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from ..product import NAME, VERSION
from ..settings.files import entries
from ..settings.locations import PROFILE, Locations
from .check import command as check
from .explain import command as explain
from .lint import command as lint
from .pin import command as pin
from .shared.output import Exit, Output
from .why import command as why

INSTALLED: Final = "python -m usr.plugins.agent_guild_preflight.helpers"
BARE_CLONE: Final = "./release-support/preflight"
COMMANDS: Final[dict[str, ModuleType]] = {
    "lint": lint,
    "check": check,
    "explain": explain,
    "pin": pin,
    "why": why,
}


def main(argv: Sequence[str] | None = None, *, program: str = INSTALLED) -> int:
    """Run one command.

    Args:
        argv: the arguments; None for those of the process.
        program: how the commands were called, for the help texts.

    Returns:
        The exit code, a member of `Exit`.

    Raises:
        SystemExit: the arguments are not usable (code 2), help was asked for (code 0), or
            standard output cannot be written to (its message).
    """
    parser = _parser(program)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit:
        _write("")  # the help, while a reader that has gone can be told from a fault
        raise
    if arguments.command != "why":
        root = _root(arguments.root)
        if root is None:
            parser.error("--root must be the Agent Zero folder, the one that has the folder usr")
        arguments.locations = _place(parser, root, arguments)
    output = COMMANDS[arguments.command].run(arguments)
    _print(output, as_json=arguments.json)
    return int(output.exit)


def _parser(program: str) -> argparse.ArgumentParser:
    exits = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in Exit)
    parser = argparse.ArgumentParser(
        prog=program,
        description="See, check and pin what the gate protects.",
        epilog=f"exit codes: {exits}",
    )
    parser.add_argument("--version", action="version", version=f"{NAME} {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=f"example: {program} {module.EXAMPLE}",
        )
        module.add_arguments(command)
        command.add_argument("--json", action="store_true", help="print one JSON text")
        if name != "why":
            command.add_argument(
                "--root",
                default=".",
                metavar="FOLDER",
                help="the Agent Zero folder (default: here)",
            )
        if name not in ("why", "explain"):
            _add_agent(command)
    return parser


def _add_agent(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--project", default="", metavar="NAME", help="see it as an agent of this project"
    )
    command.add_argument(
        "--profile",
        default=PROFILE,
        metavar="NAME",
        help="see it as an agent of this profile (default: %(default)s)",
    )


def _place(parser: argparse.ArgumentParser, root: Path, arguments: argparse.Namespace) -> Locations:
    """Return the locations that the arguments name; a project that is not there is a mistyped one."""
    project = getattr(arguments, "project", "")
    locations = Locations(root, project, getattr(arguments, "profile", PROFILE))
    if project and project not in entries(root / "usr" / "projects"):
        parser.error("--project: there is no such project in usr/projects")
    return locations


def _root(folder: str) -> Path | None:
    try:
        root = Path(folder).resolve()
        return root if (root / "usr").is_dir() else None
    except (OSError, RuntimeError, ValueError):  # not ours to enter, a loop of links, no name
        return None


def _print(output: Output, *, as_json: bool) -> None:
    text = json.dumps(output.data, indent=2) if as_json else "\n".join(output.lines)
    _write(f"{text}\n")


def _write(text: str) -> None:
    """Write a text, and what argparse has written, to standard output."""
    if sys.stdout is None:  # the caller has closed it
        return
    try:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        raise SystemExit("standard output cannot be written to") from None
