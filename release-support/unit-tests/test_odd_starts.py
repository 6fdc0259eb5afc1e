"""Whoever starts the suite, and however, it says the same. Here a few tests stand for the suite.

`release-support/stage/odd_starts.py` runs all of it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from stage import odd_starts
from stage.boot import SUPPORT
from stage.odd_starts import FILES_AT_MOST, FILES_OPEN, ODD_VARIABLES, STARTS
from stage.tap import Tap

PATIENCE_SECONDS = 60
MOST_SIGNALS = 20  # any system has more of them
TESTS = SUPPORT / "unit-tests"
# A process that is interrupted, an exit code, and what is drawn on a terminal.
SAMPLE = (
    f"{TESTS / 'test_local_guild.py'}::test_the_command_says_where_it_listens_and_ends_cleanly",
    f"{TESTS / 'test_commands.py'}::TestRefusals::test_without_python",
    f"{TESTS / 'test_commands.py'}::TestDemo::test_colours_can_be_declined",
)

# What a command finds that each start gives it, and an ordinary one does not.
LOOK = """
import json, os, resource, signal, sys
seen = {
    "ignored": sum(signal.getsignal(each) is signal.SIG_IGN for each in signal.valid_signals()),
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "folder": os.getcwd(),
    "variables": sorted(os.environ),
    "values": {name: os.environ.get(name) for name in sys.argv[1:]},
    "has input": sys.stdin is not None,
    "terminal": sys.stdout.isatty(),
    "umask": os.umask(0),
    "temporary": os.environ.get("TMPDIR", ""),
    "files": len(os.listdir("/dev/fd")),
    "files at most": resource.getrlimit(resource.RLIMIT_NOFILE),
}
print(json.dumps(seen))
"""
ODDITIES = {
    "signals": lambda seen: (
        min(seen["ignored"], seen["blocked"]) > MOST_SIGNALS and seen["folder"] == "/"
    ),
    "bare": lambda seen: (
        set(seen["variables"]) <= {"PATH", "LC_CTYPE"}  # Python adds that one itself
        and not seen["has input"]
        and seen["umask"] == 0o077
    ),
    "variables": lambda seen: (
        seen["values"] == ODD_VARIABLES
        and seen["terminal"]
        and seen["umask"] == 0
        and " " in seen["temporary"]
    ),
    "files": lambda seen: (
        seen["files"] > FILES_OPEN and seen["files at most"] == [FILES_AT_MOST] * 2
    ),
}

INTERRUPTED = """
import signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
from stage.inherited import restore_signals
restore_signals()
signal.raise_signal(signal.SIGINT)
signal.raise_signal(signal.SIGHUP)
child = "import signal; signal.raise_signal(signal.SIGHUP)"
ended = subprocess.run([sys.executable, "-c", child])
print("still here, its child ended by", -ended.returncode)
"""


@pytest.mark.parametrize("name", ["signals", "variables"])  # each takes some seconds
def test_an_odd_start_changes_nothing(name):
    code, output = odd_starts.play(name, [str(SUPPORT / "test"), *SAMPLE])
    assert code == 0, output
    assert re.search(r"^9 passed in ", output, re.M)


@pytest.mark.parametrize("name", STARTS)
def test_each_start_is_odd_in_its_own_way(name):
    code, output = odd_starts.play(name, [sys.executable, "-I", "-c", LOOK, *ODD_VARIABLES])
    assert code == 0, output
    seen = json.loads(output)
    assert [start for start, is_odd in ODDITIES.items() if is_odd(seen)] == [name]


def test_who_was_told_to_ignore_a_signal_does_and_its_children_hear_it():
    command = [sys.executable, "-c", INTERRUPTED, str(SUPPORT)]
    assert odd_starts.play("signals", command) == (0, "still here, its child ended by 1\n")


def test_a_start_that_fails_is_shown_and_counted():
    script = [sys.executable, odd_starts.__file__, "--only", "bare", "--only", "files"]
    command = [*script, "sh", "-c", '[ -n "$HOME" ] || { echo no home; echo at all; exit 7; }']
    ended = subprocess.run(
        command,
        env={**os.environ, "HOME": "/"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    said = re.sub(r"\d+ s$", "N s", ended.stdout, flags=re.M)
    assert ended.returncode == 1
    assert f"{STARTS['bare'].odd}\nno home\nat all\nexit code 7, N s\n" in said
    assert f"{STARTS['files'].odd}\n\nexit code 0, N s\n" in said


def test_a_tap_holds_no_connection_that_has_ended():
    """A suite makes more of them than a process may have files open."""
    with socket.create_server(("127.0.0.1", 0)) as server, Tap(server.getsockname()[1]) as tap:
        before, threads = open_files(), set(threading.enumerate())
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", tap.port), PATIENCE_SECONDS) as client:
                accepted, _ = server.accept()
                with accepted:
                    client.sendall(b"question")
                    assert accepted.recv(100) == b"question"
                    accepted.sendall(b"answer")
                    assert client.recv(100) == b"answer"
        for thread in set(threading.enumerate()) - threads:
            thread.join(PATIENCE_SECONDS)
        assert open_files() == before
        assert tap.connections == 20


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))
