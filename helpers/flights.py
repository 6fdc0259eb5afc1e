"""Requests on their way, and the callers that wait for them.

The framework runs its agents in several threads, each with an event loop of its own that
may end at any moment. A request that many callers share must belong to none of them.

Rules of this module:

1. Requests run on one thread of our own, with one loop. It starts with the first request
   and ends when none has come for a while, so that reloaded modules leave nothing behind.
2. A caller joins the flight of the same key, or starts one. A flight can be joined until
   the deadline of the caller that started it, and it ends by the latest deadline of those
   that joined: a hung connection catches nobody who comes later, and every caller makes
   at most one request.
3. An unshared flight has one caller and ends with it.
4. A caller that is cancelled, or whose loop is dead, fails and delays nobody.
5. At most 32 connections are open at once; the wait for one is part of the deadline.

A flight always ends with an `Outcome`; nothing raises across threads. The module imports
nothing of the framework.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, Protocol

MAX_CONNECTIONS: Final = 32
IDLE_SECONDS: Final = 10.0


class Cargo(Protocol):
    """What a flight carries."""

    async def run(self) -> Any:
        """Do the work on the flights' loop. What it raises ends the flight without outcome."""

    def overdue(self) -> Any:
        """Give the outcome for a caller whose deadline has passed; called in any thread."""


class Flight:
    """One request on its way."""

    def __init__(self, cargo: Cargo, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare a flight.

        Args:
            cargo: what is to be done.
            deadline: when it can no longer be joined, in seconds of `time.monotonic`.
            loop: where it will be done.
        """
        self.cargo = cargo
        self.joinable_until = deadline
        self.latest_deadline = deadline
        self.loop = loop
        self.waiters: list[asyncio.Future[Any]] = []
        self.outcome: Any = None
        self.task: asyncio.Task[None] | None = None
        self.timeout: asyncio.Timeout | None = None

    async def fly(self, slots: asyncio.Semaphore) -> None:
        """Do the work, within the deadline and as soon as there is a slot."""
        try:
            async with asyncio.timeout(self.latest_deadline - time.monotonic()) as self.timeout:
                async with slots:
                    self.outcome = await self.cargo.run()
        except TimeoutError:
            self.outcome = self.cargo.overdue()
        except Exception:
            self.outcome = None  # unforeseen: the waiters learn that, and nothing else, from None

    def extend(self) -> None:
        """Let the flight last until its latest deadline."""
        if self.timeout is not None:
            left = self.latest_deadline - time.monotonic()
            with contextlib.suppress(RuntimeError):  # it has ended, or is ending, already
                self.timeout.reschedule(self.loop.time() + left)

    def abandon(self) -> None:
        """End the flight of a single caller; in any thread, and without taking a lock.

        The collector may call it, when it finds the coroutine of a caller whose loop is
        dead, and it may do so in a thread that holds the lock.
        """
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the flight before it
            self.loop.call_soon_threadsafe(lambda: self.task and self.task.cancel())


class Flights:
    """All flights of the process, and the thread that they run on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[Hashable, Flight] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._active = 0

    async def outcome(
        self,
        key: Hashable | None,
        seconds: float,
        prepare: Callable[[], Cargo],
        recall: Callable[[], Any] = lambda: None,
    ) -> Any:
        """Wait for the outcome of a flight.

        Args:
            key: flights of the same key are shared; None is never shared.
            seconds: the caller's own deadline, from now.
            prepare: makes the cargo when there is no flight to join.
            recall: gives what an earlier flight left behind and is good enough for this
                caller, or None. Asked first of all, at one with joining: nobody waits, or
                starts a second flight, for what is there already.

        Returns:
            What was recalled, what the cargo gave, its `overdue` outcome at the deadline,
            or None when the cargo raised.
        """
        with self._lock:
            recalled = recall()
            if recalled is not None:
                return recalled
            waiter = asyncio.get_running_loop().create_future()
            flight = self._board(key, seconds, prepare)
            flight.waiters.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                return await waiter
        except TimeoutError:
            return flight.cargo.overdue()
        finally:
            if key is None:
                flight.abandon()

    def _board(self, key: Hashable | None, seconds: float, prepare: Callable[[], Cargo]) -> Flight:
        """Give the flight to wait for; the lock is held."""
        now = time.monotonic()
        deadline = now + seconds
        flight = self._by_key.get(key) if key is not None else None
        if flight is None or flight.joinable_until <= now:
            return self._take_off(key, deadline, prepare())
        if deadline > flight.latest_deadline:
            flight.latest_deadline = deadline
            flight.loop.call_soon_threadsafe(flight.extend)
        return flight

    def _take_off(self, key: Hashable | None, deadline: float, cargo: Cargo) -> Flight:
        if self._loop is None:
            self._loop = _start_loop()
            self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        flight = Flight(cargo, deadline, self._loop)
        self._active += 1
        if key is not None:
            self._by_key[key] = flight
        self._loop.call_soon_threadsafe(self._start, key, flight)
        return flight

    def _start(self, key: Hashable | None, flight: Flight) -> None:
        flight.task = flight.loop.create_task(flight.fly(self._slots))
        # A callback: a task that is cancelled before its first step never reaches a `finally`.
        flight.task.add_done_callback(lambda _: self._land(key, flight))

    def _land(self, key: Hashable | None, flight: Flight) -> None:
        with self._lock:
            if self._by_key.get(key) is flight:
                del self._by_key[key]
            waiters, flight.waiters = flight.waiters, []
            self._active -= 1
            if not self._active:
                flight.loop.call_later(IDLE_SECONDS, self._retire, flight.loop)
        for waiter in waiters:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits there any more
                waiter.get_loop().call_soon_threadsafe(_deliver, waiter, flight.outcome)

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


def _deliver(waiter: asyncio.Future[Any], outcome: Any) -> None:
    if not waiter.done():
        waiter.set_result(outcome)
