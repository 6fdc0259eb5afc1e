"""What does an unusable answer claim? The warning that a broken answer still carries.

An operator may tolerate missing or broken evidence (`on_unavailable`). Even then an
answer that says "do not delegate" anywhere must not become a pass because it also broke
the contract. This room reads such an answer as far as it goes.

Rules of this module:

1. It reads text, not JSON: what is broken has no structure to rely on. Any bytes give
   claims, in time that grows with their number and no faster, and a megabyte gives them within
   some milliseconds: a caller's own loop may wait for them. What is full of words or of escaped
   letters is not read one by one; it claims everything.
2. It errs towards refusing. A verdict's word counts wherever it stands, prose included,
   in any spelling of JSON, in UTF-8, UTF-16 or UTF-32, however often a key is repeated.
3. It attributes nothing. A key or a value `failed`, but for an empty list of that name, may
   mean any check.
4. Only words of the contract are kept; no text of the answer leaves this room.

What cannot be read is not known: a compressed body, one that is no HTTP, and what follows
the first megabyte. The result only ever withholds a tolerance; it is never shown as
evidence. The module imports nothing of the framework.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..reasons import Reason, Refusal, SubReason
from .verdicts import Verdict

MAX_FAILED: Final = 1000  # a valid answer has it 71 times, prose aside: 70 checks, and one key
MAX_ESCAPED: Final = 10_000  # letters

_FAILED: Final = b"failed"
_ESCAPE: Final = b"\\u00"
# What a JSON text escapes as \u00xx: letters of ASCII, the underscore, and what stands among them.
_ESCAPED: Final = {b"%02x" % code: bytes([code]).lower() for code in range(0x40, 0x80)}
# Where a quotation mark stands before the word: the empty list of that name.
_NO_LIST = re.compile(rb"""failed[\s\\]{0,64}["']\s{0,64}:\s{0,64}\[\s{0,64}\]""")
# The end of a quoted text, of JSON within JSON, too; or that of the answer.
_QUOTE_ENDS = re.compile(rb"""[\s\\]{0,64}(?:["']|\Z)""")
_COLON = re.compile(rb"\s{0,64}[:=]")
_WORD_ENDS = re.compile(rb"(?!\w)")


@dataclass(frozen=True, slots=True)
class Claims:
    """What an answer claims anywhere.

    Attributes:
        verdicts: the verdicts it names.
        failed: it says that something has failed.
    """

    verdicts: frozenset[Verdict] = frozenset()
    failed: bool = False


NO_CLAIMS: Final = Claims()
ALL_CLAIMS: Final = Claims(frozenset(Verdict), failed=True)


class EvidenceUnavailable(Refusal):
    """The service gave no usable answer.

    Attributes:
        claims: the verdicts and failed checks that an unusable answer claims anyway.
    """

    def __init__(self, sub_reason: SubReason, claims: Claims) -> None:
        super().__init__(Reason.EVIDENCE_UNAVAILABLE, sub_reason)
        self.claims = claims


def read_claims(body: bytes) -> Claims:
    """Read what an answer claims, whatever else is wrong with it.

    Args:
        body: what was received, whole or not, in any encoding.

    Returns:
        The claims; `NO_CLAIMS` when there are none.
    """
    # Without its NUL bytes, UTF-16 or UTF-32 reads as the ASCII that it stands for.
    text = body.replace(b"\0", b"").lower()
    while b"\\\\" in text:  # JSON within JSON escapes a backslash, too, and within that again
        text = text.replace(b"\\\\", b"\\")
    if text.count(_ESCAPE) > MAX_ESCAPED or text.count(_FAILED) > MAX_FAILED:
        return ALL_CLAIMS
    text = _unescaped(text)
    return Claims(
        verdicts=frozenset(verdict for verdict in Verdict if verdict.encode() in text),
        failed=_says_failed(text),
    )


def _unescaped(text: bytes) -> bytes:
    """Return a text in small letters with its escaped letters as such."""
    first, *rest = text.split(_ESCAPE)
    letters = [_ESCAPED.get(part[:2], _ESCAPE + part[:2]) + part[2:] for part in rest]
    return first + b"".join(letters)


def _says_failed(text: bytes) -> bool:
    at = text.find(_FAILED)
    while at >= 0:
        if _is_claim(text, at):
            return True
        at = text.find(_FAILED, at + 1)
    return False


def _is_claim(text: bytes, at: int) -> bool:
    """Whether the word stands as a key or a value: quoted, or beside a colon."""
    end = at + len(_FAILED)
    before = text[max(0, at - 65) : at]
    if before.endswith((b'"', b"'")) and _NO_LIST.match(text, at):
        return False
    begins = before.rstrip()
    if begins.endswith((b'"', b"'")) and _QUOTE_ENDS.match(text, end):
        return True
    if begins.endswith((b":", b"=")) and _WORD_ENDS.match(text, end):
        return True
    return _COLON.match(text, end) is not None and not _is_word(before[-1:])


def _is_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_"
