"""What does an unusable answer claim? The warning that a broken answer still carries.

An operator may tolerate missing or broken evidence (`on_unavailable`). Even then an
answer that says "do not delegate" anywhere must not become a pass because it also broke
the contract. This room reads such an answer as far as it goes.

Rules of this module:

1. It reads text, not JSON: what is broken has no structure to rely on. Any bytes give
   claims, in time that grows with their number and no faster.
2. It errs towards refusing. A verdict's word counts wherever it stands, prose included;
   repeated keys each count, so do objects that are cut off, and words in any escaped
   spelling, in UTF-8, UTF-16 or UTF-32.
3. A check counts as failed when its name stands beside a status `failed` or in a list
   `failed`. A failure without a name could be any check.
4. Only words of the contract are kept; no text of the answer leaves this room.

The result only ever withholds a tolerance; it is never shown as evidence. The module
imports nothing of the framework.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .verdicts import Check, Verdict

_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|(.))", re.DOTALL)
_VERDICT = re.compile("|".join(Verdict))
_BRACE = re.compile(r"[{}]")
_FAILED_STATUS = re.compile(r"status\W{0,8}failed")
_NAMED_CHECK = re.compile(r"check\W{1,8}(\w{1,64})")
# What follows the key `failed` up to the next key's colon.
_FAILED_LIST = re.compile(r"failed\W{0,3}\s{0,8}:(?=([^:]*))")
_WORD = re.compile(r"[a-z_]\w*")
_KEYS: Final = frozenset(
    ("target", "verdict", "headline", "checks", "failed", "unknowns", "scored", "method", "limits")
)
_CHECKS: Final = frozenset(Check)


@dataclass(frozen=True, slots=True)
class Claims:
    """What an answer claims anywhere.

    Attributes:
        verdicts: the verdicts it names.
        failed: the known checks that it says have failed.
        other_failed: it says that a check of another name has failed.
        unnamed_failed: it says that some check has failed, and not which.
    """

    verdicts: frozenset[Verdict] = frozenset()
    failed: frozenset[Check] = frozenset()
    other_failed: bool = False
    unnamed_failed: bool = False


NO_CLAIMS: Final = Claims()


def read_claims(body: bytes) -> Claims:
    """Read what an answer claims, whatever else is wrong with it.

    Args:
        body: what was received, whole or not, in any encoding.

    Returns:
        The claims; `NO_CLAIMS` when there are none.
    """
    # Without its NUL bytes, UTF-16 or UTF-32 reads as the ASCII that it stands for.
    text = body.replace(b"\0", b"").decode("utf-8", "replace").lower()
    if "\\" in text:
        text = _ESCAPED.sub(_unescaped, text).lower()
    names: set[str] = set()
    unnamed = False
    for listed in _FAILED_LIST.findall(text):
        names.update(set(_WORD.findall(listed)) - _KEYS)
    for part in _BRACE.split(text) if _FAILED_STATUS.search(text) else ():
        if _FAILED_STATUS.search(part):
            beside = _NAMED_CHECK.findall(part)
            unnamed = unnamed or not beside
            names.update(beside)
    return Claims(
        verdicts=frozenset(Verdict(word) for word in _VERDICT.findall(text)),
        failed=frozenset(Check(name) for name in names & _CHECKS),
        other_failed=bool(names - _CHECKS),
        unnamed_failed=unnamed,
    )


def _unescaped(match: re.Match[str]) -> str:
    code, plain = match.groups()
    return chr(int(code, 16)) if code else plain
