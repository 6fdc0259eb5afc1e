"""`why`: the vocabulary of the gate, from the enums that the gate itself uses."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

from ...reasons import OWN_REMEDIES, NextStep, Reason, SubReason
from ..shared.output import Exit, Output

HELP = "say what each reason means and what to do about it"
EXAMPLE = "why url_mismatch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `run` reads.

    Args:
        parser: the command's own parser.
    """
    parser.add_argument(
        "word", nargs="?", type=_word, metavar="REASON", help="one reason or sub-reason"
    )


def _word(text: str) -> str:
    """Take a word, or a reason as a refusal names it: with its sub-reason in brackets."""
    words = [*(reason.value for reason in Reason), *(sub.value for sub in SubReason)]
    asked = text.strip().removesuffix(")").rpartition("(")[2]
    if asked in words:
        return asked
    nearest = difflib.get_close_matches(asked, words, n=1)
    meant = f"; {nearest[0]} is the nearest" if nearest else ""
    raise argparse.ArgumentTypeError(f"there is no such reason{meant}; without one, all are listed")


def run(arguments: argparse.Namespace) -> Output:
    """Explain one word of the vocabulary, or all of them.

    Args:
        arguments: `word`, or None for all.

    Returns:
        The output, always fine.
    """
    word: str | None = arguments.word
    asked = [sub for sub in SubReason if word in (None, sub.value, sub.reason.value)]
    reasons = [
        reason
        for reason in Reason
        if word in (None, reason.value) or any(sub.reason is reason for sub in asked)
    ]
    lines: list[str] = []
    for reason in reasons:
        lines += [reason.value, f"  {reason.sentence}", f"  What to do: {reason.remedy}"]
        lines += [f"  Next step: {reason.next_step.value}. {reason.next_step.sentence}"]
        for sub in asked:
            if sub.reason is reason:
                lines += _lines_of_sub_reason(sub)
        lines.append("")
    data = {"reasons": [_as_data(reason, asked) for reason in reasons]}
    return Output(Exit.FINE, lines[:-1], data)


def _lines_of_sub_reason(sub_reason: SubReason) -> list[str]:
    lines = [f"    {sub_reason.value}: {sub_reason.sentence}"]
    if sub_reason in OWN_REMEDIES:
        lines.append(f"      What to do: {sub_reason.remedy}")
    return lines


def _as_data(reason: Reason, asked: Sequence[SubReason]) -> dict[str, Any]:
    next_step: NextStep = reason.next_step
    return {
        "reason": reason.value,
        "stage": reason.stage.value,
        "sentence": reason.sentence,
        "remedy": reason.remedy,
        "next_step": next_step.value,
        "sub_reasons": [
            {"sub_reason": sub.value, "sentence": sub.sentence, "remedy": sub.remedy}
            for sub in asked
            if sub.reason is reason
        ],
    }
