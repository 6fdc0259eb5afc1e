"""One request for many callers: requests on their way, and the callers that wait for them.

The framework runs its agents in several threads, each with an event loop of its own that
may end at any moment. A request that many callers share must belong to none of them.

Rules of this module:

1. Requests run on one thread of our own, with one loop. It starts with the first request
   and ends when none has come for a while, so that reloaded modules leave nothing behind.
2. A caller joins the request of the same key, or begins one. A request can be joined until
   the deadline of the caller that began it, and it ends by the latest deadline of those
   that joined: a hung connection catches nobody who comes later, and every caller makes
   at most one request.
3. An unshared request has one caller and ends with it.
4. A caller may look at more than one deadline: at each it gets the result, or what is overdue.
   Its last one counts for rule 2.
5. A caller that is cancelled, or whose loop is dead, fails and delays nobody.
6. At most 32 connections are open at once; the wait for one is part of the deadline.
7. Nothing raises across threads. What a request raises reaches its callers as a value of the
   type `Unforeseen`.

The module imports nothing of the framework.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

from ..exceptions import Unforeseen, unforeseen

MAX_CONNECTIONS: Final = 32
IDLE_SECONDS: Final = 10.0


class Work(Protocol):
    """What a request does."""

    async def run(self) -> Any:
        """Return the result; runs on the loop of the requests."""

    def overdue(self) -> Any:
        """Return the result for a caller whose deadline has passed; called in any thread."""


class InFlight:
    """One request on its way."""

    def __init__(self, work: Work, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare a request.

        Args:
            work: what is to be done.
            deadline: when it can no longer be joined, in seconds of `time.monotonic`.
            loop: where it will be done.
        """
        self.work = work
        self.joinable_until = deadline
        self.latest_deadline = deadline
        self.loop = loop
        self.waiters: list[asyncio.Future[Any]] = []
        self.result: Any = Unforeseen("CancelledError")  # until there is another
        self.task: asyncio.Task[None] | None = None
        self.timeout: asyncio.Timeout | None = None

    async def run(self, slots: asyncio.Semaphore) -> None:
        """Do the work, within the deadline and as soon as there is a slot."""
        try:
            try:
                async with asyncio.timeout(self.latest_deadline - time.monotonic()) as self.timeout:
                    async with slots:
                        self.result = await self.work.run()
            except TimeoutError:
                self.result = self.work.overdue()
        except Exception as error:
            self.result = unforeseen(error)

    def extend(self) -> None:
        """Let the request last until its latest deadline."""
        if self.timeout is not None:
            left = self.latest_deadline - time.monotonic()
            with contextlib.suppress(RuntimeError):  # it has ended, or is ending, already
                self.timeout.reschedule(self.loop.time() + left)

    def abandon(self) -> None:
        """End the request of a single caller; in any thread, and without taking a lock.

        The collector may call it, when it finds the coroutine of a caller whose loop is
        dead, and it may do so in a thread that holds the lock.
        """
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the request before it
            self.loop.call_soon_threadsafe(lambda: self.task and self.task.cancel())


class Joined:
    """A caller that has joined a request; used in a `with` block, which it leaves at the end."""

    def __init__(self, waiter: asyncio.Future[Any], in_flight: InFlight | None, is_alone: bool):
        """Join the request.

        Args:
            waiter: gets the result, on the caller's loop.
            in_flight: the request; None where there is a result without one.
            is_alone: nobody else has joined it.
        """
        self._began = time.monotonic()
        self._waiter = waiter
        self._in_flight = in_flight
        self._is_alone = is_alone

    def __enter__(self) -> Joined:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_alone and self._in_flight is not None:
            self._in_flight.abandon()

    async def result(self, seconds: float) -> Any:
        """Return the result, as soon as there is one.

        Args:
            seconds: the deadline, in seconds from when it was joined; at most the one that
                was named then.

        Returns:
            What was recalled, what the work returned, its `overdue` result at the deadline,
            or an `Unforeseen` where the work raised or was cancelled.
        """
        if not self._waiter.done():
            left = self._began + seconds - time.monotonic()
            try:
                await asyncio.wait([self._waiter], timeout=max(0.0, left))
            except asyncio.CancelledError:
                self._waiter.cancel()
                raise
        if self._in_flight is not None and not self._waiter.done():
            return self._in_flight.work.overdue()
        return self._waiter.result()


class SingleFlight:
    """All requests on their way, and the thread that they run on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[Hashable, InFlight] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore  # of the loop, made with it
        self._active = 0

    def join(
        self,
        key: Hashable | None,
        seconds: float,
        prepare: Callable[[], Work],
        recall: Callable[[], Any] = lambda: None,
    ) -> Joined:
        """Join a request of the same key, or begin one; on the loop of the caller.

        Args:
            key: requests of the same key are shared; None is never shared.
            seconds: the caller's own last deadline, from now.
            prepare: returns the work when there is no request to join.
            recall: returns what an earlier request left behind and is good enough for this
                caller, or None. Checked first, under the lock that guards joining, so no
                caller waits for or repeats a request already answered.

        Returns:
            What the caller has joined.
        """
        waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            recalled = recall()
            if recalled is not None:
                waiter.set_result(recalled)
                return Joined(waiter, None, is_alone=True)
            in_flight = self._join(key, seconds, prepare)
            in_flight.waiters.append(waiter)
        return Joined(waiter, in_flight, is_alone=key is None)

    def _join(self, key: Hashable | None, seconds: float, prepare: Callable[[], Work]) -> InFlight:
        """Return the request to wait for; the lock is held."""
        now = time.monotonic()
        deadline = now + seconds
        in_flight = self._by_key.get(key) if key is not None else None
        if in_flight is None or in_flight.joinable_until <= now:
            return self._begin(key, deadline, prepare())
        if deadline > in_flight.latest_deadline:
            in_flight.latest_deadline = deadline
            in_flight.loop.call_soon_threadsafe(in_flight.extend)
        return in_flight

    def _begin(self, key: Hashable | None, deadline: float, work: Work) -> InFlight:
        if self._loop is None:
            self._loop = _start_loop()
            self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        in_flight = InFlight(work, deadline, self._loop)
        self._active += 1
        if key is not None:
            self._by_key[key] = in_flight
        self._loop.call_soon_threadsafe(self._start, key, in_flight)
        return in_flight

    def _start(self, key: Hashable | None, in_flight: InFlight) -> None:
        in_flight.task = in_flight.loop.create_task(in_flight.run(self._slots))
        # A callback: a task that is cancelled before its first step never reaches a `finally`.
        in_flight.task.add_done_callback(lambda _: self._finish(key, in_flight))

    def _finish(self, key: Hashable | None, in_flight: InFlight) -> None:
        with self._lock:
            if self._by_key.get(key) is in_flight:
                del self._by_key[key]
            waiters, in_flight.waiters = in_flight.waiters, []
            self._active -= 1
            if not self._active:
                in_flight.loop.call_later(IDLE_SECONDS, self._retire, in_flight.loop)
        for waiter in waiters:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits there any more
                waiter.get_loop().call_soon_threadsafe(_deliver, waiter, in_flight.result)

    def _retire(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if not self._active and self._loop is loop:
                self._loop = None
                loop.stop()


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    threading.Thread(target=run, name="agent_guild_preflight", daemon=True).start()
    return loop


def _deliver(waiter: asyncio.Future[Any], result: Any) -> None:
    if not waiter.done():
        waiter.set_result(result)
