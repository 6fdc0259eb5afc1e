"""A refusal as an exception: its words, and nothing else."""

from __future__ import annotations

from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, Refusal, SubReason


def test_a_refusal_says_its_reason_and_its_sub_reason() -> None:
    finer = Refusal(Reason.EVIDENCE_UNAVAILABLE, SubReason.TIMEOUT)
    assert (finer.reason, finer.sub_reason) == (Reason.EVIDENCE_UNAVAILABLE, SubReason.TIMEOUT)
    assert str(finer) == "evidence_unavailable/timeout"


def test_a_refusal_without_a_sub_reason_says_its_reason_alone() -> None:
    plain = Refusal(Reason.DISPATCH_MISMATCH)
    assert (plain.reason, plain.sub_reason) == (Reason.DISPATCH_MISMATCH, None)
    assert str(plain) == "dispatch_mismatch"
