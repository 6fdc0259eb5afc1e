"""What may be told of an exception: its class, and the line of ours where it was raised.

Rules of this module:

1. The text of an exception may hold anything, so it is never read.
2. A line is told as a module of this plugin and a number. Where no line of ours took part,
   there is none. No path of the machine is told.
3. What is told survives another thread: `UnforeseenError` carries it there.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

MAX_CLASS_CHARACTERS: Final = 64

_HELPERS: Final = Path(__file__).parent


class Unforeseen(NamedTuple):
    """Where an exception that nobody foresaw was raised.

    Attributes:
        exception: the name of its class, in ASCII.
        module: our innermost module on its way, as "guild_preflight.contract"; "" for none.
        line: the line in it, counted from 1; 0 for none.
    """

    exception: str
    module: str = ""
    line: int = 0

    def __str__(self) -> str:
        if not self.module:
            return self.exception
        return f"{self.exception} in {self.module}, line {self.line}"


class UnforeseenError(Exception):
    """Something unforeseen happened, maybe in another thread.

    Attributes:
        origin: the exception that it stands for, and where that was raised.
    """

    def __init__(self, origin: Unforeseen) -> None:
        super().__init__(str(origin))
        self.origin = origin


def unforeseen(error: BaseException) -> Unforeseen:
    """Return what may be told of an exception.

    Args:
        error: any exception, with its traceback.

    Returns:
        Its class and our innermost line; those of the first exception, where `error` only
        carries it from another thread.
    """
    if isinstance(error, UnforeseenError):
        return error.origin
    name = type(error).__name__.encode("ascii", "backslashreplace").decode()
    return Unforeseen(name[:MAX_CLASS_CHARACTERS], *_innermost(error.__traceback__))


def chain(error: BaseException) -> Iterator[BaseException]:
    """Return an exception and each one that it was raised from or during, the latest first."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _innermost(traceback: TracebackType | None) -> tuple[str, int]:
    """Return our innermost module on the way of a traceback, and the line in it."""
    found = ("", 0)
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.is_relative_to(_HELPERS):
            module = ".".join(file.relative_to(_HELPERS).with_suffix("").parts)
            found = (module, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
