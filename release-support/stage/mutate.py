"""Mutation testing: are there tests for what the deciding rooms do?

mutmut makes the mutants and runs the fast tests on those of the pure rooms. The gate's own
mutants need a host each, so they run one process at a time, on the tests that go through one.
All of it happens in a copy; the checkout is not touched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[2]
PLUGIN: Final = "usr/plugins/agent_guild_preflight"
PURE: Final = (
    *("policy", "evaluation", "guild_preflight/contract", "guild_preflight/endpoint"),
    *("settings/configuration", "settings/reader", "settings/in_force"),
    *("binding/comparison", "binding/pins"),
)
UNIT_TESTS: Final = (
    *("policy", "evaluation", "contract", "endpoint", "configuration", "in_force"),
    *("comparison", "pins", "vocabulary"),
)
GATE_TESTS: Final = ("test_decisions", "test_untouched", "test_dispatch", "test_binding_changes")
GATE_TESTS_LATE: Final = (
    *("test_last_moment", "test_floor", "test_pins"),
    *("test_evidence", "test_settings", "test_parallel_evidence"),
)
TARGET: Final = 0.95
SECONDS: Final = 300


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: ./release-support/mutate --without-gate"
    )
    parser.add_argument("--without-gate", action="store_true", help="only the pure rooms; faster")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent_guild_preflight-") as folder:
        work = Path(folder)
        copy(work, ("gate",) if not arguments.without_gate else ())
        command = [sys.executable, "-m", "mutmut", "run"]
        subprocess.run(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        outcomes = results(work)
        gate = [name for name in outcomes if ".gate." in name]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, outcome in pool.map(lambda name: (name, judge(work, name)), gate):
                outcomes[name] = outcome
                print(f"{outcome}: {name.split('.helpers.')[1]}", file=sys.stderr, flush=True)
        sys.exit(report(outcomes))


def copy(work: Path, further: tuple[str, ...]) -> None:
    """Lay the checkout out as installed, with mutmut's settings beside it."""
    ignored = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", ".hypothesis")
    shutil.copytree(CHECKOUT, work / PLUGIN, ignore=ignored, symlinks=True)
    rooms = [f"{PLUGIN}/helpers/{room}.py" for room in (*PURE, *further)]
    tests = [f"{PLUGIN}/release-support/unit-tests/test_{room}.py" for room in UNIT_TESTS]
    lines = ["[mutmut]", "source_paths=", *rooms, "also_copy=", "usr"]
    lines += ["pytest_add_cli_args_test_selection=", *tests]
    text = "\n".join(line if line.endswith("=") or "[" in line else f"    {line}" for line in lines)
    (work / "setup.cfg").write_text(text + "\n")


def results(work: Path) -> dict[str, str]:
    """Return the outcome of each mutant by its name."""
    command = [sys.executable, "-m", "mutmut", "results", "--all", "true"]
    listed = subprocess.run(command, cwd=work, capture_output=True, text=True).stdout
    rows = (line.strip().rpartition(": ") for line in listed.splitlines() if "mutmut_" in line)
    return {name: outcome for name, _, outcome in rows}


def judge(work: Path, name: str) -> str:
    """Run the tests that go through a host on one mutant, those that should notice first."""
    tests = f"{PLUGIN}/release-support/native-tests/tests"
    is_late = "_Watch" in name or "_keep" in name
    groups = (GATE_TESTS_LATE, GATE_TESTS) if is_late else (GATE_TESTS, GATE_TESTS_LATE)
    for group in groups:
        command = [sys.executable, "-m", "pytest", "-x", *(f"{tests}/{test}.py" for test in group)]
        try:
            run = subprocess.run(
                command,
                cwd=work / "mutants",
                env={**os.environ, "MUTANT_UNDER_TEST": name},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return "timeout"
        if run.returncode:
            return "killed"
    return "survived"


def report(outcomes: dict[str, str]) -> int:
    """Print a line per room and each survivor; give the exit code."""
    rooms: dict[str, Counter[str]] = {}
    for name, outcome in sorted(outcomes.items()):
        room = name.split(".helpers.")[1].rpartition(".")[0]
        rooms.setdefault(room, Counter())[outcome] += 1
        if outcome not in ("killed", "timeout"):
            print(f"{outcome}: {name.split('.helpers.')[1]}")
    total = killed = 0
    for room, counts in rooms.items():
        dead = counts["killed"] + counts["timeout"]
        total, killed = total + counts.total(), killed + dead
        print(f"{room:<26}{dead:>5} of {counts.total():>4} killed   {dead / counts.total():.1%}")
    print(f"{'all':<26}{killed:>5} of {total:>4} killed   {killed / max(total, 1):.1%}")
    return 0 if total and killed / total >= TARGET else 1


if __name__ == "__main__":
    main()
