"""Mutation testing: are there tests for what the rooms of the gate's way do?

mutmut makes the mutants; `mutation_rooms` says which tests should notice them, and `mutation_run`
runs those. All of it happens in a copy for each room; the checkout is not touched.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from stage.mutation_rooms import ROOMS

CHECKOUT: Final = Path(__file__).parents[2]
PLUGIN: Final = "usr/plugins/agent_guild_preflight"
TARGET: Final = 0.97
ENCODING: Final = re.compile(r'(?<=code\(")[\w-]+')
NOTICED: Final = ("killed", "timeout")

Outcomes = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: ./release-support/mutate --room guild_preflight/cache"
    )
    parser.add_argument(
        "--room",
        action="append",
        choices=[*ROOMS],
        metavar="NAME",
        help="only this room; may be repeated",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="mutants at a time; one for each processor",
    )
    arguments = parser.parse_args()
    outcomes: dict[str, Outcomes] = {}
    for room in arguments.room or ROOMS:
        changes, outcomes[room] = judged(room, arguments.jobs)
        print(line(room, Counter(outcomes[room].values())), flush=True)
        for name, outcome in sorted(outcomes[room].items()):
            if outcome != "killed":
                print(f"  {outcome}: {name.rpartition('.')[2]}\n{changes[name]}", flush=True)
    sys.exit(report(outcomes))


def judged(room: str, jobs: int) -> tuple[dict[str, str], Outcomes]:
    """Return what each mutant of a room changes, and the outcome of each, by its name."""
    with tempfile.TemporaryDirectory(prefix="agent_guild_preflight-") as folder:
        work = Path(folder)
        changes = copy_with_mutants(work, room)
        outcomes = dict.fromkeys(changes, "survived")
        for folder_name, tests in zip(
            ("unit-tests", "native-tests/tests"), ROOMS[room], strict=True
        ):
            left = [name for name, outcome in outcomes.items() if outcome == "survived"]
            if tests and left:
                files = [f"{PLUGIN}/release-support/{folder_name}/test_{test}.py" for test in tests]
                outcomes.update(run(work, left, files, jobs, is_host=folder_name != "unit-tests"))
        return changes, outcomes


def copy_with_mutants(work: Path, room: str) -> dict[str, str]:
    """Lay the checkout out as installed, with all mutants of a room; return what each changes."""
    ignored = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", ".hypothesis")
    shutil.copytree(CHECKOUT, work / PLUGIN, ignore=ignored, symlinks=True)
    (work / "setup.cfg").write_text(f"[mutmut]\nsource_paths={PLUGIN}/helpers\n")
    os.chdir(work)  # where mutmut looks for that
    from mutmut.mutation.file_mutation import mutate_file_contents

    file = Path(PLUGIN, "helpers", f"{room}.py")
    mutated = mutate_file_contents(str(file), file.read_text())
    file.write_text(mutated.code)
    module = f"{PLUGIN}/helpers/{room}".replace("/", ".")
    lines, spans = mutated.code.splitlines(), mutated.line_span_by_function_name
    sources = {name: lines[span.start - 1 : span.end] for name, span in spans.items()}
    changes = {}
    for name in mutated.mutant_names:
        original = name.rpartition("_")[0] + "_orig"
        after = [text.replace(name, original) for text in sources[name]]
        change = difference(sources[original], after)
        if not is_other_spelling(change):
            changes[f"{module}.{name}"] = change
    return changes


def difference(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the lines that a mutant changes."""
    changed = difflib.ndiff(before, after)
    return "\n".join(f"    {text}" for text in changed if text[0] in "+-")


def is_other_spelling(change: str) -> bool:
    """Whether a mutant only writes the name of an encoding in capitals, which changes nothing."""
    lines = [ENCODING.sub(lambda found: found[0].lower(), text[5:]) for text in change.splitlines()]
    return len(lines) == 2 and lines[0] == lines[1]


def run(
    work: Path, names: Sequence[str], files: Sequence[str], jobs: int, *, is_host: bool
) -> Outcomes:
    """Run test files on mutants; return the outcome of each."""
    (work / "mutants").write_text("\n".join(names))
    script = str(work / PLUGIN / "release-support" / "stage" / "mutation_run.py")
    command = [sys.executable, script, f"--jobs={jobs}", f"--mutants={work / 'mutants'}", *files]
    if is_host:
        command.append("--host")
    outcomes = dict.fromkeys(names, "not run")
    with subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            told = json.loads(text)
            if "name" in told:
                outcomes[told["name"]] = told["outcome"]
            elif told["left_out"]:
                print(f"fails without a mutant, too: {told['left_out']}", file=sys.stderr)
    return outcomes


def outcome(code: int | None, first: str) -> str:
    """Return the outcome of a mutant.

    Args:
        code: the exit code of its tests; None where they took too long.
        first: the test that failed first; empty for none.

    Returns:
        A mutant is noticed only where a test has failed. Tests that could not be collected, or a
        session that has failed itself, have tried nothing: "not run".
    """
    if code is None:
        return "timeout"
    if code == 0:
        return "survived"
    return "killed" if code == 1 and first else "not run"


def line(room: str, counts: Counter[str]) -> str:
    """Return what is said of a room."""
    noticed, total = sum(counts[outcome] for outcome in NOTICED), counts.total()
    late = f"   {counts['timeout']} of them by the time" if counts["timeout"] else ""
    return f"{room:<30}{noticed:>5} of {total:>4} killed   {noticed / max(total, 1):.1%}{late}"


def report(outcomes: dict[str, Outcomes]) -> int:
    """Print the sum; return 0 if it reaches the target, else 1."""
    counts = {room: Counter(found.values()) for room, found in outcomes.items()}
    together = sum(counts.values(), Counter[str]())
    print(line("all", together))
    noticed = sum(together[outcome] for outcome in NOTICED)
    return 0 if noticed >= TARGET * together.total() else 1


if __name__ == "__main__":
    main()
