"""A hostile preflight service: what goes over the wire, and how each kind of it is refused.

Every case is a small script that a raw server plays. It must be refused with its sub-reason by
its deadline, after exactly one connection and one request, and nothing of what the service said
may be found in the exception or in a log. The second table holds answers that are odd but
correct HTTP: these are accepted.

The cases are played once, some at a time on one loop; the tests look at what came of each.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import json
import logging
import socket
import ssl
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import pytest
from cryptography import x509
from local_guild.answers import CHECKS, answer_body, encode
from local_guild.wire import (
    Close,
    Drip,
    Endless,
    Line,
    Reset,
    Send,
    Stall,
    Step,
    WireServer,
)
from local_guild.wire import answer as http
from stage.certificates import Authority
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import observe, request
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.contract import ContractViolation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.endpoint import screen
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.salvage import EvidenceUnavailable
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, Refusal, SubReason

ENDPOINT = screen("https://tools.example.com/mcp")
TARGET = ENDPOINT.url
MARKER = "MARKER"
PROMPT_SECONDS = 10.0  # for what must be refused at once; a slow machine has the time it needs
SHORT_SECONDS = 0.5  # where the case is about time
MARGIN_SECONDS = 1.0
AT_ONCE = 12  # cases
MIB = 1024 * 1024

REACHABLE, HANDSHAKE, CARD, *_ = CHECKS


@dataclass(frozen=True)
class Case:
    """One kind of answer: its script, and the sub-reason, which is None for a valid answer."""

    name: str
    sub_reason: SubReason | None
    script: Sequence[Step]
    seconds: float = PROMPT_SECONDS
    certificate: str | None = None  # speak TLS with it
    https: bool = False  # be asked for TLS, whatever is spoken
    before_request: bool = False

    @property
    def floods(self) -> bool:
        return any(isinstance(step, Endless) for step in self.script)


@dataclass
class Played:
    """What came of a case."""

    outcome: Observation | BaseException
    seconds: float
    connections: int
    requests: list[bytes]
    origin: str
    closed: bool


# --- Scripts -------------------------------------------------------------------------------


def body(**overrides: Any) -> bytes:
    """A valid answer with marked texts; overrides make it contradict itself."""
    texts = {"headline": MARKER, "method": MARKER, "limits": MARKER, "note": MARKER}
    return encode(json.loads(answer_body(TARGET)) | texts | overrides)


def edited(**changes: Any) -> bytes:
    """A valid answer in which the first check has changed or lost (None) some keys."""
    document = json.loads(body())
    row = document["checks"][0] | changes
    document["checks"][0] = {key: value for key, value in row.items() if value is not None}
    return encode(document)


def with_checks(*names: str) -> bytes:
    """A valid answer but for further checks, all unknown."""
    document = json.loads(body())
    for name in names:
        document["checks"].append({"check": name, "status": "unknown", "detail": MARKER})
        document["unknowns"].append(name)
    return json.dumps(document).encode()


def without(name: str) -> bytes:
    document = json.loads(body())
    del document[name]
    return encode(document)


def tail(text: str) -> bytes:
    """A valid answer with one more key, written as it stands."""
    return body()[:-1] + b"," + text.encode() + b"}"


GOOD = body()
JSON_TYPE = b"Content-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = JSON_TYPE + b"Transfer-Encoding: chunked\r\n"


def says(content: bytes, **kwargs: Any) -> list[Step]:
    """A whole answer in correct HTTP."""
    return [Send(http(content, **kwargs))]


def status(line: str, content: bytes = GOOD, *headers: tuple[bytes, bytes]) -> list[Step]:
    return says(content, status=line.encode(), headers=headers)


def header(name: str, value: str) -> list[Step]:
    """A valid answer with one more header."""
    return says(GOOD, headers=[(name.encode(), value.encode("utf-8"))])


def raw(*pieces: bytes) -> list[Step]:
    """Bytes as they are, then an orderly end."""
    return [Send(b"".join(pieces)), Close()]


def ok(headers: bytes, content: bytes = GOOD, line: bytes = b"HTTP/1.1 200 OK") -> list[Step]:
    """A head of our own making, then the body, then an orderly end."""
    return raw(line, b"\r\n", headers, b"\r\n", content)


def chunks(content: bytes, size: int = 500, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    framed = [b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts]
    return b"".join(framed) + b"0%s\r\n%s\r\n" % (extension, trailers)


class Dated:
    """Send a valid answer with dates, each so many seconds from then."""

    def __init__(self, *dates: tuple[str, float]) -> None:
        self._dates = dates

    def play(self, line: Line) -> None:
        now = time.time()
        sent = [(name, formatdate(now + seconds, usegmt=True)) for name, seconds in self._dates]
        line.send(http(GOOD, headers=[(name.encode(), date.encode()) for name, date in sent]))


@dataclass(frozen=True)
class Hear:
    """Wait for the client's first byte, so that a reset cannot come before its connection."""

    def play(self, line: Line) -> None:
        line._sock.recv(1, socket.MSG_PEEK)


# --- The corpus ----------------------------------------------------------------------------


def contradictions() -> Iterator[Case]:
    """Whole answers in correct HTTP that break the contract."""
    shape, summary, verdict = SubReason.SHAPE, SubReason.SUMMARY, SubReason.VERDICT
    checks, target, number = SubReason.CHECK_SET, SubReason.TARGET, SubReason.NUMBER
    encoding, text, twice = SubReason.ENCODING, SubReason.JSON, SubReason.DUPLICATE_KEY
    depth = SubReason.DEPTH
    failed_card = answer_body(TARGET, {CARD: "failed"})
    wrong: dict[str, tuple[SubReason, bytes]] = {
        # Types
        "null": (shape, b"null"),
        "true": (shape, b"true"),
        "a number": (shape, b"1"),
        "a string": (shape, f'"{MARKER}"'.encode()),
        "a list": (shape, b"[" + GOOD + b"]"),
        "an empty object": (shape, b"{}"),
        "an error object": (shape, b'{"detail":"MARKER"}'),
        "an envelope": (shape, b'{"result":' + GOOD + b"}"),
        **{
            f"no {name}": (shape, without(name))
            for name in ("target", "verdict", "headline", "checks", "failed", "unknowns")
        },
        "no scored": (shape, without("scored")),
        "no method": (shape, without("method")),
        "no limits": (shape, without("limits")),
        "target is a list": (shape, body(target=[TARGET])),
        "verdict is null": (shape, body(verdict=None)),
        "verdict is a boolean": (shape, body(verdict=True)),
        "headline is an object": (shape, body(headline={"text": MARKER})),
        "checks is an object": (shape, body(checks={MARKER: "proven"})),
        "checks is a string": (shape, body(checks=MARKER)),
        "checks holds a string": (shape, body(checks=[MARKER])),
        "failed is null": (shape, body(failed=None)),
        "failed is a string": (shape, body(failed="")),
        "unknowns is an object": (shape, body(unknowns={})),
        "scored holds a number": (shape, body(scored=[REACHABLE, 1])),
        "status is a boolean": (shape, edited(status=True)),
        "a check without detail": (shape, edited(detail=None)),
        "a check's name is a list": (shape, edited(check=[REACHABLE])),
        # Repeated keys
        "two verdicts": (twice, tail('"verdict":"do_not_delegate"')),
        "two equal verdicts": (twice, tail('"verdict":"no_failed_checks"')),
        "two targets": (twice, b'{"target":"MARKER",' + GOOD[1:]),
        "two statuses": (twice, GOOD.replace(b'"status"', b'"status":"failed","status"', 1)),
        "a key repeated as an escape": (twice, tail('"\\u0076erdict":"MARKER"')),
        "an unknown key twice": (twice, tail('"x":{"MARKER":1,"MARKER":2}')),
        # Contradictions
        "failed accuses": (summary, body(failed=[REACHABLE])),
        "failed is silent": (summary, answer_body(TARGET, {CARD: "failed"}, failed=[])),
        "failed repeats": (summary, answer_body(TARGET, {CARD: "failed"}, failed=[CARD, CARD])),
        "failed invents": (summary, body(failed=[MARKER])),
        "unknowns is silent": (summary, body(unknowns=[])),
        "unknowns accuses": (summary, body(unknowns=[REACHABLE, *CHECKS[2:]])),
        "scored is silent": (summary, body(scored=[])),
        "scored invents": (summary, body(scored=[*CHECKS])),
        "scored repeats": (summary, body(scored=[REACHABLE, HANDSHAKE, REACHABLE])),
        "verdict is better": (
            verdict,
            failed_card.replace(b"delegate_with_caution", b"no_failed_checks"),
        ),
        "verdict is worse": (verdict, body(verdict="do_not_delegate")),
        "verdict is too cautious": (verdict, body(verdict="delegate_with_caution")),
        "verdict hides a failed handshake": (
            verdict,
            answer_body(TARGET, {HANDSHAKE: "failed"}, verdict="delegate_with_caution"),
        ),
        "verdict hides an unreachable endpoint": (
            verdict,
            answer_body(TARGET, {REACHABLE: "failed"}, verdict="no_failed_checks"),
        ),
        "verdict in capitals": (verdict, body(verdict="NO_FAILED_CHECKS")),
        "verdict is unheard of": (verdict, body(verdict=MARKER)),
        "status is unheard of": (SubReason.STATUS, edited(status=MARKER)),
        "status in capitals": (SubReason.STATUS, edited(status="PROVEN")),
        "status with a space": (SubReason.STATUS, edited(status="proven ")),
        # The target
        "another target": (target, body(target="https://MARKER.example/mcp")),
        "a longer target": (target, body(target=TARGET + "/")),
        "a shorter target": (target, body(target=TARGET[:-1])),
        "a target in capitals": (target, body(target=TARGET.upper())),
        "a target still encoded": (target, body(target="https%3A%2F%2Ftools.example.com%2Fmcp")),
        "an empty target": (target, body(target="")),
        # The set of checks
        "no checks": (checks, body(checks=[], unknowns=[], scored=[])),
        "a check is missing": (checks, edited(check="another")),
        "a check twice": (checks, with_checks(REACHABLE)),
        "65 further checks": (checks, with_checks(*(f"c{n}" for n in range(65)))),
        "a check's name with markup": (checks, with_checks("<b>MARKER</b>")),
        "a check's name with a line break": (checks, with_checks("marker\nMARKER")),
        "a check's name of 400,000 letters": (checks, with_checks("m" * 400_000)),
        "a check's name with a lone surrogate": (checks, with_checks("marker\ud800")),
        # Encodings
        "a byte order mark": (encoding, b"\xef\xbb\xbf" + GOOD),
        "UTF-16": (encoding, GOOD.decode().encode("utf-16")),
        "UTF-16 without a mark": (text, GOOD.decode().encode("utf-16-le")),
        "UTF-32": (encoding, GOOD.decode().encode("utf-32")),
        "Latin-1": (encoding, GOOD.replace(b"MARKER", b"MARKER\xe9")),
        "an overlong character": (encoding, GOOD.replace(b"MARKER", b"MARKER\xc0\xaf")),
        "an encoded surrogate": (encoding, GOOD.replace(b"MARKER", b"MARKER\xed\xa0\x80")),
        "compressed without saying so": (encoding, gzip.compress(GOOD)),
        # Numbers
        "NaN": (number, tail('"n":NaN')),
        "Infinity": (number, tail('"n":-Infinity')),
        "a number of 20 digits": (number, tail('"n":' + "9" * 20)),
        "a number of 900,000 digits": (number, tail('"n":' + "9" * 900_000)),
        "a number beyond a double": (number, tail('"n":1e400')),
        "a real of 900,000 characters": (number, tail('"n":0.' + "1" * 900_000)),
        # Depth
        "17 levels": (depth, tail('"d":' + "[" * 16 + "]" * 16)),
        "100,000 levels": (depth, tail('"d":' + "[" * 100_000 + "]" * 100_000)),
        "a megabyte of lists": (depth, tail('"d":[' + "[]," * 330_000 + "1]")),
        "a megabyte of objects in a list": (depth, tail('"d":[' + "{}," * 330_000 + "1]")),
        "10,001 brackets in a text": (depth, tail('"d":"' + "[" * 10_001 + '"')),
        "half a megabyte of brackets": (depth, b"[" * (MIB // 2)),
        "a megabyte of objects": (depth, b'{"a":' * 200_000),
        # JSON
        "an empty body": (text, b""),
        "white space": (text, b" " * 1000),
        "a page": (text, b"<!doctype html><title>MARKER</title>"),
        "a trailing brace": (text, GOOD + b"}"),
        "two answers": (text, GOOD + GOOD),
        "a line of two answers": (text, GOOD + b"\n" + GOOD),
        "a trailing NUL": (text, GOOD + b"\0"),
        "a guard in front": (text, b")]}',\n" + GOOD),
        "a comment": (text, b"// MARKER\n" + GOOD),
        "a trailing comma": (text, GOOD[:-1] + b",}"),
        "a raw line break in a string": (text, GOOD.replace(b"MARKER", b"MARK\nER")),
        "events": (text, b"data: " + GOOD + b"\n\n"),
        "cut in the first key": (text, GOOD[:5]),
        "cut in the checks": (text, GOOD[:400]),
        "cut before the verdict is contradicted": (
            text,
            failed_card[: failed_card.index(b'"failed":')],
        ),
        "cut by one byte": (text, GOOD[:-1]),
    }
    for name, (sub_reason, content) in wrong.items():
        yield Case(name, sub_reason, says(content))


def statuses() -> Iterator[Case]:
    for line in (
        "201 Created", "202 Accepted", "203 Non-Authoritative Information", "205 Reset Content",
        "206 Partial Content", "226 IM Used", "300 Multiple Choices", "305 Use Proxy", "306 MARKER",
        "400 Bad Request", "401 Unauthorized", "402 Payment Required", "403 Forbidden",
        "404 Not Found", "407 Proxy Authentication Required", "408 Request Timeout", "410 Gone",
        "418 MARKER", "421 Misdirected Request", "425 Too Early", "426 Upgrade Required",
        "429 Too Many Requests", "451 MARKER", "500 Internal Server Error", "502 Bad Gateway",
        "503 Service Unavailable", "504 Gateway Timeout", "511 MARKER", "599 MARKER", "600 MARKER",
        "999 MARKER",
    ):  # fmt: skip
        yield Case(f"status {line}", SubReason.HTTP_STATUS, status(line))
    yield Case("status 204", SubReason.HTTP_STATUS, ok(b"", b"", b"HTTP/1.1 204 No Content"))
    yield Case("status 304", SubReason.HTTP_STATUS, ok(b"ETag: x\r\n", b"", b"HTTP/1.1 304 Not"))
    challenge = (b"WWW-Authenticate", b"Basic realm=MARKER")
    yield Case("a demand for a password", SubReason.HTTP_STATUS, status("401 No", GOOD, challenge))
    retry = (b"Retry-After", b"0")
    yield Case("come again at once", SubReason.HTTP_STATUS, status("503 Wait", GOOD, retry))
    yield Case(
        "a plain 500",
        SubReason.HTTP_STATUS,
        says(b"MARKER", status=b"500 X", content_type=b"text/plain"),
    )
    yield Case(
        "a switch of protocols that nobody asked for",
        SubReason.PROTOCOL,
        ok(b"Connection: upgrade\r\nUpgrade: websocket\r\n", GOOD, b"HTTP/1.1 101 Switching"),
    )
    yield Case(
        "a switch to HTTP/2",
        SubReason.PROTOCOL,
        ok(b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"", b"HTTP/1.1 101 Switching Protocols"),
    )
    yield Case(
        "a 404 and a valid answer behind it",
        SubReason.HTTP_STATUS,
        raw(http(b"MARKER", status=b"404 Not Found"), http(GOOD)),
    )


def redirects() -> Iterator[Case]:
    redirect = SubReason.REDIRECT
    for code in (301, 302, 303, 307, 308):
        itself = (b"Location", b"/preflight?url=https%3A%2F%2Ftools.example.com%2Fmcp")
        yield Case(f"{code} to itself", redirect, status(f"{code} MARKER", GOOD, itself))
        for place in ("/preflight/", "//MARKER.example/", "http://127.0.0.1:9/MARKER"):
            location = (b"Location", place.encode())
            yield Case(f"{code} to {place}", redirect, status(f"{code} X", b"", location))
    for place in ("file:///etc/MARKER", "javascript:MARKER", "", "\u00e9 MARKER", "http://[MARKER"):
        location = (b"Location", place.encode())
        yield Case(f"302 to {place!r}", redirect, status("302 Found", b"", location))
    yield Case("302 to nowhere", redirect, status("302 Found"))
    refresh = (b"Refresh", b"0; url=/MARKER")
    yield Case("a refresh with a 202", SubReason.HTTP_STATUS, status("202 Wait", GOOD, refresh))


def media_types() -> Iterator[Case]:
    media = SubReason.MEDIA_TYPE
    for value in (
        "text/html", "text/plain", "text/json", "application/problem+json", "application/ld+json",
        "application/jsonp", "application/json-seq", "application/x-ndjson", "text/event-stream",
        "application/octet-stream", "application/json; charset=utf-16", "*/*",
        "application/json; charset=latin-1", "application/json, text/html", "json", "MARKER",
        "application/json; charset=utf-8; charset=utf-16", "application/ json", "application",
        "application/json; MARKER", "multipart/mixed; boundary=MARKER",
    ):  # fmt: skip
        yield Case(f"media type {value}", media, says(GOOD, content_type=value.encode()))
    yield Case("no media type", media, says(GOOD, content_type=None))
    yield Case("an empty media type", media, says(GOOD, content_type=b""))
    yield Case("two media types", media, header("Content-Type", "text/html"))
    yield Case("the media type twice", media, header("content-type", "application/json"))
    folded = b"Content-Type: application/json;\r\n charset=utf-16\r\n" + LENGTH
    yield Case("a folded media type", media, ok(folded))


def encodings() -> Iterator[Case]:
    coded = SubReason.CONTENT_ENCODING
    deflated, bomb = zlib.compress(GOOD), gzip.compress(b" " * (64 * MIB))
    for name, value, content in (
        ("gzip", "gzip", gzip.compress(GOOD)),
        ("gzip in name only", "gzip", GOOD),
        ("deflate", "deflate", deflated),
        ("brotli", "br", b"MARKER"),
        ("zstd", "zstd", b"MARKER"),
        ("identity", "identity", GOOD),
        ("an unknown coding", "MARKER", GOOD),
        ("an empty coding", "", GOOD),
        ("two codings", "gzip, gzip", gzip.compress(gzip.compress(GOOD))),
        ("a compression bomb", "gzip", bomb),
    ):
        sent = [(b"Content-Encoding", value.encode())]
        yield Case(f"encoded: {name}", coded, says(content, headers=sent))


def stored() -> Iterator[Case]:
    for name, value in (
        ("Age", "1"), ("Age", "0, 5"), ("Age", "86400"), ("Age", "-1"), ("Age", "MARKER"),
        ("Age", ""), ("Age", "0.5"), ("age", "00001"),
        ("Cache-Control", "max-age=1"), ("Cache-Control", "public, max-age=60"),
        ("Cache-Control", "s-maxage=60"), ("Cache-Control", "max-age=0, s-maxage=5"),
        ("Cache-Control", "MAX-AGE=60"), ("Cache-Control", 'max-age="60"'),
        ("Cache-Control", "max-age = 60"), ("Cache-Control", "max-age=MARKER"),
        ("X-Cache", "HIT"), ("X-Cache", "hit"), ("X-Cache", "Hit from MARKER"),
        ("X-Cache", "MISS, HIT"), ("X-Cache", "TCP_HIT"), ("X-Cache", "RefreshHit from MARKER"),
        ("X-Cache", "STALE"), ("X-Cache", "UPDATING"), ("X-Cache", "REVALIDATED"),
        ("CF-Cache-Status", "HIT"), ("CF-Cache-Status", "STALE"), ("cf-cache-status", "UPDATING"),
        ("CF-Cache-Status", "REVALIDATED"), ("CF-Cache-Status", "stale"),
        ("Cache-Status", "MARKER; hit"), ("Cache-Status", '"a b";hit;ttl=5'),
        ("Cache-Status", "a; fwd=miss, b; hit"), ("Cache-Status", "a; hit=?1"),
        ("Cache-Status", "a;ttl=3;hit"), ("cache-status", "a ; HIT"),
        ("Cache-Status", "a; fwd=stale"), ("Cache-Status", "a; fwd=miss; fwd-status=304"),
        ("Cache-Status", "a; fwd=partial"), ("Cache-Status", "a; fwd=miss; collapsed"),
        ("Cache-Status", "HIT"), ("Cache-Status", 'a; fwd=miss; detail="MARKER; hit'),
        ("Cache-Control", "max-age=0, stale-while-revalidate=60"),
        ("CDN-Cache-Control", "max-age=60"), ("Surrogate-Control", "max-age=60"),
        ("Edge-Control", "cache-maxage=1h"),
        ("Warning", '110 MARKER "Response is Stale"'), ("Warning", "113"), ("Warning", '199 a "b'),
        ("X-Cache-Lookup", "HIT from MARKER:3128"), ("X-Cache-Hits", "3"), ("X-Cache-Hits", "0, 1"),
        ("X-Cache-Remote", "TCP_HIT from MARKER"), ("X-Cache-Detail", '"cache hit" from MARKER'),
        ("X-Cache", "REVALIDATE from MARKER"), ("X-Cache", "TCP_REMOTE_HIT"),
        ("X-Cache-Hit", "true"), ("X-From-Cache", "1"), ("X-Varnish", "32770 5"),
        ("X-Varnish-Hits", "1"), ("X-Proxy-Cache", "HIT"), ("X-FastCGI-Cache", "STALE"),
        ("X-Rack-Cache", "fresh"), ("X-LiteSpeed-Cache", "hit"), ("X-Vercel-Cache", "PRERENDER"),
        ("X-Nextjs-Cache", "HIT"), ("X-Nextjs-Prerender", "1"), ("CDN-Cache", "HIT"),
        ("Akamai-Cache-Status", "HitStale from child"), ("Fly-Cache-Status", "HIT"),
        ("X-Swift-CacheTime", "3600"), ("Server-Timing", "cdn-cache; desc=HIT"),
        ("Via", "http/1.1 MARKER (ApacheTrafficServer [uScHs f p eN])"),
        ("Date", "Sat, 07 Mar 2015 07:08:09 GMT"), ("Date", "MARKER"),
        ("Date", "Saturday, 07-Mar-15 07:08:09 GMT"), ("Date", "Sat Mar  7 07:08:09 2015"),
    ):  # fmt: skip
        yield Case(f"stored: {name}: {value}", SubReason.STALE, header(name, value))
    for name, seconds in (("Expires", 3600), ("Expires", 10**9), ("Date", -3600), ("Date", -90)):
        yield Case(f"stored: {name} of {seconds} s", SubReason.STALE, [Dated((name, seconds))])
    lived = [Dated(("Date", -30), ("Expires", -20))]
    yield Case("stored: a lifetime that is over", SubReason.STALE, lived)
    yield from long_heads()
    twice = says(GOOD, headers=[(b"Age", b"0"), (b"Age", b"7")])
    yield Case("stored: a second Age", SubReason.STALE, twice)
    split = [(b"Cache-Control", b"max-age=0"), (b"Cache-Control", b"max-age=9")]
    yield Case("stored: a second Cache-Control", SubReason.STALE, says(GOOD, headers=split))
    folded = JSON_TYPE + LENGTH + b"X-Cache:\r\n HIT\r\n"
    yield Case("stored: said in a folded line", SubReason.STALE, ok(folded))
    late = JSON_TYPE + LENGTH + b"X-Filler: " + b"f" * (64 * 1024) + b"\r\nX-Cache: HIT\r\n"
    yield Case("stored: said behind 64 KiB of header", SubReason.STALE, ok(late))


def long_heads() -> Iterator[Case]:
    """As much of one header as HTTP lets through, of which a careless pattern reads each part anew."""
    for name, value, sub_reason in (
        ("Cache-Status", 'a; detail="' + '\\"' * 49_000, SubReason.STALE),
        ("Cache-Status", "a; hit=?0" + " " * 98_000 + "; hit", SubReason.STALE),
        ("Cache-Status", 'a; b="",' * 12_000 + "a; hit", SubReason.STALE),
        ("Cache-Control", "max-age" + " " * 98_000 + "=1", SubReason.STALE),
        ("Warning", '1"' * 49_000, SubReason.STALE),
        ("X-Cache", "hi" * 48_000 + "t", SubReason.STALE),
        ("X-Varnish", "1," * 48_000 + "1 2", SubReason.STALE),
        ("Via", "[u" * 48_000 + "[uScH", SubReason.STALE),
        ("Content-Type", "application/json" + " " * 97_000 + "x", SubReason.MEDIA_TYPE),
    ):
        case = f"a header of 98 kB: {name}: {value[:20]}"
        type_sent = None if name == "Content-Type" else b"application/json"
        script = says(GOOD, headers=[(name.encode(), value.encode())], content_type=type_sent)
        yield Case(case, sub_reason, script)
    many = [(b"Cache", b"")] * 10_000
    yield Case("10,000 headers", SubReason.STALE, says(GOOD, headers=[*many, (b"Age", b"1")]))


def blanks() -> Iterator[Case]:
    """As many blanks as HTTP lets through, where the HTTP library tries every part of them anew.

    Refused at once: what is tried so holds the interpreter for half a minute.
    """
    head, many = b"HTTP/1.1 200 OK\r\n", b" " * 98_000
    framed = head + CHUNKED + b"\r\n"
    for name, sent in (
        ("a header and a NUL", head + b"X-MARKER:" + many + b"\0\r\n\r\n"),
        ("a header and a vertical tab", head + b"X-MARKER:" + many + b"\v\r\n\r\n"),
        ("a header and a carriage return", head + b"X-MARKER:" + many + b"\ra\r\n\r\n"),
        ("a header of tabs", head + b"X-MARKER:" + b"\t" * 98_000 + b"\f\r\n\r\n"),
        ("a header, folded", head + b"X-MARKER:" + b"\r\n " * 32_000 + b"\0\r\n\r\n"),
        ("an interim head", b"HTTP/1.1 103 MARKER\r\nX:" + many + b"\0\r\n\r\n" + head),
        ("a status line", b"HTTP/1.1 200 " + many + b"\0\r\n\r\n"),
        ("a size", framed + b"1;" + many + b"\n\r\n"),
        ("a later size", framed + chunks(GOOD)[:-5] + b"1;" + many + b"\n\r\n"),
        ("a trailer", framed + chunks(GOOD)[:-2] + b"X-MARKER:" + many + b"\0\r\n\r\n"),
    ):
        yield Case(f"blanks: {name}", SubReason.PROTOCOL, [Send(sent), Stall()])
        yield Case(
            f"blanks: {name}, dripping", SubReason.PROTOCOL, [Drip(sent, 0.001, 9_000), Stall()]
        )
    over_tls = [Send(head + b"X-MARKER:" + many + b"\0\r\n\r\n"), Stall()]
    yield Case("blanks: over TLS", SubReason.PROTOCOL, over_tls, certificate="good")


def clocks() -> Iterator[Case]:
    """No stored answer can have these dates."""
    for seconds in (90, 3600, 10**9):
        yield Case(f"a Date {seconds} s ahead", SubReason.CLOCK, [Dated(("Date", seconds))])
    for value in ("Thursday, 07-Mar-49 07:08:09 GMT", "7 Mar 9999 07:08"):
        yield Case(f"a Date of {value}", SubReason.CLOCK, header("Date", value))
    two = [Dated(("Date", 0), ("Date", 3600))]
    yield Case("a second Date, far ahead", SubReason.CLOCK, two)


def early_ends() -> Iterator[Case]:
    """The connection ends in every phase, in order or with a reset."""
    whole = b"HTTP/1.1 200 OK\r\n" + JSON_TYPE + LENGTH + b"\r\n" + GOOD
    framed = b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n" + chunks(GOOD)
    head = whole.index(b"\r\n\r\n") + 4
    chunk_head = framed.index(b"\r\n\r\n") + 4
    phases = {
        "before the answer": b"",
        "in the version": whole[:4],
        "in the status line": whole[:12],
        "after the status line": whole[:17],
        "in a header": whole[:40],
        "before the empty line": whole[: head - 2],
        "before the body": whole[:head],
        "in the body": whole[: head + 100],
        "one byte early": whole[:-1],
        "before the first chunk": framed[:chunk_head],
        "in a chunk's size": framed[: chunk_head + 2],
        "in a chunk": framed[: chunk_head + 200],
        "between chunks": framed[: chunk_head + 5 + 500 + 2],
        "before the last chunk": framed[: -len(b"0\r\n\r\n")],
        "in the last chunk": framed[:-3],
        "before the trailers end": framed[:-2] + b"X-MARKER: 1\r\n",
        "after a 100": b"HTTP/1.1 100 Continue\r\n\r\n",
        "after a 103": b"HTTP/1.1 103 Early Hints\r\nLink: MARKER\r\n\r\n",
    }
    for phase, sent in phases.items():
        yield Case(f"close {phase}", SubReason.PROTOCOL, [Send(sent), Close()])
        yield Case(f"reset {phase}", SubReason.PROTOCOL, [Send(sent), Reset()])


def framing() -> Iterator[Case]:
    """Bodies whose length is told wrongly, twice, or in no way that there is."""
    broken, large = SubReason.PROTOCOL, SubReason.TOO_LARGE
    for name, sent in (
        ("a size that is no number", b"MARKER\r\n" + GOOD + b"\r\n0\r\n\r\n"),
        ("a negative size", b"-5\r\nMARKE\r\n0\r\n\r\n"),
        ("a signed size", b"+%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        ("a prefixed size", b"0x%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        ("an empty size", b"\r\n" + GOOD + b"\r\n0\r\n\r\n"),
        ("a size with a space before it", b" %x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        ("a size of 21 digits", b"1" + b"0" * 20 + b"\r\n" + GOOD),
        ("a size of 16 exabytes", b"f" * 16 + b"\r\n" + GOOD),
        ("a size too small", b"5\r\n" + GOOD + b"\r\n0\r\n\r\n"),
        ("a size too large", b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD) + 100, GOOD)),
        ("no line end after a chunk", b"%x\r\n%s0\r\n\r\n" % (len(GOOD), GOOD)),
        ("bare line feeds", b"%x\n%s\n0\n\n" % (len(GOOD), GOOD)),
        ("an endless size line", b"0" * (256 * 1024)),
        ("a broken trailer", chunks(GOOD, trailers=b"MARKER\r\n")),
        ("no chunks at all", GOOD),
    ):
        yield Case(f"chunked: {name}", broken, ok(CHUNKED, sent))
    yield Case("chunked: and a length, unframed", broken, ok(CHUNKED + LENGTH))
    for value in (b"gzip, chunked", b"identity", b"chunked, chunked", b"MARKER", b"xchunked", b""):
        coding = JSON_TYPE + b"Transfer-Encoding: " + value + b"\r\n"
        yield Case(f"transfer coding {value!r}", broken, ok(coding, chunks(GOOD)))
    coding = CHUNKED + b"Transfer-Encoding: chunked\r\n"
    yield Case("transfer coding twice", broken, ok(coding, chunks(GOOD)))
    for value in (b"-1", b"+10", b"0x10", b"1e3", b"", b"MARKER", b"10 10", b"1" * 30, b"5, 6"):
        yield Case(
            f"length {value!r}", broken, ok(JSON_TYPE + b"Content-Length: " + value + b"\r\n")
        )
    two = JSON_TYPE + LENGTH + b"Content-Length: 7\r\n"
    yield Case("two lengths", broken, ok(two))
    longer = JSON_TYPE + b"Content-Length: %d\r\n" % (len(GOOD) + 1)
    yield Case("a length too large", broken, ok(longer))
    shorter = JSON_TYPE + b"Content-Length: %d\r\n" % (len(GOOD) - 1)
    yield Case("a length too small", SubReason.JSON, ok(shorter))
    yield Case("a length of zero", SubReason.JSON, ok(JSON_TYPE + b"Content-Length: 0\r\n"))

    padded = GOOD + b" " * (MIB + 1 - len(GOOD))
    yield Case("one byte too many", large, says(padded))
    yield Case("one byte too many, chunked", large, ok(CHUNKED, chunks(padded, 65536)))
    yield Case("one byte too many, until close", large, ok(JSON_TYPE, padded))
    yield Case("two megabytes in front", large, says(b" " * (2 * MIB) + GOOD))
    head = b"HTTP/1.1 200 OK\r\n"
    endless = Endless(b"M" * 65536)
    vast = head + JSON_TYPE + b"Content-Length: 99999999999\r\n\r\n"
    yield Case("an endless body", large, [Send(head + JSON_TYPE + b"\r\n"), endless])
    yield Case("a body of 93 GiB", large, [Send(vast), endless])
    chunk = b"10000\r\n" + b"M" * 65536 + b"\r\n"
    yield Case("endless chunks", large, [Send(head + CHUNKED + b"\r\n"), Endless(chunk)])
    one = [Send(head + CHUNKED + b"\r\nffffffffff\r\n"), endless]
    yield Case("one endless chunk", large, one)
    extension = b"1;" + b"x" * 8192 + b"\r\nM\r\n"
    yield Case(
        "endless chunk extensions",
        SubReason.TIMEOUT,
        [Send(head + CHUNKED + b"\r\n"), Endless(extension)],
        SHORT_SECONDS,
    )


def heads() -> Iterator[Case]:
    """Heads that are no correct HTTP."""
    broken = SubReason.PROTOCOL
    fields = JSON_TYPE + LENGTH
    for name, line in (
        ("two spaces", b"HTTP/1.1  200 OK"),
        ("no space", b"HTTP/1.1 200OK"),
        ("a status of two digits", b"HTTP/1.1 20 OK"),
        ("a status of four digits", b"HTTP/1.1 2000 OK"),
        ("a status of words", b"HTTP/1.1 MARKER OK"),
        ("status 000", b"HTTP/1.1 000 MARKER"),
        ("status 099", b"HTTP/1.1 099 MARKER"),
        ("a small protocol name", b"http/1.1 200 OK"),
        ("another protocol", b"ICY 200 OK"),
        ("no version", b"HTTP 200 OK"),
        ("a version of two digits", b"HTTP/1.10 200 OK"),
        ("a space in front", b" HTTP/1.1 200 OK"),
        ("a NUL", b"HTTP/1.1 200 MAR\0KER"),
        ("a request", b"GET /MARKER HTTP/1.1"),
        ("other digits", "HTTP/1.1 \u0662\u0660\u0660 OK".encode()),
    ):
        yield Case(f"status line: {name}", broken, ok(fields, line=line))
    for name, sent in (
        ("a NUL in a value", b"X-A: MAR\0KER\r\n"),
        ("a NUL in a name", b"X-\0A: MARKER\r\n"),
        ("a folded first line", b" MARKER: folded\r\n"),
        ("no colon", b"MARKER\r\n"),
        ("no name", b": MARKER\r\n"),
        ("a space before the colon", b"X-A : MARKER\r\n"),
        ("a name in another script", "X-\u00e9: MARKER\r\n".encode()),
        ("a carriage return in a value", b"X-A: MAR\rKER\r\n"),
        ("a form feed in a value", b"X-A: MAR\x0cKER\r\n"),
        ("a quarter of a megabyte", b"X-A: " + b"M" * (256 * 1024) + b"\r\n"),
        ("50,000 lines", b"X-A: M\r\n" * 50_000),
    ):
        yield Case(f"header: {name}", broken, ok(sent + fields))
    head = b"HTTP/1.1 200 OK\r\n"
    yield Case("an endless header", broken, [Send(head), Endless(b"X-MARKER: 1\r\n" * 100)])
    yield Case("an endless value", broken, [Send(head + b"X-A: "), Endless(b"MARKER" * 1000)])
    yield Case(
        "an endless fold", broken, [Send(head + b"X-A: x\r\n"), Endless(b" MARKER\r\n" * 99)]
    )
    yield Case("an endless status line", broken, [Send(b"HTTP/1.1 200 "), Endless(b"M" * 4096)])
    yield Case("endless empty lines", broken, [Endless(b"\r\n" * 1000)])
    yield Case("endless spaces", broken, [Endless(b" " * 4096)])
    yield Case("HTTP/0.9", broken, raw(GOOD))
    yield Case("HTTP/0.9 with an empty line", broken, raw(GOOD + b"\r\n\r\n"))
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    yield Case("HTTP/2 settings", broken, raw(settings))
    yield Case("an HTTP/2 preface", broken, raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings))
    yield Case("an SSH greeting", broken, raw(b"SSH-2.0-MARKER\r\n\r\n"))
    yield Case("an SMTP greeting", broken, raw(b"220 MARKER ESMTP\r\n\r\n"))
    yield Case("a TLS alert", broken, raw(b"\x15\x03\x01\x00\x02\x02\x46"))
    yield Case("noise", broken, raw(bytes(range(256)) * 16))
    yield Case("NULs", broken, raw(b"\0" * 4096))
    yield Case("only line ends", broken, raw(b"\r\n\r\n"))


def slowness() -> Iterator[Case]:
    """Nothing wrong but the time that it takes."""
    late = SubReason.TIMEOUT
    head = b"HTTP/1.1 200 OK\r\n" + JSON_TYPE + LENGTH + b"\r\n"
    for name, script in (
        ("silence", [Stall()]),
        ("silence in the status line", [Send(b"HTTP/1.1 20"), Stall()]),
        ("silence in the head", [Send(head[:30]), Stall()]),
        ("silence before the body", [Send(head), Stall()]),
        ("silence in the body", [Send(head + GOOD[:-1]), Stall()]),
        ("silence in a chunk", [Send(b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\nff\r\nM"), Stall()]),
        (
            "silence before the last chunk",
            [Send(b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n" + chunks(GOOD)[:-5]), Stall()],
        ),
        (
            "silence without a length",
            [Send(b"HTTP/1.1 200 OK\r\n" + JSON_TYPE + b"\r\n" + GOOD), Stall()],
        ),
        ("silence after a 100", [Send(b"HTTP/1.1 100 Continue\r\n\r\n"), Stall()]),
        ("a dripping status line", [Drip(head, 0.05)]),
        ("a dripping head", [Send(head[:20]), Drip(head[20:], 0.05)]),
        ("a dripping body", [Send(head), Drip(GOOD, 0.05, 8)]),
        (
            "dripping chunks",
            [Send(b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n"), Drip(b"1\r\nM\r\n" * 1000, 0.05, 6)],
        ),
        ("dripping 100s", [Drip(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.05, 25)]),
        ("endless 100s", [Endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 40)]),
        ("endless 102s", [Endless(b"HTTP/1.1 102 Processing\r\nX-A: MARKER\r\n\r\n" * 20)]),
        ("endless 103s", [Endless(b"HTTP/1.1 103 Early Hints\r\nLink: MARKER\r\n\r\n" * 20)]),
    ):
        yield Case(name, late, script, SHORT_SECONDS)
    refused = http(GOOD, status=b"503 Busy")[:-1]
    yield Case("silence in a 503", SubReason.HTTP_STATUS, [Send(refused), Stall()], SHORT_SECONDS)
    coded = http(GOOD, headers=[(b"Content-Encoding", b"gzip")])[:-1]
    yield Case(
        "silence in an encoded answer",
        SubReason.CONTENT_ENCODING,
        [Send(coded), Stall()],
        SHORT_SECONDS,
    )


def interjections() -> Iterator[Case]:
    """The service speaks before it was asked, or speaks twice."""
    for name, sub_reason, script in (
        ("a 408 unasked", SubReason.HTTP_STATUS, [Send(http(b"MARKER", status=b"408 X"))]),
        (
            "an answer unasked",
            SubReason.TARGET,
            [Send(http(body(target="https://other.example/")))],
        ),
        ("noise unasked", SubReason.PROTOCOL, [Send(b"\xffMARKER\r\n\r\n")]),
        ("a close unasked", SubReason.PROTOCOL, [Close()]),
    ):
        yield Case(name, sub_reason, script, before_request=True)
    yield Case("silence unasked", SubReason.TIMEOUT, [Stall()], SHORT_SECONDS, before_request=True)
    contrary = http(body(verdict="do_not_delegate"), headers=[(b"Connection", b"keep-alive")])
    yield Case("a second answer that is valid", SubReason.VERDICT, raw(contrary, http(GOOD)))


def handshakes() -> Iterator[Case]:
    """TLS that is not proved, not finished, or not spoken at all."""
    refused = SubReason.TLS
    for name in sorted(UNPROVED):
        yield Case(f"TLS: {name}", refused, says(GOOD), certificate=name)
    hello = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + b"M" * 32
    for name, script in (
        ("half a hello", [Send(hello), Close()]),
        ("half a hello and a reset", [Hear(), Send(hello), Reset()]),
        ("plain HTTP", [Send(http(GOOD)), Close()]),
        ("an alert", [Send(b"\x15\x03\x03\x00\x02\x02\x28"), Close()]),
        ("a warning, then the end", [Send(b"\x15\x03\x03\x00\x02\x01\x00"), Close()]),
        ("noise", [Send(b"MARKER" * 100), Close()]),
        ("an endless record", [Endless(b"\x16\x03\x03\x40\x00" + b"M" * 16384)]),
        ("a close at once", [Close()]),
        ("a reset for an answer", [Hear(), Reset()]),
    ):
        yield Case(f"TLS: {name}", refused, script, https=True, before_request=True)
    cut = http(GOOD)[:-1]
    broken = SubReason.PROTOCOL
    yield Case("TLS: cut in the body", broken, [Send(cut), Close()], certificate="good")
    yield Case("TLS: reset in the body", broken, [Send(cut), Reset()], certificate="good")
    yield Case("TLS: closed unanswered", broken, [Close()], certificate="good")
    yield Case(
        "TLS: silence in the body", SubReason.TIMEOUT, [Send(cut), Stall()], SHORT_SECONDS, "good"
    )
    yield Case(
        "TLS: demands a certificate late", broken, says(GOOD), certificate="demands one late"
    )
    yield Case("TLS: a broken answer", SubReason.JSON, says(b"MARKER"), certificate="good")
    yield Case(
        "TLS: a redirect to plain HTTP", SubReason.REDIRECT, status("302 X"), certificate="good"
    )


def correct() -> Iterator[Case]:
    """Odd but correct HTTP around a valid answer."""
    for name, script in (
        ("plain", says(GOOD)),
        ("chunked", ok(CHUNKED, chunks(GOOD))),
        ("chunks of one byte", ok(CHUNKED, chunks(GOOD, 1))),
        ("chunk extensions", ok(CHUNKED, chunks(GOOD, extension=b';name="value"'))),
        ("trailers", ok(CHUNKED, chunks(GOOD, trailers=b"X-Trailer: 1\r\nAge: 5\r\n"))),
        ("chunk sizes in capitals", ok(CHUNKED, b"%X\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD))),
        ("HTTP/1.0 until close", ok(JSON_TYPE, line=b"HTTP/1.0 200 OK")),
        ("HTTP/1.0 with a length", ok(JSON_TYPE + LENGTH, line=b"HTTP/1.0 200 OK")),
        ("HTTP/1.1 until close", ok(JSON_TYPE + b"Connection: close\r\n")),
        ("a 103 first", raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", http(GOOD))),
        ("a 100 and a 102 first", raw(b"HTTP/1.1 100 X\r\n\r\nHTTP/1.1 102 X\r\n\r\n", http(GOOD))),
        ("no reason phrase", ok(JSON_TYPE + LENGTH, line=b"HTTP/1.1 200 ")),
        ("another reason phrase", ok(JSON_TYPE + LENGTH, line=b"HTTP/1.1 200 Not Found")),
        ("names in capitals", ok(JSON_TYPE.upper() + LENGTH.upper())),
        ("names in small letters", ok(b"content-type:application/json\r\n" + LENGTH.lower())),
        ("a type in capitals", says(GOOD, content_type=b"Application/JSON")),
        ("a charset", says(GOOD, content_type=b"application/json; charset=utf-8")),
        ("a quoted charset", says(GOOD, content_type=b'application/json;charset="UTF-8"')),
        ("a folded header", ok(JSON_TYPE + LENGTH + b"X-A: one\r\n two\r\n")),
        ("byte by byte", [Drip(http(GOOD), 0.0, 7)]),
        ("a megabyte", says(GOOD + b" " * (MIB - len(GOOD)))),
        ("a megabyte in chunks", ok(CHUNKED, chunks(GOOD + b" " * (MIB - len(GOOD)), 4000))),
        ("98 kB of blanks in a header", header("X-Filler", " " * 98_000 + "f")),
        ("98 kB of blanks in a size", ok(CHUNKED, chunks(GOOD, extension=b";" + b" " * 98_000))),
        ("98 kB of blanks in a trailer", ok(CHUNKED, chunks(GOOD, trailers=b"X:" + b" " * 98_000 + b"\r\n"))),
        ("64 KiB of header", header("X-Filler", "f" * (64 * 1024))),
        ("a second answer, not asked for", raw(http(GOOD), http(body(verdict="do_not_delegate")))),
        ("kept alive", ok(JSON_TYPE + LENGTH + b"Connection: keep-alive\r\n")),
        ("a cookie", header("Set-Cookie", "session=MARKER")),
        ("a location", header("Location", "http://127.0.0.1:9/")),
        ("an upgrade offered", header("Upgrade", "h2c")),
        ("alternative services", header("Alt-Svc", 'h3=":443"')),
        ("further checks", says(with_checks("new_check"))),
    ):  # fmt: skip
        yield Case(name, None, script)
    for name, value in (
        ("Age", "0"), ("Cache-Control", "no-store"), ("Cache-Control", "no-cache, max-age=0"),
        ("Cache-Control", "s-maxage=0"), ("X-Cache", "MISS"), ("X-Cache", "Miss from cloudfront"),
        ("CF-Cache-Status", "DYNAMIC"), ("CF-Cache-Status", "MISS"), ("CF-Cache-Status", "BYPASS"),
        ("CF-Cache-Status", "EXPIRED"), ("Cache-Status", "a; fwd=miss; stored"),
        ("Cache-Status", "a; hit=?0"), ("Cache-Status", '"a; hit; b"; fwd=uri-miss'), ("ETag", '"x"'),
        ("Expires", "0"), ("X-Cache-Hits", "0"), ("X-Varnish", "32770"),
        ("X-Cache-Lookup", "NONE from MARKER:3128"), ("CDN-Cache", "MISS"), ("Warning", "214"),
        ("Akamai-Cache-Status", "Miss from child"), ("X-Vercel-Cache", "MISS"),
        ("Server-Timing", "cdn-cache; desc=MISS"), ("Via", "1.1 varnish"),
    ):  # fmt: skip
        yield Case(f"fresh: {name}: {value}", None, header(name, value))
    for dates in ((("Date", 0),), (("Date", -50),), (("Date", 60),), (("Date", 0), ("Expires", 0))):
        yield Case(f"fresh: dates {dates}", None, [Dated(*dates)])
    yield Case("over TLS", None, says(GOOD), certificate="good")
    yield Case(
        "over TLS, without a closing alert", None, [*says(GOOD), Close()], certificate="good"
    )


# --- Certificates --------------------------------------------------------------------------


UNPROVED = {
    "expired": 10,
    "not yet valid": 9,
    "another name": 64,
    "another address": 64,
    "self-signed": 18,
    "an unknown authority": 20,
    "demands one": None,
    "an old version": None,
    "no common cipher": None,
}
"""What is wrong with a TLS server, and the code that OpenSSL's verification has for it."""


@pytest.fixture(scope="module")
def tls(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[ssl.SSLContext, dict[str, ssl.SSLContext]]:
    """A client's context that trusts our authority, and the servers by what is wrong with them."""
    folder = tmp_path_factory.mktemp("tls")
    ours, other = (Authority(folder, f"{MARKER} {name}", MARKER) for name in ("ours", "other"))
    here: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    servers = {
        "good": ours.server("good", here),
        "expired": ours.server("expired", here, -2, -1),
        "not yet valid": ours.server("future", here, 1, 2),
        "another name": ours.server("name", [x509.DNSName("marker.example.com")]),
        "another address": ours.server(
            "address", [x509.IPAddress(ipaddress.ip_address("127.0.0.2"))]
        ),
        "self-signed": ours.server("self", here, own=True),
        "an unknown authority": other.server("other", here),
        "demands one": ours.server("demands", here),
        "demands one late": ours.server("late", here),
        "an old version": ours.server("old", here),
        "no common cipher": ours.server("cipher", here),
    }
    servers["demands one"].verify_mode = ssl.CERT_REQUIRED
    servers["demands one late"].verify_mode = ssl.CERT_REQUIRED
    # Under TLS 1.3 the client learns of it only after its own handshake.
    servers["demands one"].maximum_version = ssl.TLSVersion.TLSv1_2
    servers["an old version"].set_ciphers("ALL:@SECLEVEL=0")
    servers["an old version"].minimum_version = ssl.TLSVersion.TLSv1
    servers["an old version"].maximum_version = ssl.TLSVersion.TLSv1_1
    servers["no common cipher"].maximum_version = ssl.TLSVersion.TLSv1_2
    servers["no common cipher"].set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    return ssl.create_default_context(cadata=ours.pem), servers


# --- The play ------------------------------------------------------------------------------


HOSTILE = [
    case
    for kinds in (
        contradictions, statuses, redirects, media_types, encodings, stored, clocks, early_ends,
        framing, heads, blanks, slowness, interjections, handshakes,
    )
    for case in kinds()
]  # fmt: skip
CORRECT = list(correct())


@dataclass
class Play:
    """All cases, played."""

    played: dict[str, Played] = field(default_factory=dict)
    records: list[logging.LogRecord] = field(default_factory=list)


class Recorder(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.INFO)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


@pytest.fixture(scope="module")
def play(tls: tuple[ssl.SSLContext, dict[str, ssl.SSLContext]]) -> Iterator[Play]:
    client, servers = tls
    play = Play()
    recorder = Recorder(play.records)
    root = logging.getLogger()
    level = root.level
    root.addHandler(recorder)
    root.setLevel(logging.INFO)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(request, "_build_tls_context", lambda: client)
            asyncio.run(play_all(play.played, servers))
        yield play
    finally:
        root.removeHandler(recorder)
        root.setLevel(level)


async def play_all(played: dict[str, Played], servers: dict[str, ssl.SSLContext]) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def take_turn(case: Case) -> None:
        async with turns:
            played[case.name] = await play_one(case, servers)

    # The first request of a process also imports, and a flood leaves the others no time.
    first, *correct_ones = CORRECT
    floods = [case for case in HOSTILE if case.sub_reason is SubReason.TIMEOUT and case.floods]
    for case in (first, *floods):
        await take_turn(case)
    others = [case for case in HOSTILE if case not in floods]
    await asyncio.gather(*map(take_turn, others + correct_ones))


async def play_one(case: Case, servers: dict[str, ssl.SSLContext]) -> Played:
    context = servers[case.certificate] if case.certificate else None
    server = WireServer(case.script, tls=context, before_request=case.before_request)
    try:
        origin = server.origin.replace("http:", "https:") if case.https else server.origin
        began = time.monotonic()
        outcome: Observation | BaseException
        try:
            with observe.ask(
                ENDPOINT,
                origin=origin,
                timeout_seconds=case.seconds,
                max_age_seconds=0,
                is_kept=False,
            ) as inquiry:
                outcome = await inquiry.observation(case.seconds)
        except Exception as error:
            outcome = error
        seconds = time.monotonic() - began
        closed = await asyncio.to_thread(server.wait_until_closed, PROMPT_SECONDS)
        return Played(outcome, seconds, server.connections, server.requests, origin, closed)
    finally:
        await asyncio.to_thread(server.stop)


def allowed(origin: str) -> list[bytes]:
    """The lines of the one request that may be made; the order of the headers is free."""
    return sorted(
        [
            b"GET /preflight?url=https%3A%2F%2Ftools.example.com%2Fmcp HTTP/1.1",
            b"Host: " + origin.partition("://")[2].encode(),
            b"User-Agent: agent_guild_preflight/0.1.0",
            b"Accept: application/json",
            b"",
            b"",
        ]
    )


def by_name(cases: Sequence[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@by_name(HOSTILE)
def test_a_hostile_answer_is_refused(play: Play, case: Case) -> None:
    played = play.played[case.name]
    refusal = played.outcome
    assert isinstance(refusal, Refusal), refusal
    assert refusal.sub_reason is case.sub_reason
    inconsistent = refusal.reason is Reason.EVIDENCE_INCONSISTENT
    assert type(refusal) is (ContractViolation if inconsistent else EvidenceUnavailable)
    assert played.seconds < case.seconds + MARGIN_SECONDS
    assert refusal.__cause__ is None
    # The deadline cancels the waiting; with some loops that shows, and it says nothing.
    assert refusal.__context__ is None or (
        type(refusal.__context__) is asyncio.CancelledError and not refusal.__context__.args
    )
    assert refusal.args == (str(refusal),) == (f"{refusal.reason}/{refusal.sub_reason}",)


@by_name(CORRECT)
def test_a_valid_answer_in_odd_http_is_accepted(play: Play, case: Case) -> None:
    observation = play.played[case.name].outcome
    assert isinstance(observation, Observation), observation
    assert observation.method == f"untrusted: {MARKER}"
    assert not observation.cached


@by_name(HOSTILE + CORRECT)
def test_one_connection_and_one_request_whatever_the_answer(play: Play, case: Case) -> None:
    played = play.played[case.name]
    assert played.connections == 1
    assert played.closed
    unproved = {*UNPROVED, "demands one late"}
    unheard = case.before_request or case.certificate in unproved
    assert len(played.requests) == (0 if unheard else 1)
    for head in played.requests:
        assert sorted(head.split(b"\r\n")) == allowed(played.origin)


def test_no_log_says_anything_of_an_answer_or_a_url(play: Play) -> None:
    for record in play.records:
        said = record.getMessage() + str(record.exc_info)
        assert MARKER not in said
        assert "tools.example.com" not in said
        assert not record.name.startswith(("httpx", "httpcore"))


def test_the_corpus_has_the_kinds_that_it_promises() -> None:
    names = [case.name for case in HOSTILE + CORRECT]
    assert len(set(names)) == len(names)
    assert len(HOSTILE) >= 120
    endpoint, elsewhere = Reason.ENDPOINT_REFUSED, {SubReason.RESOLVE, SubReason.CONNECT}
    expected = {sub for sub in SubReason if sub.reason is not endpoint} - elsewhere
    assert {case.sub_reason for case in HOSTILE} == expected


@pytest.mark.parametrize("name", [name for name, code in UNPROVED.items() if code])
def test_each_certificate_is_wrong_in_its_own_way(
    tls: tuple[ssl.SSLContext, dict[str, ssl.SSLContext]], name: str
) -> None:
    client, servers = tls
    with WireServer([], tls=servers[name]) as server:
        port = int(server.origin.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), PROMPT_SECONDS) as plain,
            pytest.raises(ssl.SSLCertVerificationError) as caught,
        ):
            client.wrap_socket(plain, server_hostname="127.0.0.1")
    assert caught.value.verify_code == UNPROVED[name]
