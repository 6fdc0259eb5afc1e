"""The reader of answers: exactly the contract, held against a second statement of it.

The table of broken answers names the sub-reason of each; the generator and the property have
no table, they compare with `contract_statement`, which was written independently.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

import contract_statement
from local_guild.answers import CHECKS, answer_body, encode
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.contract import (
    ContractViolation,
    parse,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import (
    Check,
    Status,
    Verdict,
)
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

TARGET = "https://tools.example.com/mcp"
MARK = "untrusted: "
MARKER = "MARKER-of-the-answer"
REACHABLE, HANDSHAKE, CARD, SIGNED, PAYMENT, INDEPENDENT = CHECKS

Document = dict[str, Any]
Edit = Callable[[Document], object]


def document(**statuses: str) -> Document:
    """A valid answer; statuses as given, decisive checks proven and the rest unknown otherwise."""
    read: Document = json.loads(answer_body(TARGET, statuses))
    return read


def edited(*edits: Edit, **statuses: str) -> bytes:
    """A valid answer after some edits, each of which gets the document."""
    changed = document(**statuses)
    for edit in edits:
        edit(changed)
    return json.dumps(changed).encode()


def put(key: str, value: Any) -> Edit:
    return lambda answer: answer.update({key: value})


def drop(key: str) -> Edit:
    return lambda answer: answer.pop(key)


def in_row(number: int, key: str, value: Any) -> Edit:
    return lambda answer: answer["checks"][number].update({key: value})


def add_check(name: str, status: str = "unknown", **more: Any) -> Edit:
    """Add one more check and keep the summary true of it."""

    def edit(answer: Document) -> None:
        answer["checks"].append({"check": name, "status": status, "detail": "", **more})
        answer["unknowns" if status == "unknown" else "scored"].append(name)
        if status == "failed":
            answer["failed"].append(name)

    return edit


def add_checks(count: int, *, status: str = "unknown") -> Edit:
    edits = [add_check(f"other_{number}", status) for number in range(count)]
    return lambda answer: [edit(answer) for edit in edits]


def nested(levels: int) -> str:
    """A JSON text of so many lists, one in the other."""
    return "[" * levels + "]" * levels


def with_brackets(count: int, unit: str, begin: str, end: str) -> bytes:
    """A valid answer with one more value, and so many opening brackets in all."""
    there = sum(map(with_raw(begin + end).count, (b"[", b"{")))
    return with_raw(begin + unit * (count - there) + end)


def with_raw(text: str, key: str = "further") -> bytes:
    """A valid answer with one more key, whose value is written as it stands."""
    return answer_body(TARGET)[:-1] + f',"{key}":{text}}}'.encode()


def replaced(old: str, new: str, count: int = 1) -> bytes:
    """A valid answer in which a piece of the text was replaced."""
    body = answer_body(TARGET)
    assert old.encode() in body
    return body.replace(old.encode(), new.encode(), count)


def violation(body: bytes, target: str = TARGET) -> ContractViolation:
    with pytest.raises(ContractViolation) as caught:
        parse(body, target=target)
    return caught.value


# --- Valid answers -------------------------------------------------------------------------


def test_every_combination_of_statuses_has_its_one_verdict() -> None:
    for statuses in itertools.product(("proven", "failed", "unknown"), repeat=6):
        seen = parse(answer_body(TARGET, dict(zip(CHECKS, statuses, strict=True))), target=TARGET)
        if "failed" in statuses[:2]:
            assert seen.verdict is Verdict.DO_NOT_DELEGATE
        elif "failed" in statuses:
            assert seen.verdict is Verdict.DELEGATE_WITH_CAUTION
        else:
            assert seen.verdict is Verdict.NO_FAILED_CHECKS
        assert tuple(seen.statuses.values()) == statuses
        assert tuple(seen.statuses) == CHECKS


def test_an_aged_observation_is_the_same_but_for_its_age() -> None:
    """What it says as plain values is made once, for all the calls that it serves."""
    seen = parse(answer_body(TARGET), target=TARGET)

    aged = seen.aged(12.5)

    assert aged == replace(seen, cached=True, age_seconds=12.5)
    assert (aged.cached, aged.age_seconds) == (True, 12.5)
    assert (seen.cached, seen.age_seconds) == (False, 0.0)
    assert aged.plain is seen.plain


def test_what_an_observation_holds() -> None:
    body = edited(
        put("method", "how"),
        put("limits", "but"),
        in_row(0, "detail", "found"),
        **{REACHABLE: "proven", HANDSHAKE: "unknown", CARD: "failed"},
    )
    assert parse(body, target=TARGET) == Observation(
        verdict=Verdict.DELEGATE_WITH_CAUTION,
        statuses={
            Check.ENDPOINT_REACHABLE: Status.PROVEN,
            Check.PROTOCOL_HANDSHAKE: Status.UNKNOWN,
            Check.AGENT_CARD_RESOLVES: Status.FAILED,
            Check.AGENT_CARD_SIGNED: Status.UNKNOWN,
            Check.PAYMENT_CLAIM_HOLDS: Status.UNKNOWN,
            Check.INDEPENDENT_EVIDENCE: Status.UNKNOWN,
        },
        details={
            Check.ENDPOINT_REACHABLE: MARK + "found",
            Check.PROTOCOL_HANDSHAKE: MARK + "Not examined.",
            Check.AGENT_CARD_RESOLVES: MARK + "Looked for and not found.",
            Check.AGENT_CARD_SIGNED: MARK + "Not examined.",
            Check.PAYMENT_CLAIM_HOLDS: MARK + "Not examined.",
            Check.INDEPENDENT_EVIDENCE: MARK + "Not examined.",
        },
        other_checks=0,
        other_failed=0,
        method=MARK + "how",
        limits=MARK + "but",
    )


def test_names_by_status_come_in_the_order_of_the_contract() -> None:
    seen = parse(
        edited(lambda answer: answer["checks"].reverse(), **{CARD: "failed", HANDSHAKE: "failed"}),
        target=TARGET,
    )
    assert seen.names(Status.FAILED) == (Check.PROTOCOL_HANDSHAKE, Check.AGENT_CARD_RESOLVES)
    assert seen.names(Status.PROVEN) == (Check.ENDPOINT_REACHABLE,)


@pytest.mark.parametrize("seed", range(5))
def test_the_orders_of_keys_checks_and_lists_are_free(seed: int) -> None:
    rng = random.Random(seed)
    plain = document(**{CARD: "failed", SIGNED: "failed"})
    shuffled = dict(rng.sample(sorted(plain.items()), len(plain)))
    for name in ("checks", "failed", "unknowns", "scored"):
        shuffled[name] = rng.sample(plain[name], len(plain[name]))
    shuffled["checks"] = [dict(reversed(row.items())) for row in shuffled["checks"]]
    assert parse(encode(shuffled), target=TARGET) == parse(encode(plain), target=TARGET)


def test_only_the_nine_fields_are_needed_and_further_keys_are_dropped() -> None:
    nine = {key: document()[key] for key in contract_statement.FIELDS}
    more = nine | {"further": {"verdict": "do_not_delegate", "list": [1, None]}, "": MARKER}
    more["checks"] = [row | {"declared_name": MARKER, "n": 7} for row in nine["checks"]]
    assert parse(encode(more), target=TARGET) == parse(encode(nine), target=TARGET)
    assert MARKER not in repr(parse(encode(more), target=TARGET))


def test_further_checks_are_kept_as_a_count_and_count_for_the_verdict() -> None:
    edits = (add_check("new_one", "failed"), add_check("newer"), add_check("newest", "proven"))
    seen = parse(edited(*edits, put("verdict", "delegate_with_caution")), target=TARGET)
    assert (seen.other_checks, seen.other_failed) == (3, 1)
    assert seen.verdict is Verdict.DELEGATE_WITH_CAUTION
    assert "new_one" not in repr(seen)


def test_texts_are_marked_escaped_and_cut_to_size() -> None:
    long = 'é\n"' * 400
    edits = (put("method", long), put("limits", long), in_row(2, "detail", long))
    seen = parse(edited(*edits, put("headline", long)), target=TARGET)
    escaped = r"\xe9\n\x22" * 400
    assert seen.method == seen.limits == MARK + escaped[:600]
    assert seen.details[Check.AGENT_CARD_RESOLVES] == MARK + escaped[:300]


def test_texts_of_just_the_size_are_kept_whole() -> None:
    edits = (put("method", "m" * 600), put("limits", "l" * 599), in_row(0, "detail", "d" * 300))
    seen = parse(edited(*edits), target=TARGET)
    assert (seen.method, seen.limits) == (MARK + "m" * 600, MARK + "l" * 599)
    assert seen.details[Check.ENDPOINT_REACHABLE] == MARK + "d" * 300


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d" * 700, "\ude00\ud83d"])
def test_no_lone_surrogate_is_kept(text: str) -> None:
    edits = (put("method", text), put("limits", text), in_row(1, "detail", text))
    seen = parse(edited(*edits, put("headline", text), put(text, text)), target=TARGET)
    assert r"\ud" in seen.method
    assert all(kept.isascii() for kept in (seen.method, seen.limits, *seen.details.values()))


@pytest.mark.parametrize(
    "target", ["", TARGET + "/é", 'a"b\\c\x7f', TARGET + "\U0001f600", "x" * 5000]
)
def test_any_target_can_be_asked_about(target: str) -> None:
    assert parse(json.dumps(document() | {"target": target}).encode(), target=target)


# --- Bounds, on both sides -----------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(with_raw(nested(15)), id="16 levels"),
        pytest.param(with_raw('{"a":' * 15 + "1" + "}" * 15), id="16 levels of objects"),
        pytest.param(edited(add_checks(64)), id="64 other checks"),
        pytest.param(edited(add_check("a" * 64)), id="a name of 64"),
        pytest.param(edited(add_check("a")), id="a name of 1"),
        pytest.param(edited(add_check("a_9_")), id="a name of every kind"),
        pytest.param(with_raw("9" * 19), id="19 digits"),
        pytest.param(with_raw("-" + "9" * 19), id="19 digits below zero"),
        pytest.param(with_raw("0." + "1" * 30), id="a real of 32 characters"),
        pytest.param(with_raw("-0." + "1" * 29), id="a real of 32 characters below zero"),
        pytest.param(with_raw("1e308"), id="the largest power"),
        pytest.param(with_raw("1e-999"), id="a power too small to tell from zero"),
        pytest.param(with_brackets(10_000, "[],", "[", "1]"), id="10,000 lists"),
        pytest.param(with_brackets(10_000, "{},", "[", "1]"), id="10,000 objects"),
        pytest.param(with_brackets(10_000, "[", '"', '"'), id="10,000 brackets in a text"),
        pytest.param(with_brackets(10_000, "{", '"', '"'), id="10,000 braces in a text"),
        pytest.param(b" \t\r\n" + answer_body(TARGET) + b"\n\n ", id="white space around"),
        pytest.param(
            json.dumps(document(), indent=4).encode().replace(b"\n", b"\r\n"), id="indented"
        ),
        pytest.param(replaced('"verdict"', '"\\u0076erdict"'), id="an escaped key"),
        pytest.param(with_raw("1", "Verdict"), id="a key that differs in case only"),
        pytest.param(
            edited(put("method", '{"verdict":"do_not_delegate"}')), id="prose that looks like JSON"
        ),
    ],
)
def test_within_the_bounds(body: bytes) -> None:
    assert parse(body, target=TARGET).verdict is Verdict.NO_FAILED_CHECKS
    assert contract_statement.conforms(body, TARGET)


# --- Broken answers ------------------------------------------------------------------------

BROKEN: list[tuple[SubReason, str, bytes]] = [
    # Encoding
    (SubReason.ENCODING, "byte order mark", b"\xef\xbb\xbf" + answer_body(TARGET)),
    (SubReason.ENCODING, "UTF-16 with its mark", answer_body(TARGET).decode().encode("utf-16")),
    (SubReason.ENCODING, "UTF-32 with its mark", answer_body(TARGET).decode().encode("utf-32")),
    (SubReason.ENCODING, "Latin-1", json.dumps("\xe9", ensure_ascii=False).encode("latin-1")),
    (SubReason.ENCODING, "a stray byte", answer_body(TARGET).replace(b"Not", b"N\xfft")),
    (SubReason.ENCODING, "an overlong slash", answer_body(TARGET).replace(b"Not", b"N\xc0\xaft")),
    (SubReason.ENCODING, "an encoded surrogate", with_raw('"x"').replace(b"x", b"\xed\xa0\x80")),
    (SubReason.ENCODING, "beyond Unicode", with_raw('"x"').replace(b"x", b"\xf4\x90\x80\x80")),
    (SubReason.ENCODING, "cut within a character", '"é'.encode()[:-1]),
    (SubReason.ENCODING, "compressed", b"\x1f\x8b\x08\x00"),
    # JSON
    (SubReason.JSON, "nothing", b""),
    (SubReason.JSON, "white space", b" \n"),
    (SubReason.JSON, "a NUL", b"\0"),
    (SubReason.JSON, "a page", b"<!doctype html><p>" + MARKER.encode()),
    (SubReason.JSON, "cut off", answer_body(TARGET)[:-1]),
    (SubReason.JSON, "cut in a string", answer_body(TARGET)[:20]),
    (SubReason.JSON, "text after it", answer_body(TARGET) + b"x"),
    (SubReason.JSON, "a second answer after it", answer_body(TARGET) * 2),
    (SubReason.JSON, "a no-break space after it", answer_body(TARGET) + b"\xc2\xa0"),
    (SubReason.JSON, "a guard before it", b")]}'\n" + answer_body(TARGET)),
    (SubReason.JSON, "a comma too many", replaced('"failed":[]', '"failed":[,]')),
    (SubReason.JSON, "a comma at the end", answer_body(TARGET)[:-1] + b",}"),
    (SubReason.JSON, "a comment", b"/* */" + answer_body(TARGET)),
    (SubReason.JSON, "single quotes", b"{'target': 1}"),
    (SubReason.JSON, "a raw line break in a string", with_raw('"a\nb"')),
    (SubReason.JSON, "a raw NUL in a string", with_raw('"a\0b"')),
    (SubReason.JSON, "an unknown escape", with_raw('"\\x41"')),
    (SubReason.JSON, "a short escape", with_raw('"\\u00"')),
    (SubReason.JSON, "an escape with an underscore", with_raw('"\\u0_41"')),
    (SubReason.JSON, "a leading zero", with_raw("012")),
    (SubReason.JSON, "a plus sign", with_raw("+1")),
    (SubReason.JSON, "no digit after the point", with_raw("1.")),
    (SubReason.JSON, "no digit before the point", with_raw(".5")),
    (SubReason.JSON, "hexadecimal", with_raw("0x10")),
    (SubReason.JSON, "other digits", with_raw("\u0661")),
    (SubReason.JSON, "a capital constant", with_raw("True")),
    (SubReason.JSON, "UTF-16 without a mark", answer_body(TARGET).decode().encode("utf-16-le")),
    (SubReason.JSON, "a bracket too many", answer_body(TARGET) + b"}"),
    (SubReason.JSON, "a key without quotes", with_raw("{a:1}")),
    (SubReason.JSON, "a key that is a number", with_raw("{1:1}")),
    # Repeated keys
    (SubReason.DUPLICATE_KEY, "two verdicts", with_raw('"do_not_delegate"', "verdict")),
    (SubReason.DUPLICATE_KEY, "the same twice", with_raw('"no_failed_checks"', "verdict")),
    (SubReason.DUPLICATE_KEY, "two targets", with_raw(f'"{TARGET}"', "target")),
    (SubReason.DUPLICATE_KEY, "a key escaped", with_raw("[]", "\\u0063hecks")),
    (SubReason.DUPLICATE_KEY, "an unknown key", with_raw('1,"x":2', "x")),
    (SubReason.DUPLICATE_KEY, "an empty key", with_raw('{"":1,"":2}')),
    (SubReason.DUPLICATE_KEY, "deep inside", with_raw('[[[{"a":[{"b":1,"b":1}]}]]]')),
    (
        SubReason.DUPLICATE_KEY,
        "in a check",
        replaced('"status":"proven"', '"status":"failed","status":"proven"'),
    ),
    # Depth
    (SubReason.DEPTH, "17 levels", with_raw(nested(16))),
    (SubReason.DEPTH, "17 levels of objects", with_raw('{"a":' * 16 + "1" + "}" * 16)),
    (SubReason.DEPTH, "in a check", replaced('"detail":', f'"more":{nested(14)},"detail":')),
    (SubReason.DEPTH, "instead of the answer", nested(17).encode()),
    (SubReason.DEPTH, "deeper than the reader's stack", with_raw(nested(100_000))),
    (SubReason.DEPTH, "deep and never closed", b"[" * 200_000),
    (SubReason.DEPTH, "10,001 lists", with_brackets(10_001, "[],", "[", "1]")),
    (SubReason.DEPTH, "10,001 objects", with_brackets(10_001, "{},", "[", "1]")),
    (SubReason.DEPTH, "10,001 brackets in a text", with_brackets(10_001, "[", '"', '"')),
    (SubReason.DEPTH, "deep objects, never closed", b'{"a":' * 100_000),
    # Numbers
    (SubReason.NUMBER, "NaN", with_raw("NaN")),
    (SubReason.NUMBER, "Infinity", with_raw("Infinity")),
    (SubReason.NUMBER, "minus Infinity", with_raw("[-Infinity]")),
    (SubReason.NUMBER, "20 digits", with_raw("1" * 20)),
    (SubReason.NUMBER, "20 digits below zero", with_raw("-" + "1" * 20)),
    (SubReason.NUMBER, "too many digits for Python", with_raw("1" * 5000)),
    (SubReason.NUMBER, "a real of 33 characters", with_raw("0." + "1" * 31)),
    (SubReason.NUMBER, "too large for a real", with_raw("1e309")),
    (SubReason.NUMBER, "too large below zero", with_raw("-1e999")),
    (SubReason.NUMBER, "a long exponent", with_raw("1e" + "0" * 40)),
    (SubReason.NUMBER, "where a text belongs", replaced('"no_failed_checks"', "NaN")),
    # The target
    (SubReason.TARGET, "a slash more", edited(put("target", TARGET + "/"))),
    (SubReason.TARGET, "a letter less", edited(put("target", TARGET[:-1]))),
    (SubReason.TARGET, "another case", edited(put("target", TARGET.replace("mcp", "MCP")))),
    (SubReason.TARGET, "another host", edited(put("target", "https://other.example.com/mcp"))),
    (SubReason.TARGET, "another scheme", edited(put("target", TARGET.replace("https", "http")))),
    (
        SubReason.TARGET,
        "a default port",
        edited(put("target", "https://tools.example.com:443/mcp")),
    ),
    (SubReason.TARGET, "a letter that looks the same", edited(put("target", "https://t\u043eols"))),
    (SubReason.TARGET, "still encoded", edited(put("target", "https%3A%2F%2Ftools.example.com"))),
    (SubReason.TARGET, "white space around", edited(put("target", f" {TARGET} "))),
    (SubReason.TARGET, "nothing", edited(put("target", ""))),
    # The set of checks
    (SubReason.CHECK_SET, "none", edited(put("checks", []))),
    (SubReason.CHECK_SET, "65 others", edited(add_checks(65))),
    (SubReason.CHECK_SET, "an empty name", edited(add_check(""))),
    (SubReason.CHECK_SET, "a name of 65", edited(add_check("a" * 65))),
    (SubReason.CHECK_SET, "a capital", edited(add_check("New_check"))),
    (SubReason.CHECK_SET, "a first digit", edited(add_check("1st"))),
    (SubReason.CHECK_SET, "a hyphen", edited(add_check("new-check"))),
    (SubReason.CHECK_SET, "a line break", edited(add_check("new\n"))),
    (SubReason.CHECK_SET, "a letter that looks the same", edited(add_check("\u0430"))),
    (SubReason.CHECK_SET, "a digit of another script", edited(add_check("a\u0661"))),
    (SubReason.CHECK_SET, "a lone surrogate", edited(add_check("a\ud800"))),
    (SubReason.CHECK_SET, "a known one twice", edited(add_check(REACHABLE, "proven"))),
    (SubReason.CHECK_SET, "a new one twice", edited(add_check("new"), add_check("new"))),
    (SubReason.CHECK_SET, "a known one renamed", edited(in_row(5, "check", "other"))),
    *(
        (
            SubReason.CHECK_SET,
            f"without number {number}",
            edited(lambda a, n=number: a["checks"].pop(n)),
        )
        for number in range(6)
    ),
    # Statuses
    *(
        (SubReason.STATUS, f"the status {word!r}", edited(in_row(4, "status", word)))
        for word in ("", "ok", "Proven", "FAILED", "unknown ", "proven\n", "pr\u043even", "\ud800")
    ),
    (SubReason.STATUS, "of a new check", edited(add_check("new", "partly"))),
    # The summary, each list in each direction
    (SubReason.SUMMARY, "failed names what was proven", edited(put("failed", [REACHABLE]))),
    (SubReason.SUMMARY, "failed names what is unknown", edited(put("failed", [CARD]))),
    (SubReason.SUMMARY, "failed names a stranger", edited(put("failed", ["new"]))),
    (SubReason.SUMMARY, "failed is silent", edited(put("failed", []), **{CARD: "failed"})),
    (SubReason.SUMMARY, "failed repeats", edited(put("failed", [CARD, CARD]), **{CARD: "failed"})),
    (SubReason.SUMMARY, "unknowns leaves out", edited(lambda a: a["unknowns"].pop())),
    (
        SubReason.SUMMARY,
        "unknowns adds a proven",
        edited(lambda a: a["unknowns"].append(REACHABLE)),
    ),
    (
        SubReason.SUMMARY,
        "unknowns adds a failed",
        edited(lambda a: a["unknowns"].append(CARD), **{CARD: "failed"}),
    ),
    (SubReason.SUMMARY, "unknowns repeats", edited(lambda a: a["unknowns"].append(CARD))),
    (SubReason.SUMMARY, "unknowns names a stranger", edited(lambda a: a["unknowns"].append("new"))),
    (SubReason.SUMMARY, "scored leaves out a proven", edited(lambda a: a["scored"].pop())),
    (
        SubReason.SUMMARY,
        "scored leaves out a failed",
        edited(lambda a: a["scored"].remove(CARD), **{CARD: "failed"}),
    ),
    (SubReason.SUMMARY, "scored adds an unknown", edited(lambda a: a["scored"].append(CARD))),
    (SubReason.SUMMARY, "scored repeats", edited(lambda a: a["scored"].append(REACHABLE))),
    (SubReason.SUMMARY, "scored names a stranger", edited(lambda a: a["scored"].append("new"))),
    (
        SubReason.SUMMARY,
        "a name in other letters",
        edited(put("scored", [REACHABLE, "Protocol_handshake"])),
    ),
    (
        SubReason.SUMMARY,
        "a new check is left out",
        edited(add_check("new"), lambda a: a["unknowns"].pop()),
    ),
    (
        SubReason.SUMMARY,
        "lists swapped",
        edited(lambda a: a.update(scored=a["unknowns"], unknowns=a["scored"])),
    ),
    # The verdict, each in each direction
    *(
        (
            SubReason.VERDICT,
            f"{said} instead of {computed}",
            edited(put("verdict", said), **statuses),
        )
        for computed, statuses in (
            ("no_failed_checks", {}),
            ("no_failed_checks", dict.fromkeys(CHECKS, "unknown")),
            ("delegate_with_caution", {CARD: "failed"}),
            ("delegate_with_caution", {INDEPENDENT: "failed", REACHABLE: "unknown"}),
            ("do_not_delegate", {REACHABLE: "failed", HANDSHAKE: "unknown"}),
            ("do_not_delegate", {HANDSHAKE: "failed", PAYMENT: "failed"}),
        )
        for said in (
            "no_failed_checks",
            "delegate_with_caution",
            "do_not_delegate",
            computed.upper(),
            computed + " ",
            "",
        )
        if said != computed
    ),
    (SubReason.VERDICT, "a new failed check ignored", edited(add_check("new", "failed"))),
    (
        SubReason.VERDICT,
        "a new check that decides",
        edited(add_check("new", "failed"), put("verdict", "do_not_delegate")),
    ),
    # Shape
    *((SubReason.SHAPE, f"only {text}", text.encode()) for text in ("null", "7", '""', "[]", "{}")),
    (SubReason.SHAPE, "in a list", b"[" + answer_body(TARGET) + b"]"),
    *(
        (SubReason.SHAPE, f"without {name}", edited(drop(name)))
        for name in contract_statement.FIELDS
    ),
    *(
        (SubReason.SHAPE, f"{name} is {value!r}", edited(put(name, value)))
        for name, kind in contract_statement.FIELDS.items()
        for value in (None, True, 0, 1.5, {}, [] if kind is str else "")
    ),
    *(
        (
            SubReason.SHAPE,
            f"{name} holds {value!r}",
            edited(lambda a, n=name, v=value: a[n].append(v)),
        )
        for name in ("failed", "unknowns", "scored")
        for value in (None, False, 3, [], {})
    ),
    *(
        (
            SubReason.SHAPE,
            f"checks holds {value!r}",
            edited(lambda a, v=value: a["checks"].append(v)),
        )
        for value in (None, True, 3, "endpoint_reachable", [])
    ),
    *(
        (SubReason.SHAPE, f"a check's {key} is {value!r}", edited(in_row(3, key, value)))
        for key in ("check", "status", "detail")
        for value in (None, True, 0, [], {})
    ),
    *(
        (SubReason.SHAPE, f"a check without {key}", edited(lambda a, k=key: a["checks"][1].pop(k)))
        for key in ("check", "status", "detail")
    ),
]


@pytest.mark.parametrize(
    ("sub_reason", "body"),
    [pytest.param(reason, body, id=f"{reason}: {name}") for reason, name, body in BROKEN],
)
def test_a_broken_answer_is_refused_with_its_sub_reason(sub_reason: SubReason, body: bytes) -> None:
    refusal = violation(body)
    assert refusal.sub_reason is sub_reason
    assert refusal.reason is Reason.EVIDENCE_INCONSISTENT
    assert not contract_statement.conforms(body, TARGET)


def test_every_sub_reason_of_the_contract_is_produced_more_than_once() -> None:
    produced = [reason for reason, _, _ in BROKEN]
    for reason in SubReason:
        if reason.reason is Reason.EVIDENCE_INCONSISTENT:
            assert produced.count(reason) >= 5, reason


@pytest.mark.parametrize(
    ("sub_reason", "edits"),
    [
        (SubReason.SHAPE, (drop("limits"), put("target", "x"), put("verdict", "x"))),
        (SubReason.TARGET, (put("target", "x"), put("checks", []), put("verdict", "x"))),
        (SubReason.CHECK_SET, (add_check("A"), in_row(0, "status", "x"), put("failed", ["x"]))),
        (SubReason.STATUS, (in_row(0, "status", "x"), put("failed", ["x"]), put("verdict", "x"))),
        (SubReason.SUMMARY, (put("failed", ["x"]), put("verdict", "x"))),
    ],
)
def test_the_first_broken_rule_names_the_sub_reason(
    sub_reason: SubReason, edits: tuple[Edit, ...]
) -> None:
    assert violation(edited(*edits)).sub_reason is sub_reason


# --- What a violation carries --------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        MARKER.encode() + b"\xff",
        f'{{"{MARKER}'.encode(),
        with_raw(f'"{MARKER}","{MARKER}":1', MARKER),
        with_raw(f'["{MARKER}",{nested(100_000)}]'),
        with_raw(f'["{MARKER}",NaN]'),
        edited(put("checks", MARKER)),
        edited(put("target", MARKER)),
        edited(add_check(MARKER)),
        edited(in_row(0, "status", MARKER)),
        edited(put("failed", [MARKER])),
        edited(put("verdict", MARKER)),
    ],
)
def test_a_violation_says_nothing_of_the_answer(body: bytes) -> None:
    assert MARKER.encode() in body
    refusal = violation(body)
    assert str(refusal) == f"evidence_inconsistent/{refusal.sub_reason}"
    assert refusal.args == (str(refusal),)
    assert MARKER not in repr(refusal)
    assert (refusal.__cause__, refusal.__context__) == (None, None)
    assert not hasattr(refusal, "__notes__")


@pytest.mark.parametrize(
    ("body", "verdicts", "failed"),
    [
        (edited(put("target", "x")), {"no_failed_checks"}, set()),
        (
            edited(put("target", "x"), **{REACHABLE: "failed", CARD: "failed"}),
            {"do_not_delegate"},
            {REACHABLE, CARD},
        ),
        (with_raw('"do_not_delegate"', "verdict"), {"no_failed_checks", "do_not_delegate"}, set()),
        (
            replaced('"status":"proven"', '"status":"failed","status":"proven"'),
            {"no_failed_checks"},
            {REACHABLE},
        ),
        (answer_body(TARGET, {HANDSHAKE: "failed"})[:-1], {"do_not_delegate"}, {HANDSHAKE}),
        (
            answer_body(TARGET, {HANDSHAKE: "failed"}).decode().encode("utf-16"),
            {"do_not_delegate"},
            {HANDSHAKE},
        ),
        (edited(put("failed", [PAYMENT])), {"no_failed_checks"}, {PAYMENT}),
        (
            b'[{"x":[{"\\u0076erdict":"delegate_with_c\\u0061ution"}]}',
            {"delegate_with_caution"},
            set(),
        ),
        (b'{"verdict": "unheard of"}', set(), set()),
        (b"no claim at all", set(), set()),
    ],
)
def test_a_violation_keeps_what_the_answer_claims(
    body: bytes, verdicts: set[str], failed: set[str]
) -> None:
    claims = violation(body).claims
    assert claims.verdicts == verdicts
    assert claims.failed is bool(failed)


# --- Against the second statement ----------------------------------------------------------


def test_the_statement_accepts_what_it_calls_valid() -> None:
    answers = contract_statement.valid_answers(random.Random(1))
    for body, target in itertools.islice(answers, 500):
        assert contract_statement.conforms(body, target), body
        assert parse(body, target=target)


def test_both_statements_agree_on_mutated_answers() -> None:
    tally = contract_statement.compare(3000, seed=2)
    assert not tally.disagreements, tally.examples
    # A generator whose cases all fall on one side would prove nothing.
    assert tally.accepted > 700
    assert tally.refused > 1500


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(CHECKS) | st.from_regex(r"\A[a-z][a-z0-9_]{0,8}\Z") | st.text(max_size=4)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "check": NAMES,
            "status": st.sampled_from([*Status, "other"]),
            "detail": st.text(),
        },
        optional={"declared_name": JSON_VALUES},
    ),
    max_size=3,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    statuses=st.fixed_dictionaries(dict.fromkeys(CHECKS, st.sampled_from(list(Status)))),
    further=ROWS,
    overrides=st.dictionaries(
        st.sampled_from(list(contract_statement.FIELDS)) | st.text(), JSON_VALUES, max_size=1
    ),
    order=st.randoms(use_true_random=False),
    ascii_only=st.booleans(),
)
def test_both_statements_agree_on_any_answer(
    statuses: dict[str, Status],
    further: list[Document],
    overrides: Document,
    order: random.Random,
    ascii_only: bool,
) -> None:
    answer: Document = json.loads(answer_body(TARGET, statuses))
    for row in further:
        add_check(row.pop("check"), row.pop("status"), **row)(answer)
    if answer["failed"] and answer["verdict"] == "no_failed_checks":
        answer["verdict"] = "delegate_with_caution"
    order.shuffle(answer["checks"])
    text = json.dumps(answer | overrides, ensure_ascii=ascii_only)
    body = text.encode("utf-8", "surrogatepass")
    try:
        parse(body, target=TARGET)
        accepted = True
    except ContractViolation:
        accepted = False
    assert accepted is contract_statement.conforms(body, TARGET)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(body=st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_give_a_violation_and_nothing_else(body: bytes) -> None:
    assert violation(body).reason is Reason.EVIDENCE_INCONSISTENT
