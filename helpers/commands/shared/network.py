"""What every command does that sends something: it says to whom first, and keeps its deadline.

Rules of this module:

1. Standard error says to whom. Where nobody can be told, nothing is sent.
2. A name lookup that runs cannot be ended. Nobody waits for it: neither the loop, nor the
   process at its end (see `__main__`).

The module imports nothing of the framework.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from .output import Exit

T = TypeVar("T")


def announce(text: str) -> None:
    """Say to whom something is about to be sent.

    Args:
        text: one line.

    Raises:
        SystemExit: standard error is closed or cannot be written to (code 2).
    """
    try:
        if sys.stderr is None:  # print would take standard output in its place
            raise OSError("standard error is closed")
        print(text, file=sys.stderr, flush=True)
    except OSError:
        raise SystemExit(int(Exit.USAGE)) from None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own.

    Args:
        work: the coroutine.

    Returns:
        What it gives. What it raises is raised.
    """
    import asyncio  # here, because every command imports this module

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()  # unlike `asyncio.run`, it does not wait for the loop's threads
