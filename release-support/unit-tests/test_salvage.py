"""What broken answers claim: repeated keys, cut-off texts, odd encodings, hostile sizes."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.salvage import (
    ALL_CLAIMS,
    NO_CLAIMS,
    Claims,
    read_claims,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import Verdict

NO = Verdict.DO_NOT_DELEGATE
CAUTION = Verdict.DELEGATE_WITH_CAUTION
FINE = Verdict.NO_FAILED_CHECKS

ANSWER = """{
  "target": "https://example.com/",
  "verdict": "do_not_delegate",
  "headline": "Nothing was heard.",
  "checks": [
    {"check": "protocol_handshake", "status": "unknown", "detail": "not tried"},
    {"check": "endpoint_reachable", "status": "failed", "detail": "no answer"}
  ],
  "failed": ["endpoint_reachable"]
}"""

bounded = settings(max_examples=120, deadline=None, derandomize=True)


def claimed(text: str) -> Claims:
    return read_claims(text.encode())


def verdicts(*found: Verdict) -> Claims:
    return Claims(verdicts=frozenset(found))


FAILED = Claims(failed=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"verdict": "do_not_delegate"}', verdicts(NO)),
        ('{ "verdict" \t\r\n : \n "delegate_with_caution" }', verdicts(CAUTION)),
        ('{"verdict": "no_failed_checks"}', verdicts(FINE)),
        # Wherever the word stands, whatever stands around it.
        ('{"headline": "do_not_delegate"}', verdicts(NO)),
        ('["x", ["do_not_delegate"]]', verdicts(NO)),
        ('{"headline": "5" screen", "verdict": "do_not_delegate"}', verdicts(NO)),
        ("{'verdict': 'do_not_delegate'}", verdicts(NO)),
        ('{"verdict": DO_NOT_DELEGATE', verdicts(NO)),
        ('{"verdict": "no_failed_checks", "verdict": "do_not_delegate"}', verdicts(FINE, NO)),
        ('{"verdict": "no_failed_checks"}{"verdict": "do_not_delegate"}', verdicts(FINE, NO)),
        # Whatever is said to have failed, and however.
        ("{status: failed}", FAILED),
        (json.dumps(json.dumps({"status": "failed"})), FAILED),
        ('{"status": ["x", "failed"]}', FAILED),
        ('{"status": {"value": "failed"}}', FAILED),
        ('{"status":' + " " * 100 + '"failed"}', FAILED),
        ('{"detail": "{check: foo", "status": "failed"}', FAILED),
        ('{"check": "endpoint_reachable", "status": "failed"}', FAILED),
        ('{"status": "failed", "detail": "x", "check": "endpoint_reachable"}', FAILED),
        ('{"check": "endpoint_reachable", "status": "failed", "status": "proven"}', FAILED),
        ('{"check":"endpoint_reachable"],"status":"failed"}', FAILED),
        ('{"check": "endpoint_reachable", "status": "failed"', FAILED),
        ('{"check": "something_else", "status": "failed"}', FAILED),
        ('{"status": "failed"}', FAILED),
        ('{"check": "endpoint_reachable", "more": {}, "status": "failed"}', FAILED),
        ('{"failed": ["a:b", "endpoint_reachable"]}', FAILED),
        ('{"failed": {"a": 1, "endpoint_reachable": 1}}', FAILED),
        ('{"failed": [{"name": "endpoint_reachable"}]}', FAILED),
        ('{"failed": ["endpoint_reachable"]}', FAILED),
        ('{"failed": [["endpoint_reachable"]]}', FAILED),
        ('{"failed": "endpoint_reachable"}', FAILED),
        ('{"failed": ["endpoint_reachable"], "failed": []}', FAILED),
        ('{"failed": [], "failed": ["endpoint_reachable"]}', FAILED),
        ('{"failed": ["endpoint_reachable"', FAILED),
        ('{"failed": ["something_else"], "unknowns": []}', FAILED),
        # In any spelling of JSON, capitals among them.
        (r'{"verdict": "\u0044o_not_delegate"}', verdicts(NO)),
        (r'{"verdict": "\u0044\u004F\u005F\u004E\u004F\u0054_delegate"}', verdicts(NO)),
        (r'{"status": "\u0046AILED"}', FAILED),
        ("do_not_delegate_with_caution", verdicts(NO, CAUTION)),
        (r'{"verdict": "\u0064o_not_delegat\u0065"}', verdicts(NO)),
        (r'{"verdict": "do_not_deleg\u0061te', verdicts(NO)),
        (r'{"\u0063heck": "endpoint_reach\u0061ble", "statu\u0073": "f\u0061iled"}', FAILED),
        (r'{"headline": "{\"verdict\": \"do_not_delegate\"}"}', verdicts(NO)),
        (json.dumps(json.dumps({"x": "do\\u005fnot_delegate"})), verdicts(NO)),
        (r'{"x": "\q\u12", "verdict": "do_not_delegate"}', verdicts(NO)),
    ],
)
def test_claims(text: str, expected: Claims) -> None:
    assert claimed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "Internal Server Error",
        '{"headline": "the check endpoint_reachable has failed"}',
        '{"headline": "nothing failed."}',
        '{"verdict": "do_not_delega"}',
        '{"check": "endpoint_reachable", "status": "proven"}',
        '{"failed" : [ ]}',
        '{"check": "no_failed_check_s", "failure": "unfailed"}',
        '{"failed": [], "unknowns": ["endpoint_reachable"], "scored": ["agent_card_signed"]}',
        '{"detail": [{"type": "missing", "loc": ["query", "url"]}]}',
        r'{"headline": "do\u00e9_not_delegate", "name": "fail\u00ed"}',
        "status: failedover",
        "not_failed: 3",
        "failed to send",
        "[failed]",
        "unfailed: all over",
        'x"failed" : [ ]',
        "{'failed': []}",
    ],
)
def test_what_claims_nothing(text: str) -> None:
    assert claimed(text) == NO_CLAIMS


@pytest.mark.parametrize(
    "text",
    [
        "failed: 3",
        "failed=3",
        "status : failed",
        "status=failed",
        "' failed '",
        f'"{" " * 64}failed"',
        '"failed\\\\"',
        '"failed" : [ 1 ]',
        '"failed" : []"failed"',
        '"failed": [], "x": "failed"',
        '"failed": [], "x": "failed", "failed": []',
        '"failed',
        "(failed:)",
    ],
)
def test_a_claim_of_any_form(text: str) -> None:
    assert claimed(text) == FAILED


@pytest.mark.parametrize("text", ["failed, ", '"failed": [],'])
def test_an_answer_that_is_full_of_the_word_claims_it(text: str) -> None:
    """And everything else: it is not read word by word."""
    assert claimed(text * 1_000) == NO_CLAIMS
    assert claimed(text * 1_001) == ALL_CLAIMS == Claims(frozenset(Verdict), failed=True)


def test_an_answer_that_is_full_of_escaped_letters_claims_everything() -> None:
    assert claimed(r"\u00e9" * 10_000) == NO_CLAIMS
    assert claimed(r"\u00e9" * 10_001) == ALL_CLAIMS


@pytest.mark.parametrize("runs", [1, 2, 3, 31, 5_000])
def test_a_claim_of_json_within_json_within_json(runs: int) -> None:
    text = "".join(f"{chr(92) * runs}u00{ord(letter):02x}" for letter in "Do_Not_Delegate")
    assert claimed(text) == verdicts(NO)
    assert claimed(f'{{{chr(92) * runs}"status{chr(92) * runs}":{chr(92) * runs}"failed') == FAILED


def test_a_complete_claim_survives_every_truncation() -> None:
    body = ANSWER.encode()
    verdict = ANSWER.index("do_not_delegate") + len("do_not_delegate")
    check = ANSWER.index('"failed", "detail"') + len('"failed')  # what follows may be its end

    for cut in range(len(body) + 1):
        found = read_claims(body[:cut])
        assert (NO in found.verdicts) is (cut >= verdict), cut
        assert found.failed is (cut >= check), cut


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"],
)
def test_claims_are_seen_in_any_unicode_encoding(encoding: str) -> None:
    assert read_claims(ANSWER.encode(encoding)) == claimed(ANSWER)


@pytest.mark.parametrize(
    "noise", [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\x00", b"\x80"]
)
def test_bytes_that_are_no_text_hide_nothing(noise: bytes) -> None:
    body = b'{"headline": "' + noise + b'", "verdict": ' + noise + b' "do_not_delegate"}'

    assert NO in read_claims(body).verdicts


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"failed":[', '[{"check":"a","x":'])
def test_deep_nesting_hides_nothing(opening: str) -> None:
    assert NO in claimed(opening * 20_000 + '{"verdict": "do_not_delegate"}').verdicts


# Properties

words = st.sampled_from(
    [
        "verdict",
        "check",
        "status",
        "failed",
        "proven",
        "endpoint_reachable",
        *Verdict,
        "\xe9",
        '"\\',
    ]
)
json_values: st.SearchStrategy[Any] = st.recursive(
    words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


def walk(value: Any, key: str = "") -> set[str]:
    """State the rules of a claim once more, over values instead of text."""
    found: set[str] = set()
    if isinstance(value, list):
        found |= {f"!{item}" for item in value if isinstance(item, str) and key == "failed"}
        found = found.union(*(walk(item) for item in value))
    elif isinstance(value, dict):
        if value.get("verdict") in list(Verdict):
            found.add(value["verdict"])
        if isinstance(value.get("check"), str) and value.get("status") == "failed":
            found.add(f"!{value['check']}")
        found = found.union(*(walk(item, name) for name, item in value.items()))
    return found


@bounded
@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_well_formed_answers_claim_at_least_what_a_walk_over_them_finds(
    value: Any, escaped: bool, indent: int | None
) -> None:
    found = claimed(json.dumps(value, ensure_ascii=escaped, indent=indent))
    expected = walk(value)

    assert {word for word in expected if word in set(Verdict)} <= found.verdicts
    assert found.failed or not any(word.startswith("!") for word in expected)


@bounded
@given(json_values, st.binary(max_size=50))
def test_nothing_that_follows_takes_a_claim_back(value: Any, rest: bytes) -> None:
    body = json.dumps(
        [value, {"verdict": "do_not_delegate", "failed": ["agent_card_signed"]}]
    ).encode()

    found = read_claims(body + rest)

    assert NO in found.verdicts
    assert found.failed


fragments = st.sampled_from(
    rb"""{ } [ ] : , " \ \u \ud800 "verdict" "failed" "check" "status" "do_not_delegate" 1""".split()
)


@bounded
@given(st.lists(fragments | st.binary(max_size=4), max_size=40).map(b"".join))
def test_any_bytes_give_claims(body: bytes) -> None:
    found = read_claims(body)

    assert found.verdicts <= set(Verdict)


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "]",
        "{",
        '{"a":',
        '"',
        "\\",
        '\\"',
        '"\\',
        '"\\u0061",',
        ":",
        '"check":"a",',
        '"failed":["a"],',
        '{"status":"failed"}',
    ],
)
def test_the_time_grows_no_faster_than_the_answer(unit: str) -> None:
    def seconds(size: int) -> float:
        body = b'"failed" ' + unit.encode() * (size // len(unit))
        times = []
        for _ in range(3):
            start = time.process_time()
            read_claims(body)
            times.append(time.process_time() - start)
        return min(times)

    # Eight times the size takes sixty-four times as long where the time grows with the square.
    assert seconds(32 * 1024) < 32 * max(seconds(4 * 1024), 0.001)
