"""What does an unusable answer claim? The warning that a broken answer still carries.

An operator may tolerate missing or broken evidence (`on_unavailable`). Even then an
answer that says "do not delegate" anywhere must not become a pass because it also broke
the contract. This room reads such an answer as far as it goes.

Rules of this module:

1. It reads text, not JSON: what is broken has no structure to rely on. Any bytes give
   claims, in time that grows with their number and no faster.
2. It errs towards refusing. A verdict's word counts wherever it stands, prose included,
   in any escaped spelling, in UTF-8, UTF-16 or UTF-32, however often a key is repeated.
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

# An ASCII letter or underscore, escaped once or, in JSON within JSON, more often. It only
# begins where a run of backslashes does, so that a long one is read once.
_ESCAPED = re.compile(r"(?<!\\)\\++u00([4-7][0-9a-f])")
_VERDICT = re.compile("|".join(Verdict))
_NONE_FAILED = re.compile(r"""["']failed[\s\\]{0,64}["']\s{0,64}:\s{0,64}\[\s{0,64}\]""")
# The word as a key or a value, quoted (in JSON within JSON, too) or beside a colon.
_FAILED = re.compile(
    r"""["']\s{0,64}failed[\s\\]{0,64}(?:["']|$)|[:=]\s{0,64}failed\b|\bfailed\s{0,64}[:=]"""
)


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
    text = body.replace(b"\0", b"").decode("utf-8", "replace").lower()
    text = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text).lower()
    return Claims(
        verdicts=frozenset(Verdict(word) for word in _VERDICT.findall(text)),
        failed=_FAILED.search(_NONE_FAILED.sub("", text)) is not None,
    )
