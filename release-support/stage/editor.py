"""An outside process that edits a file at the worst moment: just after it has been read.

As a script it reads lines "<reads> <new file>" from standard input. For each it waits until the
file that it was given has been read that often, puts the new file in its place, and says so.
It learns of reads from the kernel (inotify), so it runs on Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

CLOSED_AFTER_READING = 0x10  # IN_CLOSE_NOWRITE
EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


class Editor:
    """The process, seen by whoever runs it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def edit_after(self, reads: int, new: Path) -> None:
        """Have the file replaced once it has been read; returns as soon as it is watched."""
        assert self._process.stdin is not None
        print(reads, new, file=self._process.stdin, flush=True)
        assert self._line() == "watching"

    def wait(self) -> None:
        """Wait until the file has been replaced."""
        assert self._line() == "edited"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextlib.contextmanager
def running(file: Path) -> Iterator[Editor]:
    """Run an editor of one file."""
    command = [sys.executable, __file__, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Editor(process)
        finally:
            process.kill()


def _main(file: str) -> None:
    for line in sys.stdin:
        reads, _, new = line.rstrip("\n").partition(" ")
        wait = _watch(file, int(reads))
        print("watching", flush=True)
        wait()
        os.replace(new, file)
        print("edited", flush=True)


def _watch(file: str, reads: int) -> Callable[[], None]:
    """Watch a file from now on; gives what waits until it has been read that often."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init()
    if libc.inotify_add_watch(watch, os.fsencode(file), CLOSED_AFTER_READING) < 0:
        raise OSError(ctypes.get_errno(), "the file cannot be watched")

    def wait() -> None:
        seen = 0
        while seen < reads:
            data = os.read(watch, 4096)
            while data:
                length = EVENT.unpack_from(data)[3]
                data = data[EVENT.size + length :]
                seen += 1
        os.close(watch)

    return wait


if __name__ == "__main__":
    _main(sys.argv[1])
