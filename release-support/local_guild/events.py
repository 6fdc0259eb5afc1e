"""Server-sent events, bounded.

Rules this module keeps:

1. Lines end in LF or CRLF; an event that the stream breaks off in is dropped.
2. A stream has at most `MAX_LINES` lines and `MAX_EVENTS` events. Its bytes are bounded by the
   exchange.
3. Only new bytes are looked at, so that a stream that drips does not cost more with every drop.
"""

from collections.abc import Iterator

from .allowance import BoundReached

MAX_LINES = 512
MAX_EVENTS = 64


class Events:
    """The events of one stream, as its pieces come in."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._name, self._data = "message", list[bytes]()
        self._lines_left, self._events_left = MAX_LINES, MAX_EVENTS

    def feed(self, piece: bytes) -> Iterator[tuple[str, bytes]]:
        """Give the events that `piece` completes, each as `(event name, data)`.

        Raises `BoundReached` when there are too many.
        """
        for line in self._complete_lines(piece):
            self._lines_left = _count_down(self._lines_left)
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                self._name = value.decode("utf-8", "replace")
            elif field == b"data":
                self._data.append(value)
            elif not line:
                if self._data:
                    self._events_left = _count_down(self._events_left)
                    yield self._name, b"\n".join(self._data)
                self._name, self._data = "message", []

    def _complete_lines(self, piece: bytes) -> list[bytes]:
        """Return the lines that `piece` completes, without their ends; keep what is left over."""
        self._pending += piece
        if b"\n" not in piece:
            return []
        *lines, rest = self._pending.split(b"\n")
        self._pending[:] = rest
        return [bytes(line.removesuffix(b"\r")) for line in lines]


def _count_down(left: int) -> int:
    if not left:
        raise BoundReached
    return left - 1
