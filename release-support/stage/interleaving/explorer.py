"""Plays one scene in one schedule after another, until something does not hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from . import schedules
from .oracle import broken
from .scenes import Cast, Scene
from .scheduler import Stuck
from .schedules import Choose
from .world import World

# The step before which a tool is bound and no hook has been asked.
BOUND: Final = "call_extensions_async"


class Violation(NamedTuple):
    """A schedule in which something does not hold.

    Attributes:
        lines: what does not hold.
        steps: the schedule, one line a step.
    """

    lines: tuple[str, ...]
    steps: tuple[str, ...]


@dataclass
class Explored:
    """What came of the schedules of a scene; no two of them are the same.

    Attributes:
        exhaustive: how many lie within the bounds.
        random: how many others were played.
        violation: the last one, in which something does not hold.
        digest: of all of them, in the order in which they were played.
    """

    exhaustive: int = 0
    random: int = 0
    violation: Violation | None = None
    digest: bytes = b""


class Explorer:
    """Plays schedules of one scene in one world."""

    def __init__(self, world: World, scene: Scene) -> None:
        self._world, self._scene = world, scene
        self._violation: Violation | None = None
        self._seen: set[tuple[int, ...]] = set()
        self._digest = hashlib.sha256()

    def explore(self, depth: int, departures: int, walks: int, seed: str) -> Explored:
        """Play every schedule within the bounds, then random ones.

        Args:
            depth: at so many choices from the start each option is taken in turn.
            departures: wherever they are, so many choices may be others than the expected one.
            walks: how many further schedules are wanted.
            seed: equal seeds give equal walks.
        """
        explored = Explored()
        for bounds in ((0, departures), (depth, 0)):
            for taken in schedules.exhaustive(self.play, *bounds):
                explored.exhaustive += self._is_new(taken)
                if self._violation:
                    return self._seal(explored)
        explored.random = self._walk(walks, seed)
        return self._seal(explored)

    def _seal(self, explored: Explored) -> Explored:
        explored.violation, explored.digest = self._violation, self._digest.digest()
        return explored

    def _walk(self, walks: int, seed: str) -> int:
        """Play random schedules, until enough are new; return how many are."""
        new = 0
        for number in range(2 * walks):  # nearly all are new where there are many
            taken = schedules.walk(self.play, f"{seed} {number}")
            new += self._is_new(taken)
            if self._violation or new == walks:
                break
        return new

    def _is_new(self, taken: tuple[int, ...]) -> bool:
        """Whether a schedule was not played before."""
        if taken in self._seen:
            return False
        self._seen.add(taken)
        self._digest.update(bytes([len(taken) % 256, *taken]))
        return True

    def replay(self, steps: Sequence[str]) -> Violation | None:
        """Play the schedule of these steps; return what does not hold, if anything.

        Raises:
            ValueError: no schedule has these steps.
        """
        self.play(_Script(self._world, steps).choose)
        found = self._world.scheduler.steps
        if list(found) != list(steps):
            number = next(n for n, step in enumerate([*found, ""]) if [*steps, ""][n] != step)
            raise ValueError(f"step {number + 1} cannot be taken: {[*steps, 'the end'][number]}")
        return self._violation

    def play(self, choose: Choose) -> None:
        """Play one schedule and look at what came of it."""
        with self._world.network.loop.entered():
            lines = tuple(self._played(choose))
        if lines:
            self._violation = Violation(lines, tuple(self._world.scheduler.steps))

    def _played(self, choose: Choose) -> Iterator[str]:
        scene = self._scene
        scheduler = self._world.reset(
            choose, scene.config, scene.servers, scene.project, scene.service
        )
        cast = Cast(self._world, scheduler)
        try:
            scene.cast(cast)
            if scene.is_bound:
                scheduler.lead(BOUND)
            scheduler.play()
            yield from broken(self._world.ledger, cast.ended())
        except Stuck as stuck:
            yield f"{stuck}: can go on no more"
        finally:
            self._world.end()


class _Script:
    """Chooses what comes next in a list of steps."""

    def __init__(self, world: World, steps: Sequence[str]) -> None:
        self._world, self._steps = world, steps

    def choose(self, _: int) -> int:
        scheduler = self._world.scheduler
        done = len(scheduler.steps)
        wanted = self._steps[done] if done < len(self._steps) else ""
        for number, actor in enumerate(scheduler.offered):
            if actor is not None and scheduler.name_of(actor) == wanted:
                return number
        return 0
