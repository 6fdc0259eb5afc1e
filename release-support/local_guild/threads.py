"""Threads for what a loop cannot wait for by itself: look-ups of names, handshakes of TLS.

Rules this module keeps:

1. Each job has a thread of its own, so none waits behind another's: how long a look-up takes is
   the choice of whoever owns the name.
2. There are at most `MAX_THREADS` at once. A job beyond these is refused.
3. No thread keeps the process from ending.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

MAX_THREADS = 256

P = ParamSpec("P")
T = TypeVar("T")


# A loop takes nothing but a pool for its own executor; of the pool, only the type is used.
class Threads(ThreadPoolExecutor):
    """An executor for `asyncio` that keeps the rules above."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._free = threading.Semaphore(MAX_THREADS)

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start `work` at once.

        Raises `RuntimeError` if no thread is to be had.
        """
        if not self._free.acquire(blocking=False):
            raise RuntimeError("all threads are in use")
        future: Future[T] = Future()

        def run() -> None:
            try:
                _settle(future, lambda: work(*args, **kwargs))
            finally:
                self._free.release()

        try:
            threading.Thread(target=run, name="local-guild-job", daemon=True).start()
        except BaseException:
            self._free.release()
            raise
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nothing: see rule 3."""


def _settle(future: "Future[Any]", work: Callable[[], Any]) -> None:
    """Do `work` and give `future` what comes of it, unless it was cancelled before."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
