"""A terminal of its own for a command: some do otherwise on one."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from collections.abc import Mapping, Sequence


def on_a_terminal(command: Sequence[str], *, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command whose streams are a terminal.

    Args:
        command: the command and its arguments.
        environment: all the variables that it gets.

    Returns:
        Its exit code and what it has printed.
    """
    ours, theirs = pty.openpty()
    received = b""
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # Linux says EIO where others say end of file
            while data := os.read(ours, 65536):
                received += data
        os.close(ours)
    return process.returncode, received.decode(errors="replace").replace("\r\n", "\n")
