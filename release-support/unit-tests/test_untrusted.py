"""Remote text made harmless: marked and cut where it is kept, visible where it is shown."""

from __future__ import annotations

import pytest
from usr.plugins.agent_guild_preflight.helpers.untrusted import MARK, untrusted, visible


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("a plain text", "a plain text"),
        ('"quoted"', r"\x22quoted\x22"),
        ("a\\b", r"a\\b"),
        ("one\ntwo\x1b[2J", r"one\ntwo\x1b[2J"),
        ("\xe9\u2028\U0001f600", r"\xe9\u2028\U0001f600"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_is_kept_is_marked_and_ascii(text: str, kept: str) -> None:
    assert untrusted(text) == f"untrusted: {kept}" == MARK + kept


def test_what_is_kept_is_cut_before_and_after_it_is_escaped() -> None:
    assert untrusted("a" * 601) == MARK + "a" * 600
    assert untrusted("abc", 2) == MARK + "ab"
    assert untrusted("\n\n\n", 2) == MARK + r"\n"
    assert untrusted('"', 3) == MARK + r"\x2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a plain text", "a plain text"),
        ("a\\b", r"a\\b"),
        ("\xe9 \u6f22 \U0001f600", "\xe9 \u6f22 \U0001f600"),
        ("\xe9\n\t", r"é\n\t"),
        ("\x1b[2J", r"\x1b[2J"),  # a control character
        ("\u202etxt", r"\u202etxt"),  # one of format
        ("\ud800", r"\ud800"),
        ("\ue000\u0378", r"\ue000\u0378"),  # private, unassigned
        ("a\xa0b\u2003c\u2028", r"a\xa0b\u2003c\u2028"),  # separators
        ("a\u115f\u3164\ufe0f\U000e0100", r"a\u115f\u3164\ufe0f\U000e0100"),  # blank
    ],
)
def test_what_is_shown_has_nothing_in_it_that_nobody_sees(text: str, shown: str) -> None:
    assert visible(text) == shown
