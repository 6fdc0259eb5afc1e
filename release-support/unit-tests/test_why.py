"""`why`: the whole vocabulary, from the enums that the gate uses."""

from __future__ import annotations

import json

import pytest
from usr.plugins.agent_guild_preflight.helpers.commands.main import main
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

URL_MISMATCH = """\
url_mismatch
  The MCP settings name another URL than the approved one.
  What to do: Find out who changed the URL; then make both files say the same, byte for byte.
  Next step: operator. Do not repeat this call; only the operator can change this. Tell the user.
"""

EVIDENCE_UNAVAILABLE = """\
evidence_unavailable
  The preflight service gave no usable answer.
  What to do: Try again later; see the sub-reason. on_unavailable says what a missing answer means.
  Next step: retry_later. The same call may be tried again later.
    resolve: The service's name did not resolve.
    connect: No connection to the service.
    tls: The TLS handshake with the service failed.
    timeout: The deadline passed before the answer was whole.
    http_status: The status was not 200.
    redirect: The service redirected; redirects are not followed.
    media_type: The answer was not application/json.
    content_encoding: The answer was encoded.
    too_large: The answer was larger than 1 MiB.
    stale: A cache on the way answered instead of the service.
      What to do: Take the cache out of the way to the service: a proxy of this network, or one before the service. If there is none, this machine's clock is ahead: set it.
    clock: The answer is dated in the future: this machine's clock is behind, or the service's ahead.
      What to do: Set this machine's clock, and see that something keeps it right (NTP). If it is right, the service's is wrong: try again later.
    protocol: The answer was not whole, correct HTTP.
"""  # noqa: E501
CLOCK = """\
evidence_unavailable
  The preflight service gave no usable answer.
  What to do: Try again later; see the sub-reason. on_unavailable says what a missing answer means.
  Next step: retry_later. The same call may be tried again later.
    clock: The answer is dated in the future: this machine's clock is behind, or the service's ahead.
      What to do: Set this machine's clock, and see that something keeps it right (NTP). If it is right, the service's is wrong: try again later.
"""  # noqa: E501
TIMEOUT = """\
evidence_unavailable
  The preflight service gave no usable answer.
  What to do: Try again later; see the sub-reason. on_unavailable says what a missing answer means.
  Next step: retry_later. The same call may be tried again later.
    timeout: The deadline passed before the answer was whole.
"""

AS_DATA = {
    "reasons": [
        {
            "reason": "caution_not_permitted",
            "stage": "policy",
            "sentence": "The verdict asks for caution, and the policy does not permit that.",
            "remedy": "The command check shows what failed; set policy.on_caution to allow if you "
            "accept that.",
            "next_step": "operator",
            "sub_reasons": [],
        }
    ]
}


def printed(reason: Reason, only: SubReason | None = None) -> str:
    """Say what must be printed of a reason, with all its sub-reasons or only one."""
    subs = [only] if only else [sub for sub in SubReason if sub.reason is reason]
    lines = [
        reason.value,
        f"  {reason.sentence}",
        f"  What to do: {reason.remedy}",
        f"  Next step: {reason.next_step.value}. {reason.next_step.sentence}",
    ]
    for sub in subs:
        lines.append(f"    {sub.value}: {sub.sentence}")
        if sub.remedy != reason.remedy:
            lines.append(f"      What to do: {sub.remedy}")
    return "".join(f"{line}\n" for line in lines)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command: it must be fine, and say nothing on standard error."""
    assert main(["why", *arguments]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    return output


@pytest.mark.parametrize(
    ("word", "output"),
    [
        ("url_mismatch", URL_MISMATCH),
        ("evidence_unavailable", EVIDENCE_UNAVAILABLE),
        ("timeout", TIMEOUT),
        ("clock", CLOCK),
        # As a refusal names it.
        ("evidence_unavailable (timeout)", TIMEOUT),
        (" timeout ", TIMEOUT),
    ],
)
def test_one_word(capsys, word, output):
    assert told(capsys, word) == output


def test_the_whole_vocabulary(capsys):
    assert told(capsys) == "\n".join(printed(reason) for reason in Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason(capsys, reason):
    assert told(capsys, reason.value) == printed(reason)


@pytest.mark.parametrize("sub_reason", list(SubReason))
def test_each_sub_reason_with_its_reason(capsys, sub_reason):
    output = told(capsys, sub_reason.value)
    assert output == printed(sub_reason.reason, sub_reason)
    (found,) = json.loads(told(capsys, sub_reason.value, "--json"))["reasons"]
    assert found["sub_reasons"] == [
        {
            "sub_reason": sub_reason.value,
            "sentence": sub_reason.sentence,
            "remedy": sub_reason.remedy,
        }
    ]


def test_one_word_as_data(capsys):
    assert json.loads(told(capsys, "caution_not_permitted", "--json")) == AS_DATA


def test_the_whole_vocabulary_as_data(capsys):
    reasons = json.loads(told(capsys, "--json"))["reasons"]
    assert [
        (one["reason"], one["stage"], one["sentence"], one["remedy"], one["next_step"])
        for one in reasons
    ] == [
        (one.value, one.stage.value, one.sentence, one.remedy, one.next_step.value)
        for one in Reason
    ]
    assert [
        (one["reason"], sub["sub_reason"], sub["sentence"])
        for one in reasons
        for sub in one["sub_reasons"]
    ] == [
        (sub.reason.value, sub.value, sub.sentence)
        for one in Reason
        for sub in SubReason
        if sub.reason is one
    ]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("url-mismatch", "; url_mismatch is the nearest"),
        ("times_out", "; timeout is the nearest"),
        ("URL_MISMATCH", ""),
        ("\x1b[2J", ""),
        ("", ""),
    ],
)
def test_an_unknown_word(capsys, word, meant):
    with pytest.raises(SystemExit) as raised:
        main(["why", word])
    assert raised.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.splitlines()[-1] == (
        "python -m usr.plugins.agent_guild_preflight.helpers why: error: argument REASON: "
        f"there is no such reason{meant}; without one, all are listed"
    )
