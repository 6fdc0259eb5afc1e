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

    def __init__(self, cargo: Cargo, deadline: float) -> None:
        """Prepare a flight.

        Args:
            cargo: what is to be done.
            deadline: when it can no longer be joined, in seconds of `time.monotonic`.
        """
        self.cargo = cargo
        self.joinable_until = deadline
        self.latest_deadline = deadline
        self.waiters: list[asyncio.Future[Any]] = []
        self.task: asyncio.Task[None] | None = None
        self.timeout: asyncio.Timeout | None = None


class Flights:
    """All flights of the process, and the thread that they run on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[Hashable, Flight] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: asyncio.Semaphore | None = None
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
            recall: gives what a flight that has just landed left behind, or None. Asked
                when there is no flight to join, so that nobody starts a second one.

        Returns:
            What was recalled, what the cargo gave, its `overdue` outcome at the deadline,
            or None when the cargo raised.
        """
        recalled, flight, waiter = self._board(key, seconds, prepare, recall)
        if recalled is not None:
            return recalled
        try:
            async with asyncio.timeout(seconds):
                return await waiter
        except TimeoutError:
            return flight.cargo.overdue()
        finally:
            self._leave(flight, waiter, alone=key is None)

    def _board(
        self,
        key: Hashable | None,
        seconds: float,
        prepare: Callable[[], Cargo],
        recall: Callable[[], Any],
    ) -> tuple[Any, Flight, asyncio.Future[Any]]:
        waiter = asyncio.get_running_loop().create_future()
        now = time.monotonic()
        deadline = now + seconds
        with self._lock:
            flight = self._by_key.get(key) if key is not None else None
            if flight is None or flight.joinable_until <= now:
                flight = Flight(prepare(), deadline)
                if (recalled := recall()) is not None:
                    return recalled, flight, waiter
                self._take_off(key, flight)
            flight.waiters.append(waiter)
            if deadline > flight.latest_deadline:
                flight.latest_deadline = deadline
                self._running_loop().call_soon_threadsafe(_extend, flight)
        return None, flight, waiter

    def _leave(self, flight: Flight, waiter: asyncio.Future[Any], *, alone: bool) -> None:
        with self._lock:
            if waiter in flight.waiters:
                flight.waiters.remove(waiter)
                if alone and self._loop is not None:
                    self._loop.call_soon_threadsafe(_cancel, flight)

    def _take_off(self, key: Hashable | None, flight: Flight) -> None:
        """Start a flight; the lock is held."""
        loop = self._running_loop()
        self._active += 1
        if key is not None:
            self._by_key[key] = flight
        loop.call_soon_threadsafe(self._start, key, flight)

    def _start(self, key: Hashable | None, flight: Flight) -> None:
        flight.task = asyncio.get_running_loop().create_task(self._fly(key, flight))

    async def _fly(self, key: Hashable | None, flight: Flight) -> None:
        result = None
        try:
            async with asyncio.timeout(flight.latest_deadline - time.monotonic()) as flight.timeout:
                assert self._slots is not None
                async with self._slots:
                    result = await flight.cargo.run()
        except TimeoutError:
            result = flight.cargo.overdue()
        except Exception:
            result = None  # unforeseen: the waiters learn that, and nothing else, from None
        finally:
            self._land(key, flight, result)

    def _land(self, key: Hashable | None, flight: Flight, result: Any) -> None:
        with self._lock:
            if self._by_key.get(key) is flight:
                del self._by_key[key]
            waiters, flight.waiters = flight.waiters, []
            self._active -= 1
            if not self._active:
                asyncio.get_running_loop().call_later(IDLE_SECONDS, self._retire)
        for waiter in waiters:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody waits there any more
                waiter.get_loop().call_soon_threadsafe(_deliver, waiter, result)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Give the flights' loop; the lock is held."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
            threading.Thread(
                target=_run, args=(self._loop,), name="agent_guild_preflight", daemon=True
            ).start()
        return self._loop

    def _retire(self) -> None:
        with self._lock:
            loop = asyncio.get_running_loop()
            if not self._active and self._loop is loop:
                self._loop = None
                loop.stop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _extend(flight: Flight) -> None:
    if flight.timeout is not None:
        left = flight.latest_deadline - time.monotonic()
        with contextlib.suppress(RuntimeError):  # it has ended, or is ending, already
            flight.timeout.reschedule(asyncio.get_running_loop().time() + left)


def _cancel(flight: Flight) -> None:
    if flight.task is not None:
        flight.task.cancel()


def _deliver(waiter: asyncio.Future[Any], result: Any) -> None:
    if not waiter.done():
        waiter.set_result(result)
