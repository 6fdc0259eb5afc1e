"""How is a function of the framework stood in front of, and taken away again?

Rules of this module:

1. Ours stands in front only while somebody holds the seam.
2. Whatever somebody else has put there before or meanwhile stays. What cannot be taken away from
   under it lets everything through.
3. Copies of this module, as after a reload, know each other by a mark. The last one to leave takes
   away what is idle below it.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final
from weakref import WeakSet

MARK: Final = "agent_guild_preflight_seam"


class Seam:
    """The place of one attribute of a class, with ours in front of it while it is held.

    Attributes:
        ours: what we have put in place last; it may be gone, or below something else.
        theirs: what it stands in front of.
    """

    def __init__(
        self, owner: type[Any], attribute: str, in_front_of: Callable[[Any], Callable[..., Any]]
    ) -> None:
        """Know the place; nothing is put there yet.

        Args:
            owner: a class of the framework.
            attribute: the name of one of its functions.
            in_front_of: makes ours for what is there: a function, or a class method.
        """
        self.ours: Any = None
        self.theirs: Any = None
        self._owner = owner
        self._attribute = attribute
        self._in_front_of = in_front_of
        # Who is dropped without leaving, as with a cancelled call, holds nothing any more.
        self._holders: WeakSet[object] = WeakSet()
        self._lock = threading.Lock()

    @property
    def holds(self) -> int:
        """How many hold the seam now."""
        return len(self._holders)

    def enter(self, holder: object) -> None:
        """Put ours in front, unless it is there."""
        with self._lock:
            there = vars(self._owner)[self._attribute]
            if there is not self.ours:
                self._put_before(there)
            self._holders.add(holder)

    def leave(self, holder: object) -> None:
        """Take ours away with the last hold, unless somebody has put something before it."""
        with self._lock:
            self._holders.discard(holder)
            if not self._holders and vars(self._owner)[self._attribute] is self.ours:
                setattr(self._owner, self._attribute, behind(self.ours, idle_only=True))

    def _put_before(self, there: Any) -> None:
        if self.ours is None or there is not self.theirs:
            ours = self._in_front_of(there)
            setattr(getattr(ours, "__func__", ours), MARK, self)
            self.ours, self.theirs = ours, there
        setattr(self._owner, self._attribute, self.ours)


def behind(there: Any, *, idle_only: bool = False) -> Any:
    """Return what stands behind ours, and behind that of every other copy of this module.

    Args:
        there: what is in the place of a function.
        idle_only: stop at the first that is held.
    """
    while True:
        seam = getattr(getattr(there, "__func__", there), MARK, None)
        # A wrapper may have copied the mark, and is not to be passed over.
        if seam is None or seam.ours is not there or (idle_only and seam.holds):
            return there
        there = seam.theirs


def was_written_in(module: ModuleType, function: Any) -> bool:
    """Whether a function was written in a module; one that wraps it was not."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and code.co_filename == module.__file__
