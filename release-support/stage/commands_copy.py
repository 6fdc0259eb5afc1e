"""A copy of the commands of release-support, and a Python that only pretends to install."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from .boot import CHECKOUT, SUPPORT

COMMANDS: Final = ("bench", "check", "demo", "interleave", "mutate", "preflight", "test")
REQUIREMENTS: Final = ("requirements.txt", "requirements-dev.txt")
PATIENCE_SECONDS: Final = 60
TOOLS: Final = (
    *("env", "bash", "dirname", "basename", "readlink"),
    *("cksum", "cat", "rm", "mkdir", "cp"),
)


class Copy:
    """A copy of the commands, in a folder with blanks in its name, and a PATH of its own.

    Attributes:
        top, support: the copy, and its folder release-support.
        path: the only folder on PATH.
        gate: while there is a file, an install fails; a pipe holds it up.
        failing: a file that names the call of a tool that fails.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder / "a check out"
        self.support = self.top / "release-support"
        self.support.mkdir(parents=True)
        for name in ("environment", *COMMANDS, *REQUIREMENTS):
            shutil.copy(SUPPORT / name, self.support)
        shutil.copy(CHECKOUT / "plugin.yaml", self.top)
        self.path = folder / "bin"
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool) or tool)
        self.journal = folder / "journal"
        self.journal.touch()
        self.gate = folder / "gate"
        self.requirements = folder / "what pip was told"
        self.failing = folder / "failing"

    def add_python(self, name: str, version: tuple[int, int] = (3, 11)) -> Path:
        """Add a Python that pretends to be of a version, to make .venv, install and test."""
        fake = self.path / name
        pretence = f"import sys; sys.version_info = {version}; sys._base_executable = {str(fake)!r}"
        journal, gate = shlex.quote(str(self.journal)), shlex.quote(str(self.gate))
        requirements, failing = shlex.quote(str(self.requirements)), shlex.quote(str(self.failing))
        fake.write_text(
            f"""#!/usr/bin/env bash
            case "$1 $2" in
            "-m venv") mkdir -p "$3/bin"; cp {shlex.quote(str(fake))} "$3/bin/python";;
            "-m pip")
                echo "installed for {version[0]}.{version[1]}" >>{journal}
                echo "${{@:7}}" >{requirements}
                [ ! -e {gate} ] || {{ read -r word <{gate}; [ "$word" = open ]; }};;
            "-m pytest")
                shift 2
                echo "$PWD|$*|${{PYTHONPATH-unset}}|${{https_proxy-unset}}";;
            "-P -m")
                echo "$PWD|${{@:3}}|${{MYPYPATH-unset}}"
                [ ! -e {failing} ] || [ "$(cat {failing})" != "$3 $4" ];;
            */helpers" $2") echo "commands: ${{@:2}}";;
            *)  exec {shlex.quote(sys.executable)} -c {shlex.quote(pretence)}"
$2" "${{@:3}}";;
            esac
            """
        )
        fake.chmod(0o755)
        return fake

    def start(
        self, *arguments: str, command: Path | str = "test", **environment: str
    ) -> subprocess.Popen[str]:
        """Start a command: that of a name, or the one at a path."""
        return subprocess.Popen(
            [str(self.support / command), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.path,
            env={"PATH": str(self.path), **environment},
        )

    def run(
        self, *arguments: str, command: Path | str = "test", **environment: str
    ) -> tuple[int, str, str]:
        """Run a command: exit code, output, and its last line on stderr."""
        with self.start(*arguments, command=command, **environment) as process:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, output, (errors.splitlines() or [""])[-1]

    @property
    def installs(self) -> list[str]:
        return self.journal.read_text().splitlines()
