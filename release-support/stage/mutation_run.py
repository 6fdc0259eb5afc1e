"""Runs tests on the mutants of one room; `mutate` starts it in a copy of the checkout.

Rules of this module:

1. The tests run once without a mutant. What fails then tells nothing and is left out, by name.
   What each test has come through decides which it tries first.
2. Every mutant has a process of its own, with a folder of its own for what the tests write. Tests
   that need no host are collected once, and the process is split off from there. Those that go
   through a host are collected anew in each: a host runs threads, and a process that is split off
   keeps none of them.
3. The tests that have noticed most so far go first, then the quickest.
4. A mutant on which the tests take much longer than without it, as one that waits for ever, is
   `timeout`, and told apart from one that was noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from mutmut.mutation import trampoline
from mutmut.utils.format_utils import mangled_name_from_mutant_name

sys.path.insert(0, str(Path(__file__).parents[1]))

from stage import tool_server
from stage.mutate import outcome

LEAST_SECONDS: Final = 15.0
TIMES_AS_LONG: Final = 5.0
POLL_SECONDS: Final = 0.01


@dataclass
class Seen:
    """What the tests did without a mutant.

    Attributes:
        seconds: how long each took.
        reached: the functions that each came through, by their names in the mutated file.
        failed: those that failed.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    reached: dict[str, list[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Watcher:
    """A plugin of pytest's: notes what `Seen` holds."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._reached: set[str] = set()
        trampoline.record_trampoline_hit = self._note  # type: ignore[attr-defined]
        trampoline._mutant_under_test = "stats"  # of this process alone, not of those it starts

    def _note(self, name: str, caller: str | None = None) -> None:
        self._reached.add(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._reached.clear()
        began = time.monotonic()
        result = yield
        self.seen.seconds[item.nodeid] = time.monotonic() - began
        self.seen.reached[item.nodeid] = sorted(self._reached)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.seen.failed.append(report.nodeid)


class FirstFailure:
    """A plugin of pytest's: notes the first test that fails."""

    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid


Play = Callable[[Sequence[str], object], int]  # runs tests with a plugin; the exit code of pytest


class InSession:
    """A plugin of pytest's: collects, and lets `work` run tests in processes split off here."""

    def __init__(self, work: Callable[[Play, Sequence[str]], None]) -> None:
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}

        def play(tests: Sequence[str], plugin: object) -> int:
            session.config.pluginmanager.register(plugin)
            chosen = [items[test] for test in tests]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if getattr(plugin, "test", ""):
                    break
            return int(session.testsfailed > 0)

        self._work(play, list(items))
        return True


def collected_anew(files: Sequence[str]) -> Play:
    """Return what runs tests in a session of their own, each to the first failure."""

    def play(tests: Sequence[str], plugin: object) -> int:
        first = [] if isinstance(plugin, Watcher) else ["-x"]
        # What was imported before the split is not rewritten: none of it is a test.
        quiet = "-Wignore::pytest.PytestAssertRewriteWarning"
        # Tests are named from the root, and sought from here.
        return int(pytest.main(["--rootdir=.", quiet, *first, *(tests or files)], plugins=[plugin]))

    return play


@dataclass
class Running:
    """The process of one mutant."""

    name: str
    folder: Path
    deadline: float


def split_off(folder: Path, work: Callable[[], int]) -> int:
    """Run something in a process of its own, silently; give the number of that."""
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()  # so that whatever it starts can be ended with it
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silent, number)
        os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(folder)
        os._exit(work())
    except BaseException:  # of ours: pytest tells those of tests by its exit code
        os.write(ERRORS, traceback.format_exc().encode())
    finally:
        os._exit(3)


class Mutants:
    """The mutants of a room, judged some at a time."""

    def __init__(self, names: Sequence[str], play: Play, jobs: int, work: Path) -> None:
        self._names, self._play, self._jobs, self._work = list(names), play, jobs, work
        self._noticed: Counter[str] = Counter()
        self._running: dict[int, Running] = {}

    def judge(self, tests: Sequence[str]) -> None:
        """Tell the outcome of each, a line of JSON for one."""
        seen = self._look(tests)
        usable = [test for test in seen.seconds if test not in seen.failed]
        tell(left_out=sorted(set(seen.failed)), tests=len(usable))
        if not usable:
            return
        try:
            for number, name in enumerate(self._names):
                while len(self._running) >= self._jobs:
                    self._await_one()
                self._begin(number, name, seen, usable)
            while self._running:
                self._await_one()
        finally:
            for pid in self._running:  # where somebody has interrupted this
                end(pid)

    def _look(self, tests: Sequence[str]) -> Seen:
        folder = self._work / "without"

        def watch() -> int:
            watcher = Watcher()
            self._play(tests, watcher)
            (folder / "seen.json").write_text(json.dumps(vars(watcher.seen)))
            return 0

        os.waitpid(split_off(folder, watch), 0)
        seen = Seen(**json.loads((folder / "seen.json").read_text()))
        shutil.rmtree(folder, ignore_errors=True)
        return seen

    def _begin(self, number: int, name: str, seen: Seen, usable: Sequence[str]) -> None:
        function = mangled_name_from_mutant_name(name)
        # What it has made for the first may serve all others, so that these do not reach it.
        chosen = sorted(
            usable,
            key=lambda test: (
                function not in seen.reached[test],
                -self._noticed[test],
                seen.seconds[test],
            ),
        )
        folder = self._work / str(number)

        def run() -> int:
            trampoline.set_mutant_under_test(name)  # of the processes that it starts, too
            first = FirstFailure()
            code = self._play(chosen, first)
            (folder / "first").write_text(first.test)
            return code

        limit = LEAST_SECONDS + TIMES_AS_LONG * sum(seen.seconds[test] for test in chosen)
        pid = split_off(folder, run)
        self._running[pid] = Running(name, folder, time.monotonic() + limit)

    def _await_one(self) -> None:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in self._running:
                return self._tell(pid, os.waitstatus_to_exitcode(status))
            now = time.monotonic()
            for pid, running in self._running.items():
                if running.deadline < now:
                    end(pid)
                    os.waitpid(pid, 0)
                    return self._tell(pid, None)
            time.sleep(POLL_SECONDS)

    def _tell(self, pid: int, code: int | None) -> None:
        running = self._running.pop(pid)
        first = ""
        with contextlib.suppress(OSError):
            first = (running.folder / "first").read_text()
            self._noticed[first] += 1
        end(pid)
        shutil.rmtree(running.folder, ignore_errors=True)
        tell(name=running.name, outcome=outcome(code, first))


def end(pid: int) -> None:
    """End a process that was split off, and whatever it has started."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def tell(**what: Any) -> None:
    with os.fdopen(os.dup(TOLD), "w") as file:
        print(json.dumps(what), file=file)


TOLD: Final = os.dup(1)  # of pytest's own output nobody reads anything
ERRORS: Final = os.dup(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", action="store_true", help="the tests go through a host")
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--mutants", type=Path, required=True, help="their names, a line each")
    parser.add_argument("tests", nargs="+", help="files")
    arguments = parser.parse_args()
    names = arguments.mutants.read_text().split()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryDirectory(prefix="agent_guild_preflight-") as folder:
        work = Path(folder)
        if arguments.host:
            with one_tool_server():
                play = collected_anew(arguments.tests)
                Mutants(names, play, arguments.jobs, work).judge(())
        else:

            def judge(play: Play, tests: Sequence[str]) -> None:
                assert threading.active_count() == 1, threading.enumerate()
                Mutants(names, play, arguments.jobs, work).judge(tests)

            pytest.main(arguments.tests, plugins=[InSession(judge)])


@contextlib.contextmanager
def one_tool_server() -> Iterator[None]:
    """Have all hosts use one tool server, which remembers nothing of its callers."""
    import hypothesis
    import mcp.server.fastmcp  # noqa: F401  # so that no process that is split off need do it

    running: dict[tuple[str, ...], int] = {}
    start = tool_server.running
    with contextlib.ExitStack() as closing:
        every = (*tool_server.HOSTILE_TOOLS, *tool_server.SPECIAL_TOOLS)
        running[every] = closing.enter_context(start(*every))

        @contextlib.contextmanager
        def shared(*tools: str) -> Iterator[int]:
            if tools in running:
                yield running[tools]
            else:
                with start(*tools) as port:
                    yield port

        tool_server.running = shared
        del hypothesis
        yield


if __name__ == "__main__":
    main()
