"""What of an HTTP/1.1 message is read with patterns, looked at before the HTTP library reads it.

h11 reads a header line, and the size line of a chunk, with patterns that take time with the square
of a run of blanks where the line is none in the end. It holds the whole interpreter meanwhile.

Rules of this module:

1. Refused is only what h11 refuses too: a head or a trailer with a byte that none may have, and a
   size line with a line feed of its own. Without these its patterns take as long as the text.
2. A message without such a fault passes as it is. A body passes unread, whatever it holds, but for
   the size lines and the trailer of a chunked one.
3. What stood before a fault may still be read: it may claim something.
4. One object sees one message: a connection is for one answer.
5. A head, a size line or a trailer has at most `MAX_SECTION_BYTES`.

The local service reads this file from its place. So it imports nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

MAX_SECTION_BYTES: Final = 100 * 1024

_SECTION_END = re.compile(rb"\n\r?\n")
_NEVER = re.compile(rb"[\0\v\f]|\r(?!\n)")
_CHUNKED = re.compile(rb"(?i)\ntransfer-encoding:")
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,20}")
_STATUS_AT: Final = len("HTTP/1.1 ")


class Malformed(Exception):
    """What goes on is no HTTP."""


class Framing:
    """One message, up to where it has come."""

    def __init__(self, *, is_request: bool = False) -> None:
        """Begin before the head.

        Args:
            is_request: only the head is looked at, and no head follows another.
        """
        self._is_request = is_request
        self._is_broken = False
        self._pending = bytearray()  # from the section that is under way on
        self._looked_at = 0
        self._data_left = 0
        # Reads one section, and returns whether it was whole; None where all the rest passes.
        self._read_next: Callable[[], bool] | None = self._read_head

    def check(self) -> None:
        """Refuse to go on behind a fault.

        Raises:
            Malformed: there was one.
        """
        if self._is_broken:
            raise Malformed

    def take(self, data: bytes) -> bytes:
        """Look at what has come.

        Args:
            data: what follows what was taken before.

        Returns:
            It, up to the section with a fault.

        Raises:
            Malformed: nothing of it may be read.
        """
        self.check()
        if self._read_next is None:
            return data
        self._pending += data
        try:
            self._read_on()
        except Malformed:
            self._is_broken = True
            sound = data[: max(0, len(data) - len(self._pending))]
            if not sound:
                raise
            return sound
        return data

    def _read_on(self) -> None:
        while self._read_next is not None:
            if not self._read_next():
                if len(self._pending) > MAX_SECTION_BYTES:
                    raise Malformed
                return

    def _read_head(self) -> bool:
        head = self._section()
        if head is None:
            return False
        is_interim = head[_STATUS_AT : _STATUS_AT + 1] == b"1"
        if self._is_request or not is_interim:
            is_chunked = not self._is_request and _CHUNKED.search(head)
            self._read_next = self._read_size if is_chunked else None
        return True

    def _read_size(self) -> bool:
        end = self._pending.find(b"\n", self._looked_at)
        if end < 0:
            self._looked_at = len(self._pending)
            return False
        size = _SIZE.match(self._pending)
        if size is None or end >= MAX_SECTION_BYTES or self._pending[end - 1 : end] != b"\r":
            raise Malformed
        data_bytes = int(size[0], base=16)
        self._drop(end + 1)
        if data_bytes:
            self._data_left = data_bytes + len(b"\r\n")
            self._read_next = self._pass_data
        else:
            self._read_next = self._read_trailer
        return True

    def _pass_data(self) -> bool:
        passed = min(self._data_left, len(self._pending))
        self._drop(passed)
        self._data_left -= passed
        if self._data_left:
            return False
        self._read_next = self._read_size
        return True

    def _read_trailer(self) -> bool:
        if not self._pending.startswith((b"\n", b"\r\n")) and self._section() is None:
            return False
        self._read_next = None
        return True

    def _section(self) -> bytes | None:
        """Take the lines up to an empty one; None where that has not come yet.

        Raises:
            Malformed: they hold what none may hold, or are too long.
        """
        end = _SECTION_END.search(self._pending, self._looked_at)
        if end is None:
            self._looked_at = max(0, len(self._pending) - len(b"\n\r"))
            return None
        section = bytes(self._pending[: end.end()])
        if len(section) > MAX_SECTION_BYTES or _NEVER.search(section):
            raise Malformed
        self._drop(end.end())
        return section

    def _drop(self, count: int) -> None:
        del self._pending[:count]
        self._looked_at = 0
