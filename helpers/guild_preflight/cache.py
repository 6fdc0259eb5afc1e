"""Which observations were made before, and how long ago?

Rules of this module:

1. Valid observations are kept, per origin and exact URL, at most 256 of them, the least
   recently used going first. Nothing else is kept: no failure is ever remembered.
2. The reader decides how old is fresh enough. A kept observation says that it is one, with the
   time at which it was made and its age.
3. Age runs on a clock that also runs while the machine sleeps.

The module imports nothing of the framework.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from .observation import Observation

MAX_KEPT_OBSERVATIONS: Final = 256

Key = tuple[str, str]  # the origin of the service, the URL


class ObservationCache:
    """The observations kept, by origin and URL. Safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[float, Observation]] = OrderedDict()

    def keep(self, key: Key, observation: Observation) -> None:
        """Keep an observation that was made just now."""
        with self._lock:
            self._kept[key] = (boot_seconds(), observation)
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_KEPT_OBSERVATIONS:
                self._kept.popitem(last=False)

    def fresh(self, key: Key, max_age_seconds: float) -> Observation | None:
        """Return the kept observation with its age, if it is younger than the maximum."""
        with self._lock:
            made, observation = self._kept.get(key, (0.0, None))
            if observation is None:
                return None
            age = boot_seconds() - made
            if not 0 <= age < max_age_seconds:
                return None
            self._kept.move_to_end(key)
        return observation.aged(age)


def boot_seconds() -> float:
    """Return the seconds of a clock that also runs while the machine sleeps."""
    return time.clock_gettime(_BOOT_CLOCK) if _BOOT_CLOCK is not None else time.monotonic()


# Linux counts sleep in CLOCK_BOOTTIME, macOS in CLOCK_MONOTONIC; Windows counts it in the
# clock behind time.monotonic and has neither.
_BOOT_CLOCK: Final[int | None] = getattr(
    time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None)
)
