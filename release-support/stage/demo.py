"""The demo: plays every scene on this machine alone and says whether each came out.

Exit code 0 if all did, 1 if one did not, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

if not __package__:
    # Run as a script: Python put its own folder on the path, but it is part of a package.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

if TYPE_CHECKING:
    from stage.scenes import Outcome, Stage

WIDTH: Final = 98
COLUMNS: Final = "{:<38}  {} {:<31}  {:>10}  {:>5}"
DECISION_WIDTH: Final = 9
INTRODUCTION: Final = """\
Agent Guild Preflight: what happens just before a protected MCP tool runs.
All on this machine: an agent's host with the plugin, two real MCP servers (notes, archive),
a web page, and the preflight service from release-support/local_guild.
"""
LEGEND: Final = """\
preflights: requests made to the preflight service.
calls: tool calls that reached an MCP server.
"""
GREEN, RED, DIM, PLAIN = "32", "31", "2", ""
DECISION_COLOURS: Final = {"allowed": GREEN, "refused": RED}
LISTEN_SECONDS: Final = 0.1
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Play the demo; give the exit code."""
    argparse.ArgumentParser(
        prog="release-support/demo", description="Shows the plugin at work, on this machine alone."
    ).parse_args()
    for number in _STOPPING:
        signal.signal(number, _stop)
    print(INTRODUCTION, flush=True)
    from stage.scenery import set_up  # takes a while: only now is Ctrl-C in good hands

    with set_up() as stage:
        # In a thread of its own, so that Ctrl-C interrupts the demo and not the host.
        show = ThreadPoolExecutor(1).submit(_play, stage, Pen(sys.stdout, os.environ))
        while not show.done():
            wait([show], LISTEN_SECONDS)  # a signal may go to another thread and wake nobody here
        return show.result()


class Pen:
    """Writes in colour where colour is wanted."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self._is_coloured = (
            stream.isatty()
            and not environment.get("NO_COLOR")
            and environment.get("TERM", "dumb") != "dumb"
        )

    def paint(self, text: str, colour: str) -> str:
        """Return a text in a colour."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self._is_coloured and colour else text


def _play(stage: Stage, pen: Pen) -> int:
    from stage.scenes import READ_ALOUD, SCENES

    head = COLUMNS.format("scene", "decision".ljust(DECISION_WIDTH), "", "preflights", "calls")
    print(f"{head}\n{pen.paint('-' * len(head), DIM)}")
    failed, read_aloud = [], ""
    for scene in SCENES:
        try:
            outcome, shown = stage.play(scene)
        except Exception as error:
            failed.append(scene.title)
            print(f"{scene.title}: {pen.paint('broke off', RED)}: {type(error).__name__}: {error}")
            continue
        print(_line(scene.title, outcome, pen), flush=True)
        if outcome != scene.expected:
            failed.append(scene.title)
            print(_line("    it must be", scene.expected, pen), flush=True)
        if scene is READ_ALOUD:
            read_aloud = shown
    print(f"\n{LEGEND}")
    if read_aloud:
        print(f'Exactly what the model reads in "{READ_ALOUD.title}" (wrapped here):')
        print(_framed(read_aloud))
    if failed:
        verdict = f"{len(failed)} of {len(SCENES)} scenes came out otherwise: {'; '.join(failed)}."
        print(pen.paint(textwrap.fill(verdict, WIDTH), RED))
        return 1
    print(pen.paint(f"All {len(SCENES)} scenes came out as they must.", GREEN))
    return 0


def _line(title: str, outcome: Outcome, pen: Pen) -> str:
    is_refusal = outcome.decision == "refused"
    decision = outcome.decision.ljust(DECISION_WIDTH)
    return COLUMNS.format(
        title,
        pen.paint(decision, DECISION_COLOURS.get(outcome.decision, PLAIN)),
        outcome.detail if is_refusal else f'"{outcome.detail}"',
        outcome.preflights,
        outcome.calls,
    )


def _framed(text: str) -> str:
    inside = WIDTH - 4
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, inside) or [""]]
    edge = f"+{'-' * (inside + 2)}+"
    return "\n".join([edge, *(f"| {line:<{inside}} |" for line in lines), edge, ""])


def _stop(number: int, _: object) -> None:
    """Leave everything in order, and in silence: the servers go before those that call them."""
    for again in _STOPPING:
        signal.signal(again, signal.SIG_IGN)
    print("\nstopped", file=sys.stderr)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for good
    sys.exit(128 + number)


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BrokenPipeError:  # whoever read the output has gone
        code = 128 + signal.SIGPIPE
    except Exception:
        traceback.print_exc()
        code = 1
    # Nothing is left to be done, but worker threads may still wait for servers that are gone.
    os._exit(code)
