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
        self._name, self._data = "message", list[str]()
        self._lines_left, self._events_left = MAX_LINES, MAX_EVENTS

    def feed(self, piece: bytes) -> Iterator[tuple[str, str]]:
        """Give the events that `piece` completes, each as `(event name, data)`.

        Raises `BoundReached` when there are too many.
        """
        for line in self._complete_lines(piece):
            self._lines_left -= 1
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                self._name = value
            elif field == "data":
                self._data.append(value)
            elif not line:
                if self._data:
                    self._events_left -= 1
                    yield self._name, "\n".join(self._data)
                self._name, self._data = "message", []
            if self._lines_left < 0 or self._events_left < 0:
                raise BoundReached

    def _complete_lines(self, piece: bytes) -> list[str]:
        """Return the lines that `piece` completes, without their ends; keep what is left over."""
        self._pending += piece
        if b"\n" not in piece:
            return []
        *lines, rest = self._pending.split(b"\n")
        self._pending[:] = rest
        return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines]
