"""Read some values of a large JSON text, and build none of the others.

A saved chat may have 60 MiB, with images in it. Parsed whole, it takes twenty times its size where
it is made of small values.

Rules of this module:

1. What is passed over is read as far as it has to be: texts, and which bracket closes which. Its
   grammar is not checked otherwise.
2. What is taken is parsed by the library, whole, and only where it is short enough.
3. Everything is bounded: the depth, and how many brackets and members are stepped over. Each
   pattern reads a character once.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

MAX_DEPTH: Final = 1000
MAX_STEPS: Final = 2_000_000  # about two seconds
STEPS_OF_A_MEMBER: Final = 8  # of an object or a list that is gone through
MAX_KEY_BYTES: Final = 1024  # a longer one is none that anybody looks for
CHUNK_BYTES: Final = 1024 * 1024

# Stands for a value that is too long to be taken, or no JSON.
NOT_TAKEN: Final = object()

_SPACE = re.compile(rb"[ \t\n\r]*+")
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S)
# As the library reads them: with NaN, and with at most 4,300 digits of a whole number.
_SCALAR = re.compile(
    rb"(?:-?(?:0|[1-9][0-9]{0,4299}+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
    rb"|true|false|null|NaN|-?Infinity)(?=[ \t\n\r,\]}]|$)"
)
# Up to the next bracket, but over objects and lists that hold none, which saves half of the steps.
_FLAT = rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
_TO_BRACKET = re.compile(
    rb"%b(?:(?:\[%b\]|{%b})%b)*+([\[\]{}])" % (_FLAT, _FLAT, _FLAT, _FLAT), re.S
)
_CLOSES: Final = {b"[": b"]", b"{": b"}"}


class NotRead(ValueError):
    """The text is no JSON in UTF-8, or is nested too deeply."""


class TooIntricate(Exception):
    """The text has more parts than are stepped over."""


class Cursor:
    """A place in a JSON text, at first that of its value.

    Wherever it stands before a value, exactly one of `members`, `items`, `take` and `skip` is
    called, and then it stands behind that value.
    """

    def __init__(self, text: bytes) -> None:
        """Begin.

        Args:
            text: the JSON text.

        Raises:
            NotRead: it is not UTF-8.
        """
        _require_utf8(text)
        self._text = text
        self._at = 0
        self._steps = 0

    @property
    def opens(self) -> bytes:
        """The first byte of the value, which says its type; none at the end of the text."""
        return self._next()

    def members(self) -> Iterator[str]:
        """Return the key of each member of an object, while the cursor stands before its value."""
        self._expect(b"{")
        if self._next() == b"}":
            self._at += 1
            return
        while True:
            key = self._key()
            self._expect(b":")
            yield key
            if self._ends(b"}"):
                return

    def items(self) -> Iterator[None]:
        """Stop before each item of a list."""
        self._expect(b"[")
        if self._next() == b"]":
            self._at += 1
            return
        while True:
            yield None
            if self._ends(b"]"):
                return

    def take(self, max_bytes: int) -> Any:
        """Return the value as parsed JSON, or `NOT_TAKEN`.

        Args:
            max_bytes: how long it may be.
        """
        self._next()
        begin = self._at
        self.skip()
        if self._at - begin > max_bytes:
            return NOT_TAKEN
        try:
            return json.loads(self._text[begin : self._at].decode())
        except (ValueError, RecursionError):
            return NOT_TAKEN

    def skip(self) -> None:
        """Pass over the value."""
        first = self._next()
        if first not in _CLOSES:
            self._at = self._match(_TEXT if first == b'"' else _SCALAR).end()
            return
        self._at += 1
        closing = [_CLOSES[first]]
        while closing:
            found = self._match(_TO_BRACKET)
            self._at = found.end()
            self._step()
            bracket = found[1]
            if bracket in _CLOSES:
                closing.append(_CLOSES[bracket])
                if len(closing) > MAX_DEPTH:
                    raise NotRead("nested too deeply")
            elif bracket != closing.pop():
                raise NotRead("a bracket closes another")

    def require_end(self) -> None:
        """Make sure that nothing follows.

        Raises:
            NotRead: something does.
        """
        if self._next():
            raise NotRead("something follows")

    def _next(self) -> bytes:
        """Pass over white space, and return the byte behind it."""
        self._at = self._match(_SPACE).end()
        return self._text[self._at : self._at + 1]

    def _expect(self, byte: bytes) -> None:
        if self._next() != byte:
            raise NotRead("something else is there")
        self._at += 1

    def _ends(self, bracket: bytes) -> bool:
        """Whether an object or a list ends here; if not, pass over the comma."""
        self._step(STEPS_OF_A_MEMBER)
        if self._next() == bracket:
            self._at += 1
            return True
        self._expect(b",")
        return False

    def _key(self) -> str:
        self._next()
        found = self._match(_TEXT)
        if b"\\" not in found[0]:
            self._at = found.end()
            return found[0][1:-1][:MAX_KEY_BYTES].decode(errors="replace")
        key = self.take(MAX_KEY_BYTES)
        return key if isinstance(key, str) else ""  # too long, or a text that there is not

    def _match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise NotRead("the text ends, or something else is there")
        return found

    def _step(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooIntricate


def _require_utf8(text: bytes) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for begin in range(0, len(text), CHUNK_BYTES):
            decoder.decode(text[begin : begin + CHUNK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise NotRead("not UTF-8") from None
