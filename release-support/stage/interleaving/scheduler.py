"""A scheduler of our own: one actor after another takes a step, in an order that is chosen.

Rules of this module:

1. A step of a dispatch ends where `point` is awaited; `awaits` puts one at every await of
   dispatcher and gate. What is ready in the loop runs first, in the loop's own order, so that all
   is at rest when the next step is chosen.
2. A step of any other actor is one step of its script: an edit, a cancel, a reload.
3. Within a step there are moments, see `moment`: where a file is read, an outside process may act;
   where the framework connects to servers, all others may go on.
4. No clock runs: no timer fires, and nothing is waited for. A task that nobody can wake any more
   ends the schedule as `Stuck`.

The module imports nothing of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

from .schedules import Choose

MAX_STEPS: Final = 2_000  # of one schedule; the longest takes a few hundred

Script = Generator[str, None, None]

# Whose task is running; unset while a script takes a step.
_running: Final[ContextVar[Task | None]] = ContextVar("running", default=None)


class Stuck(Exception):
    """A dispatch can go on no more, and nobody can wake it."""


class Actor(ABC):
    """Whoever takes steps.

    Attributes:
        name: as it stands in a schedule.
        next_step: what the next step is.
    """

    name: str
    next_step: str

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it has a step to take."""

    @abstractmethod
    def take_step(self) -> None:
        """Take the next step."""


class Edit(Actor):
    """Takes the steps of a script, which yields what comes next.

    Args:
        name: as it stands in a schedule.
        script: does a step after each of its yields.
        is_outside: an outside process or another thread, which may act within a step of others.
        is_possible: whether its next step has any sense.
    """

    def __init__(
        self,
        name: str,
        script: Script,
        *,
        is_outside: bool = False,
        is_possible: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name, self.is_outside = name, is_outside
        self._script, self._is_possible = script, is_possible
        self._is_over = False
        self.next_step = next(script)

    def is_ready(self) -> bool:
        return not self._is_over and self._is_possible()

    def take_step(self) -> None:
        Context().run(self._go_on)

    def _go_on(self) -> None:
        try:
            self.next_step = next(self._script)
        except StopIteration:
            self._is_over = True


class Task(Actor):
    """A task of the loop, which steps from one `point` to the next.

    Attributes:
        task: the task.
        answered: the awaits that have come to an end, of those that somebody wants to know of.
    """

    task: asyncio.Task[Any]

    def __init__(self, name: str, loop: Loop) -> None:
        self.name, self._loop = name, loop
        self.next_step = "begins"
        self.answered: set[str] = set()
        self._waits: asyncio.Future[None] | None = None

    def wait_at(self, label: str) -> asyncio.Future[None]:
        """Return what is to be awaited until the next step is this actor's."""
        self.next_step = label
        self._waits = waits = self._loop.create_future()
        return waits

    def is_ready(self) -> bool:
        return self._waits is not None and not self._waits.done()

    def take_step(self) -> None:
        assert self._waits is not None
        self._waits.set_result(None)
        self._loop.run_ready()


class Loop(asyncio.BaseEventLoop):
    """An event loop that stands still until it is told to run what is ready."""

    scheduler: Scheduler

    def time(self) -> float:
        return 0.0

    def create_task(  # type: ignore[override]
        self, work: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None
    ) -> asyncio.Task[Any]:
        """Make a task; one that no schedule names is a request of the gate."""
        actor = self.scheduler.adopt(name)
        context = copy_context()
        context.run(_running.set, actor)
        actor.task = asyncio.Task(work, loop=self, context=context)
        return actor.task

    def run_ready(self) -> None:
        """Run what is ready, and what that makes ready, in the order in which it became so."""
        ready: Any = self._ready  # type: ignore[attr-defined]
        while ready:
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be the running loop."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def forget(self) -> None:
        """Drop every timer."""
        self._scheduled.clear()  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context.get("exception") or RuntimeError(context["message"])


class Scheduler:
    """One schedule while it is played.

    Attributes:
        loop: where all tasks run.
        steps: what was done so far: whose step, and which.
        offered: what can be chosen now; None stands for going on within a step.
    """

    def __init__(self, loop: Loop, choose: Choose) -> None:
        self.loop = loop
        loop.scheduler = self
        self.steps: list[str] = []
        self.offered: list[Actor | None] = []
        self._where = ""
        self._choose = choose
        self._actors: list[Actor] = []
        self._tasks: list[Task] = []
        self._begun: list[asyncio.Task[Any]] = []
        self._moments = self._requests = 0

    @property
    def running(self) -> Task | None:
        """Whose task is running."""
        return _running.get()

    def begin(self, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Task:
        """Add a dispatch, whose first step begins it."""

        async def whole() -> Any:
            await self.point("begins")
            return await work()

        self._begun.append(self.loop.create_task(whole(), name=name))  # the loop keeps none
        self.loop.run_ready()
        return self._tasks[-1]

    def add(self, actor: Actor) -> None:
        """Add an actor that is no task."""
        self._actors.append(actor)

    def adopt(self, name: str | None) -> Task:
        """Return the actor of a new task."""
        if name is None:
            self._requests += 1
            actor = Task(f"request {self._requests}", self.loop)
            self._actors.insert(0, actor)  # it goes on first where all others are as likely
        else:
            actor = Task(name, self.loop)
            self._actors.append(actor)
        self._tasks.append(actor)
        return actor

    def lead(self, end: str) -> None:
        """Let each task in turn take its steps until the next one ends so."""
        for actor in self._tasks:
            while actor.is_ready() and not actor.next_step.endswith(end):
                self._take(actor)

    def play(self) -> None:
        """Take steps until nobody has any left.

        Raises:
            Stuck: a task has not ended.
        """
        last: Actor | None = None
        while options := self._ready(last):
            last = self._chosen(options)
            self._take(last)
        for actor in self._tasks:
            if not actor.task.done():
                raise Stuck(actor.name)

    def _ready(self, last: Actor | None) -> list[Actor]:
        """Return who may take the next step, first of all whoever took the last one."""
        ready = [actor for actor in self._actors if actor.is_ready()]
        if last is not None and last in ready:
            ready.remove(last)
            ready.insert(0, last)
        return ready

    def _chosen(self, options: list[Any]) -> Any:
        if len(options) == 1:
            return options[0]
        self.offered = options
        return options[self._choose(len(options))]

    def _take(self, actor: Actor) -> None:
        if len(self.steps) >= MAX_STEPS:
            raise Stuck("too many steps")
        self.steps.append(self.name_of(actor))
        actor.take_step()

    def name_of(self, actor: Actor) -> str:
        """Return the next step of an actor as it stands in a schedule."""
        return f"{actor.name}: {actor.next_step}{self._where}"

    async def point(self, label: str) -> None:
        """End the step of the running task here."""
        actor = _running.get()
        assert actor is not None
        await actor.wait_at(label)

    def has_answered(self, label: str) -> None:
        """Note that the running task has what it awaited there."""
        actor = _running.get()
        assert actor is not None
        actor.answered.add(label)

    def moment(self, label: str, *, is_long: bool = False) -> None:
        """Let others act within the step of the running task.

        Args:
            label: what the running task is about to do.
            is_long: all others may go on, not only those outside.
        """
        running = _running.get()
        if running is None:
            return
        self._moments += 1
        before, number = self._where, self._moments
        while others := self._others(is_long):
            self._where = f", as {running.name} {label} ({number})"
            chosen = self._chosen([None, *others])
            if chosen is None:
                break
            # The framework lets other tasks of its loop run while one of them connects.
            asyncio.tasks._leave_task(self.loop, running.task)
            self._take(chosen)
            asyncio.tasks._enter_task(self.loop, running.task)
        self._where = before

    def _others(self, is_long: bool) -> list[Actor]:
        """Return who may act; whoever is within a step is not ready."""
        return [
            actor
            for actor in self._actors
            if (is_long or (isinstance(actor, Edit) and actor.is_outside)) and actor.is_ready()
        ]

    def end(self) -> None:
        """End whatever is left, so that the loop can be used again."""
        for actor in self._tasks:
            actor.task.cancel()
        self.loop.run_ready()
        self.loop.forget()
