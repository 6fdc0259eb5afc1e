"""Runs a command as nobody would start it, to see whether it says the same.

    .venv/bin/python release-support/stage/odd_starts.py             the whole suite, once a start
    .venv/bin/python release-support/stage/odd_starts.py --only signals ./release-support/demo

Each start passes something odd on to the command: signals ignored and blocked, hardly any
variable or a great many, few files that may be open. What a process inherits in the kernel is
set in a process of its own, which then becomes the command: so a caller with threads is safe.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stage.terminal import on_a_terminal

SUITE: Final = str(Path(__file__).resolve().parents[1] / "test")
BECOME: Final = "--become"  # for this program alone
FILES_OPEN: Final = 100
FILES_AT_MOST: Final = 400

# By what they are about; /nowhere is no folder, and nobody listens on port 9.
_LISTED: Final = """
locale      LC_ALL=tr_TR.UTF-8 LANG=de_DE@euro LANGUAGE=xx TZ=Pacific/Kiritimati
output      NO_COLOR=1 FORCE_COLOR=1 PY_COLORS=1 CLICOLOR_FORCE=1 CI=1 TERM=dumb COLUMNS=20 LINES=5
shell       CDPATH=/:/tmp POSIXLY_CORRECT=1 BASH_ENV=/nowhere ENV=/nowhere HOME=/nowhere
python      PYTHONPATH=/nowhere PYTHONHOME=/nowhere PYTHONSTARTUP=/nowhere VIRTUAL_ENV=/nowhere
python      PYTHONINSPECT=1 PYTHONOPTIMIZE=1 PYTHONSAFEPATH=1 PYTHONDEVMODE=1 PYTHONHASHSEED=7
python      PYTHONUTF8=0 PYTHONIOENCODING=latin-1 PYTHONCOERCECLOCALE=0 PYTHONINTMAXSTRDIGITS=640
python      PYTHONWARNINGS=error PYTHONWARNDEFAULTENCODING=1 PYTHONDONTWRITEBYTECODE=1
packages    PYTEST_ADDOPTS=--no-such-option PYTEST_PLUGINS=nowhere HYPOTHESIS_PROFILE=none
packages    PIP_TARGET=/nowhere PIP_USER=1 MYPYPATH=/nowhere MYPY_CACHE_DIR=/nowhere/cache
packages    RUFF_OUTPUT_FORMAT=none FASTMCP_LOG_LEVEL=none FASTMCP_PORT=none
network     http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 no_proxy=example.com
network     HTTP_PROXY=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=example.com
network     all_proxy=http://127.0.0.1:9 ALL_PROXY=http://127.0.0.1:9 NETRC=/nowhere
tls         SSL_CERT_FILE=/nowhere SSL_CERT_DIR=/nowhere SSLKEYLOGFILE=/nowhere/keys
tls         OPENSSL_CONF=/nowhere REQUESTS_CA_BUNDLE=/nowhere CURL_CA_BUNDLE=/nowhere
host        A0_SET_mcp_servers={"mcpServers":{"x":{}}} REFERENCE_HOST_ROOT=/nowhere
host        A0_SET_agent_guild_preflight__timeout_seconds=1 A0_SET_AGENT_PROFILE=developer
others      XDG_CONFIG_HOME=/nowhere XDG_CACHE_HOME=/nowhere GIT_DIR=/nowhere GIT_WORK_TREE=/nowhere
"""
ODD_VARIABLES: Final = dict(
    word.split("=", 1) for line in _LISTED.split("\n") for word in line.split()[1:]
)


def _do_nothing() -> None:
    pass


@dataclass(frozen=True)
class Start:
    """One odd start.

    Attributes:
        odd: what is odd about it.
        inherit: changes what the process inherits; called in the process that becomes the command.
        variables: what its environment has besides the caller's.
        is_bare: its environment has only PATH.
        is_on_terminal: its streams are a terminal.
    """

    odd: str
    inherit: Callable[[], None] = _do_nothing
    variables: Mapping[str, str] = field(default_factory=dict)
    is_bare: bool = False
    is_on_terminal: bool = False

    def environment(self, folder: str) -> dict[str, str]:
        """Return the environment of the command; temporary files go into `folder`."""
        caller = {"PATH": os.environ["PATH"]} if self.is_bare else dict(os.environ)
        return {**caller, **self.variables, **({} if self.is_bare else {"TMPDIR": folder})}


def _ignore_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    os.chdir("/")


def _close_and_mask() -> None:
    os.umask(0o077)
    os.close(0)


def _unmask() -> None:
    os.umask(0)


def _run_out_of_files() -> None:
    for _ in range(FILES_OPEN):
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_AT_MOST, FILES_AT_MOST))


STARTS: Final[Mapping[str, Start]] = {
    "signals": Start("every signal ignored and blocked, in the top folder", _ignore_signals),
    "bare": Start(
        "no variable but PATH, standard input closed, umask 077", _close_and_mask, is_bare=True
    ),
    "variables": Start(
        "a great many variables, on a terminal, umask 000, a temporary folder with blanks",
        _unmask,
        ODD_VARIABLES,
        is_on_terminal=True,
    ),
    "files": Start(
        f"{FILES_OPEN} files open, at most {FILES_AT_MOST} may be, no terminal", _run_out_of_files
    ),
}


def play(name: str, command: Sequence[str]) -> tuple[int, str]:
    """Run a command as a start does.

    Args:
        name: the start's.
        command: its absolute path and its arguments.

    Returns:
        Its exit code and what it has printed.
    """
    start = STARTS[name]
    # -I: our own Python heeds none of the variables; the command gets them all.
    words = [sys.executable, "-I", __file__, BECOME, name, *command]
    run = on_a_terminal if start.is_on_terminal else _through_a_pipe
    with tempfile.TemporaryDirectory(prefix="an odd start ") as folder:
        return run(words, environment=start.environment(folder))


def _through_a_pipe(words: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, str]:
    ended = subprocess.run(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return ended.returncode, ended.stdout.decode(errors="replace")


def _become(name: str, command: Sequence[str]) -> None:
    """Turn into a command, as a start does."""
    STARTS[name].inherit()
    os.execv(command[0], [*command])


def main() -> int:
    """Run the command as each start does; return 0 if it always ended with exit code 0."""
    listed = "\n".join(f"  {name:<10} {start.odd}" for name, start in STARTS.items())
    parser = argparse.ArgumentParser(
        description="Runs a command as nobody would start it.",
        epilog=f"starts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=STARTS, help="this start, and no other")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: release-support/test")
    arguments = parser.parse_args()
    program, *more = arguments.command or [SUITE]
    command = [os.path.abspath(shutil.which(program) or program), *more]
    failed = 0
    for name in arguments.only or STARTS:
        print(f"{name}: {STARTS[name].odd}", flush=True)
        began = time.monotonic()
        code, output = play(name, command)
        failed += code != 0
        said = output.rstrip()
        if code == 0:
            said = said.rpartition("\n")[2]
        print(f"{said}\nexit code {code}, {time.monotonic() - began:.0f} s\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == [BECOME]:
        _become(sys.argv[2], sys.argv[3:])
    sys.exit(main())
