"""No work grows faster than what a stranger chose, and none holds an agent's loop for long.

1. Every pattern of the product is timed on the worst texts that are known for it and on the worst
   that a search finds, at the size that it may meet and at eight times that. A ratio above 12 fails:
   linear work gives 8, and work that grows with the square 64. The patterns are found in the source,
   so that a new one must be listed here.
2. The same for what reads a stranger's text with loops of its own.
3. Whatever the service sends, a loop in the same process goes on within 250 ms.
4. `lint` over 3,000 servers and `explain` over a chat of 60 MiB end within 5 s and 512 MiB.

Times are those of one thread alone, each the best of several, and what is too much is measured
again: a busy machine slows down both sizes, and seldom the larger one alone.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import importlib
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from local_guild.answers import answer_body
from local_guild.wire import Endless, Send, Stall, Step, WireServer, answer
from stage.boot import CHECKOUT
from stage.folder import GLOBAL, PLUGIN, AgentZero
from usr.plugins.agent_guild_preflight.helpers import untrusted
from usr.plugins.agent_guild_preflight.helpers.binding import headers, pins
from usr.plugins.agent_guild_preflight.helpers.commands.explain import json_cursor, saved_chats
from usr.plugins.agent_guild_preflight.helpers.commands.lint import (
    json_text,
    nearest,
    redirects,
    servers,
    urls,
)
from usr.plugins.agent_guild_preflight.helpers.commands.pin import difference
from usr.plugins.agent_guild_preflight.helpers.commands.shared import mcp_settings
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import contract, observe, salvage
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.endpoint import (
    Endpoint,
    screen,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.framing import Framing
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.request import PreflightRequest
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.response_head import refuse_head
from usr.plugins.agent_guild_preflight.helpers.reasons import Refusal
from usr.plugins.agent_guild_preflight.helpers.settings import problems, reader
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import layers_in_force
from usr.plugins.agent_guild_preflight.helpers.settings.locations import Locations, normalize_name

ROOMS = CHECKOUT / "helpers"
PACKAGE = "usr.plugins.agent_guild_preflight.helpers"
MOST = 12.0  # times as long for eight times the size
KIB = 1024
HEAD = 98 * KIB  # one header: the HTTP library bounds a whole head at 100 KiB
BODY = 128 * KIB  # an eighth of the largest answer, so that the larger size is the permitted one
FILE = 128 * KIB  # of a file of the operator's or of a chat, which may have 64 MiB
URL = 2 * KIB
NAME = 8 * KIB  # of a server or a tool: nothing bounds it, so an absurd one


# How long something takes

Work = Callable[[], object]
Made = Callable[[int], Work]  # for a size, the work on the worst text of that size


def seconds(work: Work, at_least: float) -> float:
    """Return how long it takes in this thread: the best of three, and of more up to some seconds.

    Without the collector: how long that takes depends on all that the process has.
    """
    times: list[float] = []
    gc.disable()
    try:
        while len(times) < 3 or (sum(times) < at_least and len(times) < 300):
            times.append(once(work))
    finally:
        gc.enable()
    return min(times)


def once(work: Work) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def growth(made: Made, size: int) -> float:
    """Return how many times as long eight times the size takes; measured again while too much.

    What grows with the square takes 64 times as long, and no luck makes 12 of that.
    """
    less, more = made(size), made(8 * size)
    found: list[float] = []
    for again in range(8):
        at_least = 0.005 * 2**again
        found.append(seconds(more, at_least) / max(seconds(less, at_least), 1e-5))
        if found[-1] <= MOST:
            break
    return min(found)


# The patterns

Attack = tuple[str, str, str]  # how the text begins, what is in it again and again, how it ends


class Use(NamedTuple):
    """How a pattern is used.

    Attributes:
        method: the method of it that is called.
        size: how many characters it may meet.
        attacks: the worst texts that are known for it.
    """

    method: str
    size: int
    attacks: Sequence[Attack]


PATTERNS = {
    "binding/alias.py _ALIAS": Use(
        "fullmatch", NAME, [("", "_", ""), ("", "a_", ""), ("", "_00000000", "g"), ("", "a", "")]
    ),
    "binding/alias.py _OTHERS": Use("sub", NAME, [("", " ", ""), ("", "a ", "")]),
    "binding/comparison.py _same_host": Use(
        "fullmatch", URL, [("a", ":", ""), ("", ":1", "x"), ("a:", "1", "x")]
    ),
    "binding/headers.py _SEPARATORS": Use("sub", NAME, [("", "-", ""), ("", "a-", "")]),
    "binding/pins.py _DIGEST": Use("fullmatch", NAME, [("sha256:", "0", "")]),
    "commands/explain/json_cursor.py _SCALAR": Use(
        "match", FILE, [("", "1", "x"), ("1.", "1", "x"), ("1e", "1", "x"), ("-", "0", "")]
    ),
    "commands/explain/json_cursor.py _SPACE": Use("match", FILE, [("", " ", "")]),
    "commands/explain/json_cursor.py _TEXT": Use(
        "match", FILE, [('"', "a", ""), ('"', '\\"', ""), ('"', "\\", ""), ('"', "\\\\", '\\"')]
    ),
    "commands/explain/json_cursor.py _TO_BRACKET": Use(
        "match",
        FILE,
        [
            ("", '"",', ""),
            ("", '"', ""),
            ("", "[]", ""),
            ("", "[[]]", ""),
            ("", "{},", ""),
            ("[", "a", ""),
            ("[[", '"a"', "[["),
            ("[", '"\\"', ""),
            ("", '{"":[],', ""),
        ],
    ),
    "commands/explain/saved_chats.py _matches": Use(
        "fullmatch",
        FILE,
        [
            ("untrusted: ", "a", ""),
            ("https://", "a", " "),
            ("retry_after ", "1", "s"),
            ("OSError", " in a", ""),
            ("a in ", "a", ", line 1"),
        ],
    ),
    "commands/lint/settings.py _VARIABLE": Use(
        "findall",
        FILE,
        [
            ("", "a", ""),
            ("", " ", ""),
            ("export", " ", ""),
            ("", "export ", ""),
            ("a", "\t", "a"),
            ("", "\n", ""),
            ("", "a\n", ""),
            ("", "'a' ", ""),
        ],
    ),
    "commands/lint/urls.py _PARTS": Use(
        "fullmatch",
        FILE,
        [
            ("", "a", ""),
            ("a://", "@", ""),
            ("a://", ":", ""),
            ("a://", ":1", "x"),
            ("a://", "a@:1", "/"),
            ("a:/", "/", ""),
            ("a://", "?", ""),
        ],
    ),
    "guild_preflight/cache_marks.py _LIFETIME": Use(
        "findall",
        HEAD,
        [
            ("", "max-age ", ""),
            ("max-age", " ", "x"),
            ("max-age=", " ", ""),
            ("max-age =", "1", ""),
            ("", "max-age=", ""),
            ("", "stale-while-revalidat", ""),
        ],
    ),
    "guild_preflight/cache_marks.py _NUMBER": Use("fullmatch", HEAD, [("", "0", "x")]),
    "guild_preflight/cache_marks.py _QUOTED": Use(
        "sub",
        HEAD,
        [('"', '\\"', ""), ("", '"', ""), ("", '"\\', ""), ('"', "a", ""), ("", '""', "")],
    ),
    "guild_preflight/cache_marks.py _TRAFFIC_SERVER_HIT": Use(
        "search", HEAD, [("", "[u", ""), ("", "[u c", ""), ("", "[", "")]
    ),
    "guild_preflight/cache_marks.py _WORD": Use("findall", HEAD, [("", "a", ""), ("", "a ", "")]),
    "guild_preflight/cache_marks.py _ZERO": Use("fullmatch", HEAD, [("", "0", "1")]),
    "guild_preflight/contract.py _CHECK_NAME": Use("fullmatch", BODY, [("", "a", "")]),
    "guild_preflight/endpoint.py _FORBIDDEN": Use("search", URL, [("", "a", "")]),
    "guild_preflight/endpoint.py _LABEL": Use("fullmatch", URL, [("a", "-", ""), ("", "a", "-")]),
    "guild_preflight/endpoint.py _NUMBER_LABEL": Use("fullmatch", URL, [("0x", "f", "g")]),
    "guild_preflight/endpoint.py _PATH": Use(
        "fullmatch", URL, [("", "/", " "), ("/", "a", " "), ("", "/a", "%"), ("/", "%41", "%")]
    ),
    "guild_preflight/endpoint.py _PERCENT": Use("findall", URL, [("", "%", ""), ("", "%4", "")]),
    "guild_preflight/endpoint.py _SCHEME": Use("match", URL, [("", "a", ""), ("a", "+", "")]),
    "guild_preflight/endpoint.py _check_port": Use("fullmatch", URL, [("", "1", "")]),
    "guild_preflight/endpoint.py _split": Use("split", URL, [("", "a", ""), ("", "/", "")]),
    "guild_preflight/endpoint.py _split 2": Use("search", URL, [("", "a", ""), ("", "/", "")]),
    "guild_preflight/framing.py _CHUNKED": Use(
        "search",
        HEAD,
        [("", "\ntransfer-encodin", ""), ("", "\n", ""), ("\ntransfer-encoding", " ", "")],
    ),
    "guild_preflight/framing.py _NEVER": Use("search", HEAD, [("", "\r\n", ""), ("", " ", "\0")]),
    "guild_preflight/framing.py _SECTION_END": Use(
        "search", HEAD, [("", "\n\r", ""), ("", "\n\ra", ""), ("", "\n", "")]
    ),
    "guild_preflight/framing.py _SIZE": Use("match", HEAD, [("", "0", ""), ("", "a", ";")]),
    "guild_preflight/response_head.py _JSON_TYPE": Use(
        "fullmatch",
        HEAD,
        [
            ("application/json", " ", "x"),
            ("application/json;", " ", "x"),
            ("application/json; charset", " ", "x"),
            ("application/json; charset=utf-8", " ", "x"),
            ("application/json; charset=utf-8", '"', ""),
        ],
    ),
    "guild_preflight/salvage.py _COLON": Use("match", BODY, [("", " ", "")]),
    "guild_preflight/salvage.py _NO_LIST": Use(
        "match", BODY, [("failed", " ", ""), ("failed", "\\", '":'), ('failed" :', " ", "[")]
    ),
    "guild_preflight/salvage.py _QUOTE_ENDS": Use("match", BODY, [("", "\\ ", "")]),
    "guild_preflight/salvage.py _WORD_ENDS": Use("match", BODY, [("", "a", "")]),
    "settings/locations.py normalize_name": Use("sub", NAME, [("", " ", ""), ("", "a-", "")]),
    "settings/reader.py _HEADER": Use("fullmatch", NAME, [("", "a", ""), ("", "a", " ")]),
    "settings/reader.py _LOCAL_ORIGIN": Use("fullmatch", NAME, [("http://[::1]:", "1", "")]),
}


class Found(NamedTuple):
    """A pattern in the source: the call, and the pattern itself, None where it is not literal."""

    method: str
    pattern: re.Pattern[Any] | None


def found_in(room: Path) -> Iterator[tuple[str, Found]]:
    """Return each use of `re` in a room, under the name or the function that it belongs to."""
    tree = ast.parse(room.read_text(encoding="utf-8"))
    module = importlib.import_module(
        ".".join([PACKAGE, *room.relative_to(ROOMS).with_suffix("").parts])
    )
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            assert all(alias.name != "re" or alias.asname is None for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            assert statement.module not in ("re", "regex", "sre_compile")
    for statement in tree.body:
        for owner in [statement] if not isinstance(statement, ast.ClassDef) else statement.body:
            calls = [node for node in ast.walk(owner) if isinstance(node, ast.Call)]
            for call in sorted(calls, key=lambda call: call.lineno):
                if not (
                    isinstance(call.func, ast.Attribute)
                    and isinstance(call.func.value, ast.Name)
                    and call.func.value.id == "re"
                    and call.func.attr != "escape"
                ):
                    continue
                if isinstance(owner, ast.Assign):
                    (target,) = owner.targets
                    assert isinstance(target, ast.Name)
                    yield target.id, Found("compile", getattr(module, target.id))
                else:
                    assert isinstance(owner, ast.FunctionDef), ast.dump(owner)[:80]
                    literal = call.args[0]
                    is_literal = isinstance(literal, ast.Constant) and len(call.args) < 4
                    pattern = re.compile(ast.literal_eval(literal)) if is_literal else None
                    yield owner.name, Found(call.func.attr, pattern)


def all_patterns() -> dict[str, Found]:
    """Return every pattern of the product by room and name, numbered where there are more."""
    found: dict[str, Found] = {}
    for room in sorted([*ROOMS.rglob("*.py"), *(CHECKOUT / "extensions").rglob("*.py")]):
        if not room.is_relative_to(ROOMS):
            assert "import re\n" not in room.read_text(encoding="utf-8")
            continue
        if "__main__" in room.name or "import re\n" not in room.read_text(encoding="utf-8"):
            continue
        for name, one in found_in(room):
            key = f"{room.relative_to(ROOMS).as_posix()} {name}"
            numbered = [key, *(f"{key} {number}" for number in range(2, 9))]
            found[next(each for each in numbered if each not in found)] = one
    return found


def patterns_of_fields() -> list[re.Pattern[str]]:
    """Return the patterns that fields of a record or an observation must match."""
    found: list[re.Pattern[str]] = []
    pending: list[object] = [
        *saved_chats._RECORD.values(),
        *saved_chats._OBSERVATION.values(),
        *saved_chats._CHECK.values(),
    ]
    while pending:
        one = pending.pop()
        if isinstance(one, re.Pattern):
            found.append(one)
        elif callable(one):
            pending += [cell.cell_contents for cell in getattr(one, "__closure__", None) or ()]
    return list(dict.fromkeys(found))


def compiled(key: str) -> list[re.Pattern[Any]]:
    """Return the patterns of one key."""
    pattern = FOUND[key].pattern
    return patterns_of_fields() if pattern is None else [pattern]


def text_of(attack: Attack, size: int) -> str:
    begin, unit, end = attack
    return begin + unit * max(1, size // len(unit)) + end


def work_of(pattern: re.Pattern[Any], method: str, text: str) -> Work:
    subject = text.encode() if isinstance(pattern.pattern, bytes) else text
    if method == "sub":
        return lambda: pattern.sub(subject[:0], subject)
    if method == "split":
        return lambda: pattern.split(subject, maxsplit=1)
    call = getattr(pattern, method)
    return lambda: call(subject)


def worst_found(pattern: re.Pattern[Any], method: str) -> list[Attack]:
    """Return the slowest of many texts that are made of the pattern's own characters and words."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    words = sorted(set(re.findall(r"[A-Za-z0-9/-]{2,}", source)))[:6]
    characters = sorted({*re.findall(r"[^A-Za-z0-9()?*+|{}]", source), *' a0"\\'})
    rng = random.Random(source)
    parts = [*characters, *words]
    begins = ["", *parts, *("".join(rng.sample(parts, 2)) for _ in range(40))]
    begins += [character + word for character in characters for word in words]
    units = [*parts, *("".join(rng.sample(parts, 2)) for _ in range(20))]
    attacks = [(begin, unit, "\0") for unit in parts for begin in begins]
    attacks += [(rng.choice(begins), unit, "") for unit in units]
    took = {each: once(work_of(pattern, method, text_of(each, KIB))) for each in attacks}
    slowest = sorted(took, key=lambda each: -took[each])[:12]
    took = {each: once(work_of(pattern, method, text_of(each, 8 * KIB))) for each in slowest}
    return sorted(took, key=lambda each: -took[each])[:3]


FOUND = all_patterns()


def test_every_pattern_is_listed_here() -> None:
    """A new pattern needs its worst texts; one that is gone needs none."""
    assert sorted(FOUND) == sorted(PATTERNS)
    for key, use in PATTERNS.items():
        assert FOUND[key].method in ("compile", use.method), key


def test_only_two_rooms_compare_texts_by_likeness() -> None:
    """That takes as long as both are long, one by the other; they bound it, see `nearest`."""
    rooms = [path for path in ROOMS.rglob("*.py") if "difflib" in path.read_text(encoding="utf-8")]
    assert sorted(path.relative_to(ROOMS).as_posix() for path in rooms) == [
        "commands/lint/nearest.py",
        "commands/why/command.py",  # of the operator's own argument
    ]


@pytest.mark.parametrize("key", PATTERNS)
def test_a_pattern_reads_a_text_in_time_that_grows_as_it_does(key: str) -> None:
    method, size, attacks = PATTERNS[key]
    for pattern in compiled(key):
        for attack in [*attacks, *worst_found(pattern, method)]:
            found = growth(lambda n, a=attack, p=pattern: work_of(p, method, text_of(a, n)), size)
            assert found <= MOST, (pattern.pattern, attack)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        # As they were until they held the interpreter for a minute.
        (r'"(?:[^"\\]|\\.)*"', "sub"),
        (r";\s*hit\s*(?!\s*=\s*\?0)(?:=|;|,|$)", "search"),
        (r"\s+$", "search"),
    ],
)
def test_the_measure_finds_a_pattern_that_grows_with_the_square(pattern: str, method: str) -> None:
    one = re.compile(pattern)
    grown = [
        once(work_of(one, method, text_of(attack, 8 * KIB)))
        / once(work_of(one, method, text_of(attack, KIB)))
        for attack in worst_found(one, method)
    ]
    assert max(grown) > 2 * MOST


# What reads with loops of its own


def refused(work: Work) -> Work:
    """Return the work, whatever it says of the text."""

    def run() -> None:
        with contextlib.suppress(Refusal, ValueError, RecursionError, json_cursor.TooIntricate):
            work()

    return run


def bodies(unit: bytes, begin: bytes = b"", end: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: begin + unit * (size // len(unit)) + end


ANSWER = answer_body("https://tools.example.com/mcp")
BODIES = {
    **{
        repr(unit): bodies(unit)
        for unit in (
            *(
                b"[",
                b'{"a":',
                b'"',
                b"\\",
                b'\\"',
                b"\\u0061",
                b'"\\u0064o_not_',
                b":",
                b'"failed":',
            ),
            *(b'"failed' + b"\\" * 64, b'"' + b" " * 64, b"\xff", b"\xe2\x82", b"\0", b" "),
            *("Σ.".encode(), "İ".encode(), "\U0001f600".encode(), b"do_not_delegate", b"failed"),
        )
    },
    "lists": bodies(b"[],", b"[", b"1]"),
    "objects": bodies(b"{},", b"[", b"1]"),
    "numbers": bodies(b"1,", b"[", b"1]"),
    "keys": lambda size: json.dumps({f"{n:x}": 0 for n in range(size // 10)}).encode(),
    "one key": bodies(b"k", b'{"', b'":1}'),
    "a whole number": bodies(b"9", b"[", b"]"),
    "a real number": bodies(b"9", b"[0.", b"]"),
    "failed": bodies(b'"x",', ANSWER[:-1] + b',"failed":[', b'"x"]}'),
    "checks": bodies(
        b'{"check":"x","status":"failed","detail":""},',
        ANSWER.replace(b'"checks":', b'"was":')[:-1] + b',"checks":[',
        b"{}]}",
    ),
    "a detail": lambda size: ANSWER.replace(b"Observed.", "é".encode() * (size // 2)),
    "a target": bodies(b"x", ANSWER[:-1] + b',"more":"', b'"}'),
}


@pytest.mark.parametrize("kind", BODIES)
def test_what_an_answer_claims(kind: str) -> None:
    def made(size: int) -> Work:
        body = BODIES[kind](size)
        return lambda: salvage.read_claims(body)

    assert growth(made, BODY) <= MOST


@pytest.mark.parametrize("kind", BODIES)
def test_an_answer(kind: str) -> None:
    def made(size: int) -> Work:
        body = BODIES[kind](size)
        return refused(lambda: contract.parse(body, target="https://tools.example.com/mcp"))

    assert growth(made, BODY) <= MOST


HEADERS: dict[str, Callable[[int], list[tuple[bytes, bytes]]]] = {
    **{
        f"{name}: {begin}{unit[:9]}": lambda size, n=name, b=begin, u=unit: [
            (n.encode(), (b + u * (size // len(u))).encode())
        ]
        for name, begin, unit in (
            ("Cache-Status", 'a; detail="', '\\"'),
            ("Cache-Status", "a; hit=?0", " "),
            ("Cache-Status", "a", ";a=?0"),
            ("Cache-Status", "a", ",a;b"),
            ("Cache-Status", "a; ", '""'),
            ("Cache-Control", "max-age", " "),
            ("Cache-Control", "", "max-age=0,"),
            ("Warning", "", '2"",'),
            ("X-Cache", "", "hi"),
            ("X-Cache", "", "hi "),
            ("X-Cache-Hits", "", "0,"),
            ("X-Varnish", "", "1,"),
            ("X-Varnish", "", "\t"),
            ("Via", "", "[u"),
            ("Age", "", "0,"),
            ("Date", "", "Mon, "),
            ("Expires", "", "Mon, "),
            ("Server-Timing", "", "a;"),
        )
    },
    "many names": lambda size: [(b"a-%d" % n, b"") for n in range(size // 8)],
    "many of one name": lambda size: [(b"Age", b"0")] * (size // 8),
    "many caches": lambda size: [(b"X-Cache", b"MISS")] * (size // 16),
    "many dates": lambda size: [(b"Date", b"Sun, 01 Mar 2026 12:00:00 GMT")] * (size // 40),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_head(kind: str) -> None:
    def made(size: int) -> Work:
        found = [(b"Content-Type", b"application/json"), *HEADERS[kind](size)]
        response = httpx.Response(200, headers=found)
        return lambda: refuse_head(response, 1772366400.0, 5.0)

    assert growth(made, HEAD) <= MOST


def test_a_media_type() -> None:
    def made(size: int) -> Work:
        response = httpx.Response(
            200, headers={"Content-Type": "application/json" + " " * size + "x"}
        )
        return lambda: refuse_head(response, 0.0, 5.0)

    assert growth(made, HEAD) <= MOST


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
READ_WITH_PATTERNS: dict[str, tuple[bytes, bytes, bytes]] = {
    # What the HTTP library reads with patterns of its own: how it begins, goes on and ends.
    "a header": (b"HTTP/1.1 200 OK\r\nx:", b" ", b"\0\r\n\r\n"),
    "a header, tabs": (b"HTTP/1.1 200 OK\r\nx:", b"\t", b"\v\r\n\r\n"),
    "a header, a value": (b"HTTP/1.1 200 OK\r\nx:", b" ", b"x\f\r\n\r\n"),
    "a folded header": (b"HTTP/1.1 200 OK\r\nx:", b"\r\n ", b"\ra\r\n\r\n"),
    "a sound header": (b"HTTP/1.1 200 OK\r\nx:", b" ", b"x\r\n\r\n"),
    "a sound folded header": (b"HTTP/1.1 200 OK\r\nx:", b"\r\n ", b"\r\n\r\n"),
    "words": (b"HTTP/1.1 200 OK\r\nx:", b" a", b"\0\r\n\r\n"),
    "a name": (b"HTTP/1.1 200 OK\r\n", b"x", b" :\r\n\r\n"),
    "an interim head": (b"HTTP/1.1 103 H\r\nx:", b" ", b"\0\r\n\r\n"),
    "the last head": (b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nx:", b" ", b"\0\r\n\r\n"),
    "a status line": (b"HTTP/1.1 200 ", b" ", b"\0\r\n\r\n"),
    "a status line of words": (b"HTTP/1.1 200 ", b"a ", b"\0\r\n\r\n"),
    "a status": (b"HTTP/1.1 200", b" ", b"\n"),
    "the size of a chunk": (CHUNKED + b"1;", b" ", b"\n\r\n"),
    "the size of a chunk alone": (CHUNKED + b"1", b" ", b"\n\r\n"),
    "the size of a later chunk": (CHUNKED + b"1\r\na\r\n1;", b"\t", b"\n\r\n"),
    "a sound size of a chunk": (CHUNKED + b"1;", b" ", b"\r\n"),
    "a trailer": (CHUNKED + b"0\r\nx:", b" ", b"\0\r\n\r\n"),
    "a folded trailer": (CHUNKED + b"0\r\nx:", b"\n ", b"\v\r\n\r\n"),
}


def framed(kind: str, size: int) -> list[Step]:
    begin, unit, end = READ_WITH_PATTERNS[kind]
    return [Send(begin + unit * (size // len(unit)) + end)]


@pytest.mark.parametrize("kind", READ_WITH_PATTERNS)
def test_what_the_http_library_reads_with_patterns(kind: str) -> None:
    """Of a service, through the client of the gate; the work of the service's thread is not timed."""
    with contextlib.ExitStack() as stack:

        def made(size: int) -> Work:
            server = stack.enter_context(WireServer(framed(kind, size)))

            def run() -> None:
                request = PreflightRequest(server.origin, "https://tools.example.com/mcp")
                asyncio.run(request.run())

            return refused(run)

        assert growth(made, 2 * KIB) <= MOST


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nx:", CHUNKED + b"1;", CHUNKED + b"0\r\nx:"])
def test_what_drips_is_looked_at_once(begin: bytes) -> None:
    def made(size: int) -> Work:
        def run() -> None:
            look = Framing()
            look.take(begin)
            for _ in range(size):
                look.take(b"a")

        return run

    assert growth(made, 8 * KIB) <= MOST


@pytest.mark.parametrize(
    "begin_and_unit",
    [
        *(("https://a.example/", unit) for unit in ("a", "/", "%41", "%", "../", "é", "?")),
        *(("https://", unit) for unit in ("a.", "a-", "@", ":", "[", "1.", "0x", "xn--")),
        *(("", unit) for unit in ("a", "https:", "/", " ")),
    ],
    ids=ascii,
)
def test_a_url(begin_and_unit: tuple[str, str]) -> None:
    begin, unit = begin_and_unit

    def screened(size: int) -> Work:
        url = begin + unit * (size // len(unit))
        screen.cache_clear()
        return refused(lambda: screen.__wrapped__(url, allow_private_hosts=True))

    def compared(size: int) -> Work:
        url = begin + unit * (size // len(unit))
        return lambda: urls.differences(url, url + "/x")

    def led_to(size: int) -> Work:
        url = begin + unit * (size // len(unit))
        return lambda: redirects.kind_of_redirect("https://a.example/mcp", url)

    assert growth(screened, URL // 8) <= MOST
    assert growth(compared, 64 * KIB) <= MOST
    assert growth(led_to, HEAD) <= MOST


def test_a_redirect_to_a_host_of_marks() -> None:
    """The library orders them, each by all before it."""
    found = growth(
        lambda size: (
            lambda: redirects.kind_of_redirect(
                "https://a.example/mcp", "https://a" + "\u0315\u0300\u0316" * (size // 6)
            )
        ),
        HEAD,
    )
    assert found <= MOST


@pytest.mark.parametrize("unit", ["a", "\\", "\x1b", "é", "\u202e", "\U000e0001", '"'])
def test_a_text_that_is_shown(unit: str) -> None:
    for show in (untrusted.visible, untrusted.untrusted, problems.shown_path, normalize_name):

        def made(size: int, show: Callable[[str], str] = show) -> Work:
            text = unit * size
            return lambda: show(text)

        assert growth(made, 64 * KIB) <= MOST


# Settings: an eighth of 3,000 servers, and files of an absurd form

EIGHTH = 375


def url_of(name: str) -> str:
    return f"https://{name.replace('_', '-')}.example.com/mcp"


def names(count: int, form: str = "server_{}") -> list[str]:
    return [form.format(number) for number in range(count)]


OF_ENTRY = {"required_proven": [], "on_caution": "allow"}

SETTINGS: dict[str, Callable[[int], Any]] = {
    "servers": lambda n: {"protected_servers": {name: url_of(name) for name in names(n)}},
    "alike": lambda n: {"protected_servers": {f"a{chr(0x2000 + k)}b": "x" for k in range(n)}},
    "unknown keys": lambda n: dict.fromkeys(names(n), 1),
    "unknown keys of servers": lambda n: {
        "protected_servers": {name: {"url": url_of(name), "tolls": 1} for name in names(n)}
    },
    "unknown keys under a long name": lambda n: {
        "protected_servers": {"n" * (40 * n): dict.fromkeys(names(4 * n), 1)}
    },
    "unknown keys of policies under a long name": lambda n: {
        "protected_servers": {"n" * (40 * n): {"url": "", "policy": dict.fromkeys(names(4 * n), 1)}}
    },
    "policies of servers": lambda n: {
        "protected_servers": {
            name: {"url": url_of(name), "timeout_seconds": 1 + number / n, "policy": OF_ENTRY}
            for number, name in enumerate(names(n))
        }
    },
    "pins under a long name": lambda n: {
        "protected_servers": {"n" * (40 * n): {"url": "", "tools": dict.fromkeys(names(4 * n), 1)}}
    },
    "a long key": lambda n: {"k" * (100 * n): 1},
    "long keys": lambda n: {"policy": {name * 30: 1 for name in names(n)}},
    "required": lambda n: {"policy": {"required_proven": names(n)}},
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings(kind: str) -> None:
    def parsed(size: int) -> Work:
        raw = SETTINGS[kind](size)
        return refused(lambda: reader.parse(raw, normalize_name=normalize_name))

    def proposed(size: int) -> Work:
        raw = SETTINGS[kind](size)
        return lambda: nearest.nearest_settings(raw)

    assert growth(parsed, EIGHTH) <= MOST
    assert growth(proposed, EIGHTH) <= MOST


@pytest.mark.parametrize("kind", [*SETTINGS, "repeated", "deep", "wide"])
def test_the_text_of_settings(tmp_path: Path, kind: str) -> None:
    texts: Mapping[str, Callable[[int], str]] = {
        "repeated": lambda n: "{" + '"a":1,' * (20 * n) + '"a":2}',
        "deep": lambda n: '{"a":' * 900 + "[" + '{"b":1,"b":2},' * n + "1]" + "}" * 900,
        "wide": lambda n: json.dumps({"k" * 20 * n: [{} for _ in range(20 * n)]}),
    }

    def made(size: int) -> Work:
        file = tmp_path / f"{size}.json"
        text = texts[kind](size) if kind in texts else json.dumps(SETTINGS[kind](size))
        file.write_text(text)
        return lambda: json_text.repeated_keys(file)

    assert growth(made, EIGHTH) <= MOST


def settings_of(servers_of: Mapping[str, Any]) -> mcp_settings.McpSettings:
    found = [mcp_settings.McpServer(name, Path("/a"), raw) for name, raw in servers_of.items()]
    return mcp_settings.McpSettings(tuple(found), ())


# What is protected, and what the MCP settings have.
MCP: dict[str, Callable[[int], tuple[dict[str, str], dict[str, Any]]]] = {
    "all": lambda n: ({s: url_of(s) for s in names(n)}, {s: {"url": url_of(s)} for s in names(n)}),
    "none": lambda n: ({"a": "https://a.example/"}, {s: {"url": url_of(s)} for s in names(n)}),
    "by URL": lambda n: (
        {s: url_of(s) for s in names(n)},
        {f"other_{s}": {"url": url_of(s)} for s in names(n)},
    ),
    "by one URL": lambda n: (
        {s: url_of("a") for s in names(n)},
        {f"other_{s}": {"url": url_of("a")} for s in names(n)},
    ),
    "missing": lambda n: (
        {s: url_of(s) for s in names(n, "sever-{}")},
        {s: {"url": url_of(s)} for s in names(n)},
    ),
    "missing, long names": lambda n: (
        {s: url_of("a") for s in names(n, "ab" * 58 + "{}")},
        {s: {"url": url_of("a")} for s in names(n, "ba" * 58 + "{}")},
    ),
    "disabled": lambda n: (
        {s: url_of(s) for s in names(n)},
        {s: {"url": url_of(s), "disabled": True} for s in names(n)},
    ),
    "alike": lambda n: (
        {"a_b": url_of("a")},
        {f"a{chr(0x2000 + k)}b": {"url": url_of("a")} for k in range(n)},
    ),
    "headers": lambda n: (
        {s: url_of(s) for s in names(n // 20)},
        {
            s: {"url": url_of(s), "headers": {f"X-{k}": "v" for k in range(20)}}
            for s in names(n // 20)
        },
    ),
    "headers of one": lambda n: (
        {"a": url_of("a")},
        {"a": {"url": url_of("a"), "headers": {f"X-{k}": "v" for k in range(n)}}},
    ),
}


@pytest.mark.parametrize("kind", MCP)
def test_the_mcp_settings(kind: str, tmp_path: Path) -> None:
    place = Locations(tmp_path)

    def made(size: int) -> Work:
        protected, listed = MCP[kind](size)
        layers = layers_in_force(
            {"protected_servers": protected}, {}, normalize_name=normalize_name
        )

        def run() -> None:
            found = settings_of(listed)
            servers.found_in_approvals(layers)
            servers.found_in_mcp_settings(place, layers, found)

        return run

    assert growth(made, EIGHTH) <= MOST


def test_the_servers_of_one_name() -> None:
    """Asked for each name, as the commands do."""

    def made(size: int) -> Work:
        listed = {name: {"url": url_of(name)} for name in names(size)}

        def run() -> None:
            found = settings_of(listed)
            assert all(found.view(name).servers for name in listed)

        return run

    assert growth(made, EIGHTH) <= MOST


@pytest.mark.parametrize("value", ["v", "\udcff"])
def test_the_headers_of_a_server(value: str) -> None:
    def made(size: int) -> Work:
        found = {f"X-{number}": value for number in range(size)}
        return lambda: (headers.named_hosts(found), headers.headers_digest(found))

    assert growth(made, KIB) <= MOST


# Definitions: what a server says of its tools


def tool(name: str, size: int, unit: Any = "x") -> dict[str, Any]:
    schema = {"type": "object", "properties": {str(n): unit for n in range(size)}}
    return {"name": name, "description": "d" * size, "input_schema": schema}


DEFINITIONS: dict[str, Callable[[int], tuple[list[dict[str, Any]], list[dict[str, Any]]]]] = {
    # What was pinned, and what is there.
    "the same": lambda n: ([tool("a", n)], [tool("a", n)]),
    "changed": lambda n: ([tool("a", n)], [tool("a", n, ["y"])]),
    "renamed": lambda n: (
        [tool(f"a{k}", n // 20) for k in range(20)],
        [tool(f"b{k}", n // 20) for k in range(20)],
    ),
    "gone, and one large and new": lambda n: (
        [tool(f"a{k}", 1) for k in range(400)],
        [tool("b", n)],
    ),
    "many": lambda n: (
        [tool(f"a{k}", 1) for k in range(n // 8)],
        [tool(f"b{k}", 1) for k in range(n // 8)],
    ),
    "deep keys": lambda n: (
        [tool("a", 1, {"k" * (20 * n): [{"l": k} for k in range(n)]})],
        [tool("a", 1, {"k" * (20 * n): [{"l": -k} for k in range(n)]})],
    ),
}


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_definitions(kind: str) -> None:
    def made(size: int) -> Work:
        was, now = DEFINITIONS[kind](size)
        saved = {each["name"]: each for each in was}
        digests = {name: pins.digest(each) for name, each in saved.items()}

        def run() -> None:
            for found in difference.compare(digests, now, saved):
                found.schema_paths  # noqa: B018

        return run

    assert growth(made, 2 * KIB) <= MOST


# Saved chats

CHATS: dict[str, Callable[[int], bytes]] = {
    "texts": bodies(b'"",', b'{"agents":[{"history":[', b"1]}]}"),
    "lists": bodies(b"[],", b'{"agents":[{"history":[', b"1]}]}"),
    "deep lists": bodies(b"[[[]]],", b'{"agents":[{"history":[', b"1]}]}"),
    "unclosed": bodies(b'[["",', b'{"agents":'),
    "a text": bodies(b'\\"', b'{"agents":[],"log":"', b'"}'),
    "an endless text": bodies(b'\\"', b'{"agents":[],"log":"'),
    "agents": bodies(b"{},", b'{"agents":[', b"{}]}"),
    "entries": bodies(
        b"{},", b'{"agents":[{"data":{"agent_guild_preflight.decisions":[', b"{}]}}]}"
    ),
    "keys": bodies(b'"a":1,', b'{"agents":[],', b'"b":2}'),
    "a name": bodies("é".encode(), b'{"agents":[],"name":"', b'"}'),
    "spaces": bodies(b" ", b'{"agents":', b"[]}"),
    "a number": bodies(b"9", b'{"agents":[', b"]}"),
}


@pytest.mark.parametrize("kind", CHATS)
def test_a_saved_chat(kind: str, tmp_path: Path) -> None:
    def made(size: int) -> Work:
        file = tmp_path / f"{size}.json"
        file.write_bytes(CHATS[kind](size))
        return refused(saved_chats.SavedChat("chat", file, 0.0).read)

    assert growth(made, FILE) <= MOST


# The loop of an agent

MIB = KIB * KIB
HELD_SECONDS = 0.25
JSON_TYPE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def head(name: bytes, value: bytes) -> list[Step]:
    return [Send(answer(ANSWER, headers=[(name, value)]))]


def whole(kind: str) -> list[Step]:
    return [Send(answer(BODIES[kind](MIB - 2 * KIB)))]


def cut_off(kind: str) -> list[Step]:
    """What has been received when the deadline passes is read then."""
    sent = BODIES[kind](MIB - 2 * KIB)
    return [Send(JSON_TYPE + b"Content-Length: %d\r\n\r\n" % (len(sent) + 9) + sent), Stall()]


HEAVY = ("lists", "objects", "numbers", "keys", "failed", r"b'\\u0061'", "b'\"'", r"b'\xff'")
SENT: dict[str, list[Step]] = {
    "a quoted text without an end": head(b"Cache-Status", b'a; detail="' + b'\\"' * 49_000),
    "spaces behind a hit": head(b"Cache-Status", b"a; hit=?0" + b" " * 98_000 + b"x"),
    "many headers": [Send(JSON_TYPE + b"a:\r\n" * 24_000 + b"\r\n{}")],
    "many caches": [Send(JSON_TYPE + b"X-Cache:\r\n" * 9_000 + b"\r\n{}")],
    "folds": [Send(JSON_TYPE + b"X-A: a\r\n" + b" a\r\n" * 24_000 + b"\r\n{}")],
    "early hints": [Endless(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 20)],
    "chunks of a byte": [
        Send(JSON_TYPE + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 40_000),
    ],
    **{f"98 kB of {kind}": framed(kind, HEAD - KIB) for kind in READ_WITH_PATTERNS},
    "an endless body": [Send(JSON_TYPE + b"\r\n"), Endless(b"[" * 65_536)],
    **{f"whole: {kind}": whole(kind) for kind in HEAVY},
    **{f"cut off: {kind}": cut_off(kind) for kind in HEAVY},
}


async def answered(endpoint: Endpoint, origin: str) -> Observation:
    with observe.ask(
        endpoint, origin=origin, timeout_seconds=1.0, max_age_seconds=0, is_kept=False
    ) as inquiry:
        return await inquiry.observation(1.0)


async def held(script: Sequence[Step], callers: int) -> float:
    """Return the longest time for which a loop did not go on while it waited for an answer."""
    gaps = []

    async def beat() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - began)

    beating = asyncio.create_task(beat())
    with WireServer(script) as server:
        asked = [
            answered(screen(f"https://tools.example.com/{caller}"), server.origin)
            for caller in range(callers)
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(outcome, Refusal), outcome
        await asyncio.sleep(0.02)
        beating.cancel()
    return max(gaps)


@pytest.mark.parametrize("sent", SENT)
def test_the_loop_of_an_agent_goes_on(sent: str) -> None:
    """Whatever the service sends to it. The best of three: the machine may be busy."""
    script = SENT[sent]
    callers = 5 if sent.startswith("cut off") else 1
    found = []
    while len(found) < 3 and (not found or found[-1] >= HELD_SECONDS):
        found.append(asyncio.run(held(script, callers)))
    assert min(found) < HELD_SECONDS


def test_the_loops_of_other_agents_go_on_while_a_megabyte_is_read() -> None:
    """Each in a thread of its own, and all at one deadline."""

    def best() -> float:
        gaps: list[float] = []

        def agent(kind: str) -> None:
            gaps.append(asyncio.run(held(cut_off(kind), 1)))

        threads = [threading.Thread(target=agent, args=(kind,)) for kind in HEAVY]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(gaps) == len(HEAVY)
        return max(gaps)

    assert min(best() for _ in range(3)) < HELD_SECONDS


# The commands

SECONDS = 5.0
MEBIBYTES = 512

# A process of its own, so that nothing of the tests' memory counts. A command waits for nothing, so
# the processor's time is what it takes on a machine that has nothing else to do.
MEASURE = """
import json, os, resource, sys
code = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, *sys.argv[1:]])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss]), file=sys.stderr)
"""


class Measured(NamedTuple):
    """What came of a command: its exit code, and what it said."""

    code: int
    output: str


def measured(root: Path, *arguments: str) -> Measured:
    """Run a command, which must end in time and memory; the better of two times counts."""
    command = [str(CHECKOUT / "helpers/__main__.py"), *arguments, "--root", str(root)]
    times = []
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True
        )
        code, took, kibibytes = json.loads(ran.stderr.splitlines()[-1])
        times.append(took)
        assert kibibytes * (1 if sys.platform == "linux" else 1 / KIB) <= MEBIBYTES * KIB
        if took <= SECONDS:
            break
    assert min(times) <= SECONDS
    return Measured(code, ran.stdout)


@pytest.fixture
def zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AgentZero:
    return AgentZero(tmp_path, capsys)


@pytest.mark.parametrize("kind", MCP)
def test_lint_over_3000_servers(zero: AgentZero, kind: str) -> None:
    protected, listed = MCP[kind](3_000)
    zero.write(GLOBAL, {"protected_servers": protected})
    zero.set_mcp(**listed)
    code, output = measured(zero.root, "lint")
    assert code == 0
    assert output.splitlines()[0] == f"in force: {GLOBAL} (global)"
    no_nearest = kind.startswith(("missing", "by URL", "by one URL"))
    assert ("The nearest name was not looked for" in output) is no_nearest


@pytest.mark.parametrize("kind", SETTINGS)
def test_lint_over_3000_of_everything(zero: AgentZero, kind: str) -> None:
    zero.write(GLOBAL, SETTINGS[kind](3_000))
    zero.set_mcp()
    code, output = measured(zero.root, "lint")
    assert code == (0 if kind in ("servers", "policies of servers") else 12)
    found = re.match("([0-9]+|no) problems?, ", output.splitlines()[-1])
    assert found is not None and output.count("problem ") == int(found[1].replace("no", "0"))
    assert (nearest.NOT_LOOKED_FOR.words in output) is kind.startswith("unknown")


def test_lint_of_a_project_and_a_floor_over_3000_servers(zero: AgentZero) -> None:
    protected, listed = MCP["all"](3_000)
    zero.write(GLOBAL, {"protected_servers": protected, "floor": True})
    project = "usr/projects/shop/.a0proj"
    zero.write(
        f"{project}/{PLUGIN.removeprefix('usr/')}/config.json", {"protected_servers": protected}
    )
    zero.write(f"{project}/mcp_servers.json", {"mcpServers": listed})
    zero.set_mcp(**listed)
    assert measured(zero.root, "lint", "--project", "shop").code == 0


SAID = "Entries left out, because they are no records of this plugin: "
TOO_MANY = "has too many parts to be gone through; all of it is left out."
LARGE = {  # a chat's kind, and what is said of it
    "messages": "No decision is stored in this chat.",
    "texts": "No decision is stored in this chat.",
    "lists": "No decision is stored in this chat.",
    "a text": "No decision is stored in this chat.",
    "a name": "No decision is stored in this chat.",
    "deep lists": TOO_MANY,
    "agents": TOO_MANY,
    "entries": TOO_MANY,
    "keys": TOO_MANY,
}
MESSAGE = json.dumps(
    {"ai": False, "content": {"text": "é, a message " * 20, "files": []}, "id": "a"}
)


@pytest.mark.parametrize("kind", LARGE)
def test_explain_over_60_mebibytes(tmp_path: Path, kind: str) -> None:
    message = f"{MESSAGE},".encode()
    made = {**CHATS, "messages": bodies(message, b'{"agents":[{"history":[', b"1]}]}")}[kind]
    file = tmp_path / "usr" / "chats" / "chat" / "chat.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(made(60 * MIB))
    code, output = measured(tmp_path, "explain", "--last")
    assert output.splitlines()[-1].endswith(LARGE[kind])
    assert code == (11 if LARGE[kind] is TOO_MANY else 0)
    file.unlink()
