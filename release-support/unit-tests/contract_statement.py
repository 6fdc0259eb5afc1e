"""A second, independent statement of the preflight contract, and a generator that attacks it.

`conforms` says yes or no, and nothing else. It is written from the contract's description and
shares no line and no method with the plugin: a reader of its own (RFC 8259, token by token)
that enforces bounds while it descends, and relations that are counted, not looked up. The
plugin's reader must agree with it on every input.

What an answer must be:

1. UTF-8 without a byte order mark; one JSON value, nothing but white space around it; objects
   and lists nested at most 16 deep, and not more than 10,000 opening brackets, wherever they
   stand; no object with the same key twice; integers of at most 19 digits, other numbers finite
   and at most 32 characters long.
2. An object with nine fields of fixed type. No field of the contract is a number, a truth
   value or null, so to this statement those are all the same thing.
3. `target` is what was asked about.
4. Every known check once; at most 64 others; no name twice; names are a small letter, then up
   to 63 small letters, digits and underscores.
5. Every status is one of three words; the three lists count exactly the names that have them.
6. The verdict is what a table says for (a decisive check failed, another check failed).

`mutations` yields cases without end, all from its random source. The command compares both
statements on many of them:

    python release-support/unit-tests/contract_statement.py [--cases 200000] [--seed N]
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

DEEPEST = 16
MOST_OPENED = 10_000
MOST_OTHERS = 64
LONGEST_INTEGER = 19
LONGEST_REAL = 32
LONGEST_NAME = 64

DECISIVE = ("endpoint_reachable", "protocol_handshake")
REST = ("agent_card_resolves", "agent_card_signed", "payment_claim_holds", "independent_evidence")
STATUSES = ("proven", "failed", "unknown")
VERDICTS = {
    (False, False): "no_failed_checks",
    (False, True): "delegate_with_caution",
    (True, False): "do_not_delegate",
    (True, True): "do_not_delegate",
}
FIELDS = {
    "target": str,
    "verdict": str,
    "headline": str,
    "checks": list,
    "failed": list,
    "unknowns": list,
    "scored": list,
    "method": str,
    "limits": str,
}

SURROGATE = re.compile("[\ud800-\udfff]")
ATOM = object()
"""A number, a truth value or null: nothing that the contract has a place for."""


# --- The statement -------------------------------------------------------------------------


class Unreadable(Exception):
    """The text is not JSON within the bounds."""


class Reader:
    """Reads one JSON value from its first token to its last."""

    _TOKEN = re.compile(
        r"""[ \t\n\r]*+(?:
            (?P<mark>[\[\]{}:,])
          | "(?P<text>[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*+)*+)"
          | (?P<number>-?(?:0|[1-9][0-9]*+)(?P<real>(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?))
          | (?P<word>true|false|null)
        )""",
        re.VERBOSE,
    )
    _SPACE = re.compile(r"[ \t\n\r]*+")
    # Two halves first, so that a pair is never read as two lone ones.
    _ESCAPE = re.compile(
        r"\\u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})|\\u(.{4})|\\(.)"
    )
    _SHORT: ClassVar = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Any:
        """Return the value that the text is, or raise `Unreadable`."""
        value = self._value(self._next(), 1)
        if self._SPACE.fullmatch(self._text, self._at) is None:
            raise Unreadable
        return value

    def _next(self) -> re.Match[str]:
        token = self._TOKEN.match(self._text, self._at)
        if token is None:
            raise Unreadable
        self._at = token.end()
        return token

    def _value(self, token: re.Match[str], depth: int) -> Any:
        kind = token.lastgroup
        if kind == "text":
            return self._unescaped(token["text"])
        if kind in ("number", "real"):
            self._bound(token["number"], token["real"])
            return ATOM
        if kind == "word":
            return ATOM
        if depth > DEEPEST:
            raise Unreadable
        if token["mark"] == "[":
            return list(self._items("]", depth, self._value))
        if token["mark"] == "{":
            members = list(self._items("}", depth, self._member))
            if max(Counter(key for key, _ in members).values(), default=1) > 1:
                raise Unreadable
            return dict(members)
        raise Unreadable

    def _items(self, end: str, depth: int, read: Callable[..., Any]) -> Iterator[Any]:
        token = self._next()
        if token["mark"] == end:
            return
        while True:
            yield read(token, depth + 1)
            separator = self._next()["mark"]
            if separator == end:
                return
            if separator != ",":
                raise Unreadable
            token = self._next()

    def _member(self, token: re.Match[str], depth: int) -> tuple[str, Any]:
        if token["text"] is None or self._next()["mark"] != ":":
            raise Unreadable
        return self._unescaped(token["text"]), self._value(self._next(), depth)

    def _unescaped(self, text: str) -> str:
        return self._ESCAPE.sub(self._character, text) if "\\" in text else text

    def _character(self, match: re.Match[str]) -> str:
        high, low, unit, short = match.groups()
        if high:
            return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
        return chr(int(unit, 16)) if unit else self._SHORT.get(short, short)

    @staticmethod
    def _bound(number: str, real: str) -> None:
        if real:
            if len(number) > LONGEST_REAL or abs(float(number)) == float("inf"):
                raise Unreadable
        elif sum(map(str.isdigit, number)) > LONGEST_INTEGER:
            raise Unreadable


def conforms(body: bytes, target: str) -> bool:
    """Whether `body` is an answer about `target` that keeps the whole contract."""
    if body[:3] == b"\xef\xbb\xbf" or len(re.findall(rb"[\[{]", body)) > MOST_OPENED:
        return False
    try:
        answer = Reader(body.decode("utf-8")).whole()
    except (UnicodeDecodeError, Unreadable):
        return False
    return (
        _has_its_fields(answer)
        and answer["target"] == target
        and _names_are_right([row["check"] for row in answer["checks"]])
        and _counts_agree(answer)
        and answer["verdict"] == _verdict(answer["checks"])
    )


def _has_its_fields(answer: Any) -> bool:
    return (
        isinstance(answer, dict)
        and all(isinstance(answer.get(name), kind) for name, kind in FIELDS.items())
        and all(isinstance(row, dict) for row in answer["checks"])
        and all(
            isinstance(row.get(key), str)
            for row in answer["checks"]
            for key in ("check", "status", "detail")
        )
        and all(
            isinstance(name, str)
            for name in itertools.chain(answer["failed"], answer["unknowns"], answer["scored"])
        )
    )


def _names_are_right(names: Sequence[str]) -> bool:
    letters = set("abcdefghijklmnopqrstuvwxyz")
    others = [name for name in names if name not in DECISIVE + REST]
    return (
        all(names.count(name) == 1 for name in DECISIVE + REST)
        and len(others) <= MOST_OTHERS
        and all(others.count(name) == 1 for name in others)
        and all(
            0 < len(name) <= LONGEST_NAME
            and name[0] in letters
            and set(name) <= letters | set("0123456789_")
            for name in others
        )
    )


def _counts_agree(answer: dict[str, Any]) -> bool:
    found = Counter((row["status"], row["check"]) for row in answer["checks"])
    said = Counter(("failed", name) for name in answer["failed"])
    said.update(("unknown", name) for name in answer["unknowns"])
    # What is scored and has not failed was proven, and what has failed is scored.
    proven = Counter(answer["scored"])
    proven.subtract(answer["failed"])
    if any(count not in (0, 1) for count in proven.values()):
        return False
    said.update(("proven", name) for name, count in proven.items() if count)
    return said == found


def _verdict(rows: list[dict[str, Any]]) -> str:
    failed = [row["check"] in DECISIVE for row in rows if row["status"] == "failed"]
    return VERDICTS[any(failed), not all(failed)]


# --- Answers, as they are written ----------------------------------------------------------


class Pairs(list):  # type: ignore[type-arg]
    """An object as a list of `[key, value]`, so that a key can stand there twice."""

    def get(self, key: str) -> Any:
        return next(value for name, value in self if name == key)

    def put(self, key: str, value: Any) -> None:
        for pair in self:
            if pair[0] == key:
                pair[1] = value


@dataclass(frozen=True)
class Raw:
    """A piece of text that is written as it stands."""

    text: str


@dataclass
class Writer:
    """Writes a value as JSON, in one of the many ways in which that can be done."""

    rng: random.Random
    spaces: Sequence[str] = ("",)
    escapes: float = 0.0
    ascii_only: bool = False
    out: list[str] = field(default_factory=list)

    def write(self, value: Any) -> str:
        self._write(value)
        return "".join(self.out)

    def _write(self, value: Any) -> None:
        if isinstance(value, Raw):
            self.out.append(value.text)
        elif isinstance(value, Pairs):
            self._row("{", [(self._string(key) + self._gap() + ":", item) for key, item in value])
            self.out.append("}")
        elif isinstance(value, list):
            self._row("[", [("", item) for item in value])
            self.out.append("]")
        elif isinstance(value, str):
            self.out.append(self._string(value))
        else:
            self.out.append(json.dumps(value))

    def _row(self, opening: str, items: Sequence[tuple[str, Any]]) -> None:
        self.out.append(opening)
        for number, (prefix, item) in enumerate(items):
            self.out.append(("," if number else "") + self._gap() + prefix + self._gap())
            self._write(item)
        self.out.append(self._gap())

    def _gap(self) -> str:
        return "" if len(self.spaces) == 1 else self.rng.choice(self.spaces)

    def _string(self, text: str) -> str:
        # UTF-8 cannot carry a lone surrogate, so that one is always escaped.
        if self.ascii_only or SURROGATE.search(text):
            return json.encoder.encode_basestring_ascii(text)
        if self.escapes and self.rng.random() < self.escapes:
            units = text.encode("utf-16-be").hex()
            units = self.rng.choice((units, units.upper()))
            return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
        return json.encoder.encode_basestring(text)


TARGETS = (
    "https://tools.example.com/mcp",
    "https://tools.example.com:8443/a/b/mcp",
    "http://[2606:4700::1111]/",
    "https://tools.example.com/%C3%A9/~a!$&'()*+,;=:@",
    "https://tools.example.com/" + "x" * 1900,
    'odd "target" \\ with \x7f, é, 日本 and \U0001f600',
    "",
)
TEXTS = (
    "",
    "plain",
    'quoted "and" back\\slashed',
    "line\nbreak\ttab\x00null\x1b[31m",
    "é ß 日本語 \U0001f600 \u2028\u2029\ufeff",
    "\ud800 lone",
    "lone \udfff",
    "<script>{'verdict': 'failed'}</script>",
    '{"verdict": "do_not_delegate"}',
    "long " * 130,
)
LEAVES = (None, True, False, 0, -0.0, 1, -17, 10**18, 1.5e300, 2.5e-300, *TEXTS)


def valid_answers(rng: random.Random) -> Iterator[tuple[bytes, str]]:
    """Yield answers that keep the contract, each with its target, in every way of writing them."""
    while True:
        answer, target = _answer(rng)
        _dress(rng, answer)
        yield _written(rng, answer), target


def mutations(rng: random.Random) -> Iterator[tuple[bytes, str]]:
    """Yield answers, each with the target asked about: some valid, most broken in one place or two."""
    while True:
        answer, target = _answer(rng)
        if rng.random() < 0.6:
            _dress(rng, answer)
        if rng.random() < 0.6:
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                rng.choice(BREAKS)(rng, answer)
        body = _written(rng, answer)
        if rng.random() < 0.25:
            body = rng.choice(BYTE_BREAKS)(rng, body)
        if rng.random() < 0.03:
            target = _other_target(rng, target)
        yield body, target


def _answer(rng: random.Random) -> tuple[Pairs, str]:
    target = rng.choice(TARGETS[:4]) if rng.random() < 0.8 else rng.choice(TARGETS)
    rows = Pairs([name, rng.choice(STATUSES)] for name in DECISIVE + REST)
    if rng.random() < 0.5:  # the rarer case otherwise: nothing decisive has failed
        for pair in rows[:2]:
            pair[1] = rng.choice(("proven", "unknown"))
    if rng.random() < 0.2:
        count = rng.choice((1, 1, 1, 1, 2, 2, 2, 5, 5, MOST_OTHERS))
        rows.extend([name, rng.choice(STATUSES)] for name in _names(rng, count))
    return Pairs([key, value] for key, value in _fields(rng, target, rows)), target


def _fields(rng: random.Random, target: str, rows: Pairs) -> Iterator[tuple[str, Any]]:
    failed = [name for name, status in rows if status == "failed"]
    yield "target", target
    yield "verdict", VERDICTS[bool(set(failed) & set(DECISIVE)), bool(set(failed) - set(DECISIVE))]
    yield "headline", rng.choice(TEXTS)
    yield (
        "checks",
        [
            Pairs([["check", name], ["status", status], ["detail", rng.choice(TEXTS[:5])]])
            for name, status in rows
        ],
    )
    yield "failed", failed
    yield "unknowns", [name for name, status in rows if status == "unknown"]
    yield "scored", [name for name, status in rows if status != "unknown"]
    yield "method", rng.choice(TEXTS)
    yield "limits", rng.choice(TEXTS)


def _names(rng: random.Random, count: int) -> list[str]:
    start, more = "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz0123456789_"
    names: set[str] = set()
    while len(names) < count:
        length = rng.choice((1, 3, 8, LONGEST_NAME))
        names.add(rng.choice(start) + "".join(rng.choices(more, k=length - 1)))
    return sorted(names - set(DECISIVE + REST), key=lambda _: rng.random())


def _value(rng: random.Random, depth: int = 4) -> Any:
    if depth == 0 or rng.random() < 0.5:
        return rng.choice(LEAVES)
    items = [_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    if rng.random() < 0.5:
        return items
    return Pairs([f"key {number}", item] for number, item in enumerate(items))


def _nested(rng: random.Random, levels: int) -> Any:
    value: Any = rng.choice(LEAVES)
    for _ in range(levels):
        value = [value] if rng.random() < 0.5 else Pairs([["in", value]])
    return value


def _dress(rng: random.Random, answer: Pairs) -> None:
    """Change what the contract leaves free: orders, further keys, and what they hold."""
    for name in ("checks", "failed", "unknowns", "scored"):
        if rng.random() < 0.3:
            rng.shuffle(answer.get(name))
    for number in range(rng.choice((0, 0, 1, 3))):
        answer.append([f"further {number}", _value(rng)])
    for row in answer.get("checks"):
        if rng.random() < 0.1:
            row.append(["declared_name", _value(rng, 2)])
        if rng.random() < 0.1:
            rng.shuffle(row)
    if rng.random() < 0.1:
        answer.append(["deep", _nested(rng, rng.choice((DEEPEST - 2, DEEPEST - 1)))])
    if rng.random() < 0.1:
        answer.append(["number", Raw(rng.choice(SENSIBLE_NUMBERS))])
    if rng.random() < 0.5:
        rng.shuffle(answer)


def _written(rng: random.Random, answer: Pairs) -> bytes:
    writer = Writer(rng, ascii_only=rng.random() < 0.3)
    if rng.random() < 0.2:
        writer.spaces = ("", "", " ", "\n", "\t", "\r\n", "   ")
    if rng.random() < 0.15:
        writer.escapes = rng.choice((0.02, 0.5, 1.0))
    around = rng.choice(("", "", "", " \n", "\r\n\t"))
    return (around + writer.write(answer) + around).encode("utf-8")


SENSIBLE_NUMBERS = ("9" * 19, "-" + "9" * 19, "0.5", "-0", "1e308", "1E+2", "1." + "0" * 30)
ABSURD_NUMBERS = ("9" * 20, "-" + "1" * 20, "1" * 5000, "1e309", "-1E999", "1." + "0" * 31)
ABSURD_WORDS = ("NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "0x1", "True", "nul", "'a'")


# --- Mutations of the answer ---------------------------------------------------------------


def _retype(rng: random.Random, answer: Pairs) -> None:
    for pair in rng.sample(answer, min(1, len(answer))):
        pair[1] = _value(rng)


def _rename(rng: random.Random, answer: Pairs) -> None:
    for pair in rng.sample(answer, min(1, len(answer))):
        pair[0] = rng.choice((pair[0].upper(), pair[0] + " ", pair[0] + "\x00", "other", ""))


def _remove(rng: random.Random, answer: Pairs) -> None:
    if answer:
        del answer[rng.randrange(len(answer))]


def _repeat_key(rng: random.Random, answer: Pairs) -> None:
    places = [answer, *(row for row in _rows(answer) if row)]
    place = rng.choice(places)
    if place:
        key, value = rng.choice(place)
        again = value if rng.random() < 0.5 else _value(rng)
        place.insert(rng.randrange(len(place) + 1), [key, again])


def _edit_row(rng: random.Random, answer: Pairs) -> None:
    if rows := _rows(answer):
        rng.choice((_retype, _rename, _remove))(rng, rng.choice(rows))


def _edit_status(rng: random.Random, answer: Pairs) -> None:
    if rows := _rows(answer):
        words = (
            *STATUSES,
            *STATUSES,
            "Failed",
            "failed ",
            "",
            "fail\u0435d",
            "passed",
            0,
            None,
            True,
        )
        rng.choice(rows).put("status", rng.choice(words))


def _edit_name(rng: random.Random, answer: Pairs) -> None:
    if rows := _rows(answer):
        names = (
            *DECISIVE,
            *REST,
            "Upper",
            "1st",
            "_x",
            "a-b",
            "a" * 65,
            "",
            "x\n",
            "\u0430",
            "new",
        )
        rng.choice(rows).put("check", rng.choice(names))


def _edit_checks(rng: random.Random, answer: Pairs) -> None:
    rows = _list(answer, "checks")
    action = rng.randrange(6)
    if rows and action == 0:
        del rows[rng.randrange(len(rows))]
    elif rows and action == 1:
        rows.insert(rng.randrange(len(rows) + 1), rng.choice(rows))
    elif rows and action == 2:
        rows[rng.randrange(len(rows))] = _value(rng)
    else:
        for name in _names(rng, MOST_OTHERS + 1 if action == 3 else 1):
            status = rng.choice(STATUSES)
            rows.append(Pairs([["check", name], ["status", status], ["detail", ""]]))
            for summary in ("unknowns",) if status == "unknown" else ("scored",):
                _list(answer, summary).append(name)
            if status == "failed":
                _list(answer, "failed").append(name)


def _edit_summary(rng: random.Random, answer: Pairs) -> None:
    names = _list(answer, rng.choice(("failed", "unknowns", "scored")))
    action = rng.randrange(5)
    if names and action == 0:
        del names[rng.randrange(len(names))]
    elif names and action == 1:
        names.append(rng.choice(names))
    elif names and action == 2:
        names[rng.randrange(len(names))] = rng.choice((*DECISIVE, *REST, "new", "", 7, None, []))
    elif action == 3:
        names.append(rng.choice((*DECISIVE, *REST, "new", "\ud800", 7, {})))
    else:
        names.clear()


def _swap_summaries(rng: random.Random, answer: Pairs) -> None:
    one, other = rng.sample(("failed", "unknowns", "scored"), 2)
    for pair in answer:
        pair[0] = {one: other, other: one}.get(pair[0], pair[0])


def _edit_verdict(rng: random.Random, answer: Pairs) -> None:
    words = (
        *VERDICTS.values(),
        "NO_FAILED_CHECKS",
        "no_failed_checks ",
        "allow",
        "",
        None,
        True,
        1,
    )
    answer.put("verdict", rng.choice(words))


def _edit_target(rng: random.Random, answer: Pairs) -> None:
    answer.put("target", _other_target(rng, str(dict(answer).get("target"))))


def _edit_prose(rng: random.Random, answer: Pairs) -> None:
    answer.put(rng.choice(("headline", "method", "limits")), rng.choice(LEAVES))


def _nest(rng: random.Random, answer: Pairs) -> None:
    levels = rng.choice((DEEPEST - 1, DEEPEST, DEEPEST, DEEPEST + 1, 40))
    answer.append(["nested", _nested(rng, levels)])


def _open_many(rng: random.Random, answer: Pairs) -> None:
    """Add about as many brackets as there may be, within a text or as lists."""
    many = MOST_OPENED - rng.randrange(20)
    pieces = Raw("[" + "[]," * (many - 2) + "{}]")
    answer.append(["many", rng.choice(("[" * many, "{[" * (many // 2), pieces))])


def _nest_row(rng: random.Random, answer: Pairs) -> None:
    if rows := _rows(answer):
        rng.choice(rows).append(["nested", _nested(rng, rng.choice((DEEPEST - 3, DEEPEST - 2)))])


def _write_raw(rng: random.Random, answer: Pairs) -> None:
    raw = Raw(rng.choice((*SENSIBLE_NUMBERS, *ABSURD_NUMBERS, *ABSURD_WORDS)))
    if rng.random() < 0.5 or not answer:
        answer.append(["raw", raw])
    else:
        rng.choice(answer)[1] = raw


def _wrap(rng: random.Random, answer: Pairs) -> None:
    inner = Pairs(answer)
    answer[:] = [[rng.choice(("result", "target", "")), rng.choice((inner, [inner]))]]


def _rows(answer: Pairs) -> list[Pairs]:
    return [row for row in _list(answer, "checks") if isinstance(row, Pairs)]


def _list(answer: Pairs, name: str) -> list[Any]:
    value = dict(answer).get(name)
    return value if isinstance(value, list) and not isinstance(value, Pairs) else []


def _other_target(rng: random.Random, target: str) -> str:
    longer = (target + "/", " " + target, target + "\n", target + "\ud800")
    alike = (target.upper(), target.replace("e", "\u0435", 1), target.replace("/", "%2F"))
    return rng.choice((target[:-1], *longer, *alike, *TARGETS))


BREAKS = (
    _retype,
    _rename,
    _remove,
    _repeat_key,
    _edit_row,
    _edit_status,
    _edit_name,
    _edit_checks,
    _edit_summary,
    _edit_summary,
    _swap_summaries,
    _edit_verdict,
    _edit_target,
    _edit_prose,
    _nest,
    _nest_row,
    _open_many,
    _write_raw,
    _wrap,
)


# --- Mutations of the bytes ----------------------------------------------------------------


def _cut(rng: random.Random, body: bytes) -> bytes:
    return body[: rng.randrange(len(body) + 1)]


def _cut_start(rng: random.Random, body: bytes) -> bytes:
    return body[rng.randrange(len(body) + 1) :]


def _trail(rng: random.Random, body: bytes) -> bytes:
    return body + rng.choice(
        (b" ", b"\n", b"\x00", b"{}", b",", b"}", b"null", body, b"\xc2\xa0", b"//")
    )


def _lead(rng: random.Random, body: bytes) -> bytes:
    return (
        rng.choice((b"\xef\xbb\xbf", b" ", b"\x00", b"\xff\xfe", b")]}'\n", b"\x0b", b"[")) + body
    )


def _flip(rng: random.Random, body: bytes) -> bytes:
    changed = bytearray(body or b" ")
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body) + 1)
    pieces = (b'"', b"\\", b"\\u", b"\\ud800", b"{", b"]", b",", b":", b"\xff", b"\xed\xa0\x80")
    return (
        body[:at] + rng.choice((*pieces, b"\xc0\xaf", b"\n", b" ", b"0", b"e", b"\x1f")) + body[at:]
    )


def _drop(rng: random.Random, body: bytes) -> bytes:
    start = rng.randrange(len(body) + 1)
    return body[:start] + body[start + rng.choice((1, 2, 7, 60)) :]


def _double(rng: random.Random, body: bytes) -> bytes:
    start = rng.randrange(len(body) + 1)
    end = start + rng.choice((1, 2, 7, 60))
    return body[:end] + body[start:]


def _recode(rng: random.Random, body: bytes) -> bytes:
    text = body.decode("utf-8", "replace")
    return text.encode(
        rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "latin-1")), "replace"
    )


def _swap_words(rng: random.Random, body: bytes) -> bytes:
    words = [word.encode() for word in (*STATUSES, *DECISIVE, *REST, *VERDICTS.values(), *FIELDS)]
    one, other = rng.sample(words, 2)
    return body.replace(one, other, rng.choice((1, -1)))


BYTE_BREAKS = (
    _cut,
    _cut_start,
    _trail,
    _lead,
    _flip,
    _flip,
    _insert,
    _insert,
    _drop,
    _double,
    _recode,
    _swap_words,
    _swap_words,
)


# --- The comparison ------------------------------------------------------------------------


@dataclass
class Tally:
    """How often both statements agreed, and the first cases in which they did not."""

    accepted: int = 0
    refused: int = 0
    disagreements: int = 0
    examples: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.accepted + self.refused + self.disagreements} cases: {self.accepted} accepted"
            f" by both, {self.refused} refused by both, {self.disagreements} disagreements"
        )


def compare(cases: int, seed: int) -> Tally:
    """Hold the plugin's reader against the statement; anything but its own violation disagrees.

    The plugin must be importable, see `stage.boot`.
    """
    from usr.plugins.agent_guild_preflight.helpers.guild_preflight import contract

    tally = Tally()
    for body, target in itertools.islice(mutations(random.Random(seed)), cases):
        try:
            contract.parse(body, target=target)
            says = "accepted"
        except contract.ContractViolation as violation:
            says = f"refused as {violation.sub_reason}"
        except Exception as error:
            says = f"raised {type(error).__name__}"
        agreed = conforms(body, target)
        if says == "accepted" and agreed:
            tally.accepted += 1
        elif says.startswith("refused") and not agreed:
            tally.refused += 1
        else:
            tally.disagreements += 1
            if len(tally.examples) < 5:
                tally.examples.append(f"{says}; the statement says {agreed}: {target!r} {body!r}")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two statements of the contract.")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from stage.boot import boot

    with tempfile.TemporaryDirectory(prefix="agent_guild_preflight-") as root:
        boot(Path(root))
        tally = compare(options.cases, options.seed)
    print(f"{tally} (seed {options.seed})")
    for example in tally.examples:
        print(example[:4000])
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
