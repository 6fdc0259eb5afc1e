"""Is the answer exactly what it must be? Bytes in, `Observation` out, or a violation.

The contract is the one that the public preflight service keeps. Rules, in the order in
which they are applied; the first that fails names the sub-reason:

1. `encoding`: UTF-8, without a byte order mark.
2. `json`, `duplicate_key`, `number`: one JSON text and nothing after it; no key twice in
   any object; no NaN, no infinity, no number of absurd size.
3. `depth`: at most 16 levels of objects and lists. The brackets that open one, those within texts
   included, are counted before rule 2, and at most 10,000 are accepted: built, a megabyte of lists
   takes forty megabytes, and the collector then goes through all that the process has.
4. `shape`: an object with every field of the contract, each of its type. Other top-level
   keys are tolerated and dropped.
5. `target`: the URL that was asked about, character for character.
6. `check_set`: the six known checks, each once, and at most 64 others with well-formed
   names.
7. `status`: each check is proven, failed or unknown.
8. `summary`: `failed`, `unknowns` and `scored` hold exactly the names of those checks,
   each once.
9. `verdict`: exactly the one that the checks compute (`compute_verdict`).

Text of the answer is kept only where it is evidence (details, method, limits), and at once
in a form that nothing can take for its own. Checks that are not known are kept as a count.
A violation keeps what the answer claims, see `salvage`. The module imports nothing of the
framework.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ..reasons import Reason, Refusal, SubReason
from ..untrusted import untrusted
from .observation import Observation
from .salvage import Claims, read_claims
from .verdicts import KNOWN_CHECKS, Status, compute_verdict

MAX_DEPTH: Final = 16  # levels
MAX_BRACKETS: Final = 10_000  # a valid answer has eleven, and one for each further check
MAX_OTHER_CHECKS: Final = 64
MAX_INTEGER_DIGITS: Final = 19  # enough for 64 bits
MAX_REAL_CHARACTERS: Final = 32
MAX_DETAIL_CHARACTERS: Final = 300

_BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_CHECK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class ContractViolation(Refusal):
    """The answer breaks the contract.

    Attributes:
        claims: the verdicts and failed checks that the answer claims anywhere.
    """

    def __init__(self, sub_reason: SubReason, claims: Claims) -> None:
        super().__init__(Reason.EVIDENCE_INCONSISTENT, sub_reason)
        self.claims = claims


def parse(body: bytes, *, target: str) -> Observation:
    """Read an answer of the service.

    Args:
        body: the whole body, identity encoded.
        target: the URL that was asked about.

    Returns:
        The observation, not yet dated.

    Raises:
        ContractViolation: with the sub-reason of the first rule that fails, and with what
            the answer claims.
    """
    try:
        return _read_answer(_decode(body), target)
    except _BrokenError as broken:
        sub_reason = broken.sub_reason
    raise ContractViolation(sub_reason, read_claims(body))


class _BrokenError(Exception):
    """Carries a sub-reason out of the readers below; never leaves this module."""

    def __init__(self, sub_reason: SubReason) -> None:
        super().__init__(sub_reason.value)
        self.sub_reason = sub_reason


def _broken(sub_reason: SubReason) -> NoReturn:
    raise _BrokenError(sub_reason)


def _decode(body: bytes) -> Any:
    """Return the JSON value that the body holds (rules 1 to 3)."""
    if body.startswith(_BYTE_ORDER_MARKS):
        _broken(SubReason.ENCODING)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        _broken(SubReason.ENCODING)
    if text.count("[") + text.count("{") > MAX_BRACKETS:
        _broken(SubReason.DEPTH)
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        _broken(SubReason.DEPTH)
    except ValueError:
        _broken(SubReason.JSON)
    _require_depth(value)
    return value


def _require_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for item in level if type(item) in (dict, list)]:
        depth += 1
        if depth > MAX_DEPTH:
            _broken(SubReason.DEPTH)
        level = [
            inner for item in level for inner in (item.values() if type(item) is dict else item)
        ]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _broken(SubReason.DUPLICATE_KEY)
    return members


def _integer(literal: str) -> int:
    if len(literal.lstrip("-")) > MAX_INTEGER_DIGITS:
        _broken(SubReason.NUMBER)
    return int(literal)


def _real(literal: str) -> float:
    if len(literal) > MAX_REAL_CHARACTERS or math.isinf(float(literal)):
        _broken(SubReason.NUMBER)
    return float(literal)


def _constant(_literal: str) -> NoReturn:
    _broken(SubReason.NUMBER)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
)


def _read_answer(answer: Any, target: str) -> Observation:
    """Hold the answer against rules 4 to 9."""
    fields = _typed(answer, dict)
    lists = {name: _strings(fields, name) for name in ("failed", "unknowns", "scored")}
    claimed_verdict = _typed(fields.get("verdict"), str)
    method, limits = _typed(fields.get("method"), str), _typed(fields.get("limits"), str)
    _typed(fields.get("headline"), str)
    rows = [_row(item) for item in _typed(fields.get("checks"), list)]
    if _typed(fields.get("target"), str) != target:
        _broken(SubReason.TARGET)
    statuses = _statuses(rows)
    _require_summary(lists, statuses)
    verdict = compute_verdict(statuses)
    if claimed_verdict != verdict:
        _broken(SubReason.VERDICT)
    known = {check: statuses[check] for check in KNOWN_CHECKS}
    others = [status for name, status in statuses.items() if name not in known]
    details = {name: detail for name, _, detail in rows}
    return Observation(
        verdict=verdict,
        statuses=known,
        details={check: untrusted(details[check], MAX_DETAIL_CHARACTERS) for check in known},
        other_checks=len(others),
        other_failed=others.count(Status.FAILED),
        method=untrusted(method),
        limits=untrusted(limits),
    )


def _typed(value: Any, expected: type) -> Any:
    # The exact type: JSON gives no subclasses, and a bool must not pass for a number.
    if type(value) is not expected:
        _broken(SubReason.SHAPE)
    return value


def _strings(fields: Mapping[str, Any], name: str) -> list[str]:
    return [_typed(item, str) for item in _typed(fields.get(name), list)]


def _row(item: Any) -> tuple[str, str, str]:
    """Return one check's name, status and detail; its other keys are dropped."""
    row = _typed(item, dict)
    return (
        _typed(row.get("check"), str),
        _typed(row.get("status"), str),
        _typed(row.get("detail"), str),
    )


def _statuses(rows: list[tuple[str, str, str]]) -> dict[str, Status]:
    """Return every check's status by name (rules 6 and 7)."""
    names = [name for name, _, _ in rows]
    well_formed = (
        len(set(names)) == len(names) <= len(KNOWN_CHECKS) + MAX_OTHER_CHECKS
        and set(KNOWN_CHECKS).issubset(names)
        and all(_CHECK_NAME.fullmatch(name) for name in names)
    )
    if not well_formed:
        _broken(SubReason.CHECK_SET)
    try:
        return {name: Status(status) for name, status, _ in rows}
    except ValueError:
        _broken(SubReason.STATUS)


def _require_summary(lists: Mapping[str, list[str]], statuses: Mapping[str, Status]) -> None:
    expected = {
        "failed": [name for name, status in statuses.items() if status is Status.FAILED],
        "unknowns": [name for name, status in statuses.items() if status is Status.UNKNOWN],
        "scored": [name for name, status in statuses.items() if status is not Status.UNKNOWN],
    }
    # The order is not part of the contract; sorting also shows a repeat. Only lists of the right
    # length are sorted: those of the answer may be long.
    for name, names in expected.items():
        if len(lists[name]) != len(names) or sorted(lists[name]) != sorted(names):
            _broken(SubReason.SUMMARY)
