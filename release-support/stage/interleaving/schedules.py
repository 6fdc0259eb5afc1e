"""Which schedules are there? Choices, enumerated without knowing what is chosen.

Rules of this module:

1. A schedule is the sequence of its choices, each the number of an option. Option 0 is the
   expected one: whoever took the last step goes on. Any other is a departure.
2. `exhaustive` gives every schedule in which each choice before the depth is free and at most so
   many later ones are departures; each once, by construction: the next schedule is the last one
   with its last free choice advanced, and its beginning is replayed.
3. `walk` departs at random: some walks hardly ever, so that what is late is reached late, and others
   half of the time. The same seed gives the same walks.

The module imports nothing of the host and nothing of the other modules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

# Plays one schedule, asking `choose` with the number of options whenever there are several.
Choose = Callable[[int], int]
Play = Callable[[Choose], None]

EAGERNESS: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of walks, to depart at a choice


class UndeterminedError(Exception):
    """The same choices have not led to the same options."""


def exhaustive(play: Play, depth: int, departures: int) -> Iterator[tuple[int, ...]]:
    """Play every schedule within the bounds; give the choices of each once it is over.

    Args:
        play: plays one schedule; the same choices must lead to the same options.
        depth: every option is taken in turn at so many choices from the start.
        departures: at most so many of the later choices are departures.

    Raises:
        UndeterminedError: they did not.
    """
    taken: list[int] | None = []
    options: list[int] = []
    while taken is not None:
        told = _Told(taken, options)
        play(told.choose)
        yield tuple(told.taken)
        taken = _next(told.taken, told.options, depth, departures)
        options = told.options


def walk(play: Play, seed: str) -> tuple[int, ...]:
    """Play one schedule at random; give its choices.

    Args:
        play: plays one schedule.
        seed: equal seeds give equal choices.
    """
    chance = random.Random(seed)
    eagerness = chance.choice(EAGERNESS)
    taken: list[int] = []

    def choose(options: int) -> int:
        departs = chance.random() < eagerness
        taken.append(chance.randrange(1, options) if departs else 0)
        return taken[-1]

    play(choose)
    return tuple(taken)


def again(play: Play, taken: Sequence[int]) -> None:
    """Play a schedule that was played before.

    Args:
        play: plays one schedule.
        taken: the choices of it.
    """
    play(_Told(taken).choose)


class _Told:
    """Chooses as told, then always the expected option, and notes what there was to choose."""

    def __init__(self, told: Sequence[int], known: Sequence[int] = ()) -> None:
        self._told, self._known = told, known
        self.taken: list[int] = []
        self.options: list[int] = []

    def choose(self, options: int) -> int:
        number = len(self.taken)
        choice = 0
        if number < len(self._told):
            choice = self._told[number]
            if choice >= options or (self._known and self._known[number] != options):
                raise UndeterminedError(f"choice {number + 1} of {tuple(self._told)}")
        self.taken.append(choice)
        self.options.append(options)
        return choice


def _next(
    taken: Sequence[int], options: Sequence[int], depth: int, departures: int
) -> list[int] | None:
    """Return the beginning of the next schedule; None after the last."""
    left = [0] * len(taken)  # how many departures are left at each choice
    for number in range(len(taken)):
        left[number] = departures
        if number >= depth and taken[number]:
            departures -= 1
    for number in reversed(range(len(taken))):
        is_free = number < depth or left[number] > 0
        if is_free and taken[number] + 1 < options[number]:
            return [*taken[:number], taken[number] + 1]
    return None
