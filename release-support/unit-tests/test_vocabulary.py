"""The closed vocabulary, the line that a model reads, and the form in which remote text is kept."""

import json
import traceback
from datetime import UTC, datetime
from enum import StrEnum

import pytest
from helpers.errors import RepairableException, format_error
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers import message
from usr.plugins.agent_guild_preflight.helpers.denial import GuildPreflightError
from usr.plugins.agent_guild_preflight.helpers.exceptions import Unforeseen
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import (
    Check,
    Status,
    Verdict,
)
from usr.plugins.agent_guild_preflight.helpers.judgement import Judgement
from usr.plugins.agent_guild_preflight.helpers.reasons import (
    OWN_REMEDIES,
    NextStep,
    Reason,
    Refusal,
    Stage,
    SubReason,
)
from usr.plugins.agent_guild_preflight.helpers.untrusted import untrusted

# The design's tables, in its order: reason, stage, next step.
REASONS = [
    ("invalid_configuration", "configuration", "operator"),
    ("dispatch_mismatch", "dispatch", "retry_later"),
    ("endpoint_refused", "endpoint", "operator"),
    ("server_not_configured", "binding", "operator"),
    ("server_ambiguous", "binding", "operator"),
    ("server_not_remote", "binding", "operator"),
    ("url_mismatch", "binding", "operator"),
    ("transport_altered", "binding", "operator"),
    ("tool_not_exposed", "binding", "operator"),
    ("tool_not_pinned", "binding", "operator"),
    ("tool_ambiguous", "binding", "operator"),
    ("definition_changed", "binding", "operator"),
    ("evidence_unavailable", "evidence", "retry_later"),
    ("evidence_inconsistent", "evidence", "retry_later"),
    ("do_not_delegate", "policy", "retry_later"),
    ("required_check_failed", "policy", "retry_later"),
    ("required_check_unknown", "policy", "retry_later"),
    ("caution_not_permitted", "policy", "operator"),
    ("binding_changed", "re-check", "retry_later"),
    ("binding_changed_during_call", "execution", "operator"),
    ("internal_error", "any", "operator"),
]
SUB_REASONS = {
    "endpoint_refused": "scheme userinfo query fragment forbidden_character host_missing "
    "host_syntax host_not_public number_like_host port not_canonical too_long "
    "private_needs_local_service",
    "evidence_unavailable": "resolve connect tls timeout http_status redirect media_type "
    "content_encoding too_large stale clock protocol",
    "evidence_inconsistent": "encoding json duplicate_key depth number shape target check_set "
    "status summary verdict",
}


# The enums


def test_reasons_are_the_design_s_with_their_stage_and_next_step() -> None:
    assert [(reason.value, reason.stage, reason.next_step) for reason in Reason] == REASONS


def test_sub_reasons_are_the_design_s_each_of_one_reason() -> None:
    families = {
        reason.value: " ".join(sub.value for sub in SubReason if sub.reason is reason)
        for reason in Reason
    }

    assert {reason: words for reason, words in families.items() if words} == SUB_REASONS


def test_stages_stand_in_the_order_of_a_call() -> None:
    assert list(dict.fromkeys(reason.stage for reason in Reason)) == list(Stage)


@pytest.mark.parametrize("vocabulary", [Reason, SubReason, NextStep])
def test_every_word_has_one_sentence_of_its_own(vocabulary: type[StrEnum]) -> None:
    members = list(vocabulary.__members__.values())
    sentences = [member.sentence for member in members]

    # An enum makes an alias of a repeated value: it would be a member without being listed.
    assert members == list(vocabulary)
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert sentence.isprintable()
        assert sentence.endswith(".")
        assert sentence[0].isupper()


def test_every_reason_has_one_remedy_and_some_sub_reasons_have_their_own() -> None:
    own = {SubReason.STALE, SubReason.CLOCK}
    remedies = [reason.remedy for reason in Reason] + [sub.remedy for sub in own]

    assert set(OWN_REMEDIES) == own
    assert all(sub.remedy == sub.reason.remedy for sub in SubReason if sub not in own)
    assert len(set(remedies)) == len(remedies)
    for remedy in remedies:
        assert remedy.isprintable()
        assert remedy.endswith(".")
        assert remedy[0].isupper()


def test_no_word_means_two_things() -> None:
    words = [*Reason, *SubReason, *NextStep, *Stage]

    shared = {word for word in words if words.count(word) > 1}

    assert shared == set()


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal(Reason.URL_MISMATCH), "url_mismatch"),
        (
            Refusal(Reason.EVIDENCE_UNAVAILABLE, SubReason.TIMEOUT),
            "evidence_unavailable/timeout",
        ),
    ],
)
def test_a_refusal_says_its_words_and_nothing_else(refusal: Refusal, text: str) -> None:
    assert str(refusal) == text
    assert refusal.args == (text,)


# The line

START = "Agent Guild preflight refused this call: "
OPERATOR = "Next step: operator. Do not repeat this call; only the operator can change this. Tell the user."
LATER = "Next step: retry_later. The same call may be tried again later."
SERVER = "Server: weather."
BOTH = "Server: weather. Endpoint: https://mcp.example.com:8443."
OTHERS = " Tools of other servers are not concerned."
OBSERVED = (
    "Verdict: do_not_delegate. Failed: endpoint_reachable. Unknown: protocol_handshake, "
    "payment_claim_holds, independent_evidence. Proven: agent_card_resolves, agent_card_signed. "
    "+3 unlisted."
)
SEEN = Observation(
    verdict=Verdict.DO_NOT_DELEGATE,
    statuses={
        Check.ENDPOINT_REACHABLE: Status.FAILED,
        Check.PROTOCOL_HANDSHAKE: Status.UNKNOWN,
        Check.AGENT_CARD_RESOLVES: Status.PROVEN,
        Check.AGENT_CARD_SIGNED: Status.PROVEN,
        Check.PAYMENT_CLAIM_HOLDS: Status.UNKNOWN,
        Check.INDEPENDENT_EVIDENCE: Status.UNKNOWN,
    },
    details=dict.fromkeys(Check, "REMOTE"),
    other_checks=3,
    other_failed=1,
    method="REMOTE",
    limits="REMOTE",
    requested_at=datetime(2026, 10, 1, 12, 0, 0, tzinfo=UTC),
    observed_at=datetime(2026, 10, 1, 12, 0, 1, 999_999, tzinfo=UTC),
)


def judgement(reason: Reason, sub_reason: SubReason | None = None, **more: object) -> Judgement:
    found: dict[str, object] = {
        "server": "weather",
        "endpoint": "https://mcp.example.com:8443",
        "tool": "REMOTE",
        "cache_ttl_seconds": 300.0,
    }
    return Judgement(reason, sub_reason, **(found | more))


def seen(**more: object) -> Observation:
    fields = {name: getattr(SEEN, name) for name in Observation.__dataclass_fields__}
    return Observation(**(fields | more))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            judgement(Reason.INVALID_CONFIGURATION, server=None, endpoint=None),
            f"invalid_configuration. {OPERATOR}",
        ),
        (
            judgement(Reason.DISPATCH_MISMATCH, endpoint=None),
            f"dispatch_mismatch. {SERVER} {LATER}",
        ),
        (
            judgement(Reason.ENDPOINT_REFUSED, SubReason.USERINFO, endpoint=None),
            f"endpoint_refused (userinfo). {SERVER} {OPERATOR}",
        ),
        (judgement(Reason.SERVER_NOT_CONFIGURED), f"server_not_configured. {BOTH} {OPERATOR}"),
        (judgement(Reason.SERVER_AMBIGUOUS), f"server_ambiguous. {BOTH} {OPERATOR}"),
        (judgement(Reason.SERVER_NOT_REMOTE), f"server_not_remote. {BOTH} {OPERATOR}"),
        (judgement(Reason.URL_MISMATCH), f"url_mismatch. {BOTH} {OPERATOR}"),
        (judgement(Reason.TRANSPORT_ALTERED), f"transport_altered. {BOTH} {OPERATOR}"),
        (judgement(Reason.TOOL_NOT_EXPOSED), f"tool_not_exposed. {BOTH} {OPERATOR}"),
        (judgement(Reason.TOOL_NOT_PINNED), f"tool_not_pinned. {BOTH} {OPERATOR}"),
        (judgement(Reason.TOOL_AMBIGUOUS), f"tool_ambiguous. {BOTH} {OPERATOR}"),
        (judgement(Reason.DEFINITION_CHANGED), f"definition_changed. {BOTH} {OPERATOR}"),
        (
            judgement(Reason.EVIDENCE_UNAVAILABLE, SubReason.TIMEOUT),
            f"evidence_unavailable (timeout). {BOTH} {LATER}",
        ),
        (
            judgement(Reason.EVIDENCE_INCONSISTENT, SubReason.DUPLICATE_KEY),
            f"evidence_inconsistent (duplicate_key). {BOTH} {LATER}",
        ),
        (
            judgement(Reason.DO_NOT_DELEGATE, observation=seen(), cache_ttl_seconds=0.0),
            f"do_not_delegate. {BOTH} {OBSERVED} Observed at 2026-10-01T12:00:01Z. {LATER}",
        ),
        (
            judgement(
                Reason.REQUIRED_CHECK_FAILED, observation=seen(cached=True, age_seconds=100.5)
            ),
            f"required_check_failed. {BOTH} {OBSERVED} Observed at 2026-10-01T12:00:01Z "
            "(cached, age 100 s). Next step: retry_after 200 s. "
            "The same call gives the same answer until then.",
        ),
        (
            judgement(
                Reason.REQUIRED_CHECK_UNKNOWN,
                observation=seen(
                    verdict=Verdict.NO_FAILED_CHECKS,
                    statuses=dict.fromkeys(Check, Status.UNKNOWN),
                    other_checks=0,
                    cached=True,
                    age_seconds=299.9,
                ),
            ),
            f"required_check_unknown. {BOTH} Verdict: no_failed_checks. Unknown: "
            f"{', '.join(check.value for check in Check)}. Observed at 2026-10-01T12:00:01Z "
            "(cached, age 299 s). Next step: retry_after 1 s. "
            "The same call gives the same answer until then.",
        ),
        (
            judgement(
                Reason.CAUTION_NOT_PERMITTED,
                observation=seen(verdict=Verdict.DELEGATE_WITH_CAUTION, cached=True, age_seconds=7),
            ),
            f"caution_not_permitted. {BOTH} "
            f"{OBSERVED.replace('do_not_delegate', 'delegate_with_caution')} "
            f"Observed at 2026-10-01T12:00:01Z (cached, age 7 s). {OPERATOR}",
        ),
        (
            judgement(Reason.BINDING_CHANGED, observation=seen(cached=True, age_seconds=0.2)),
            f"binding_changed. {BOTH} {OBSERVED} Observed at 2026-10-01T12:00:01Z "
            f"(cached, age 0 s). {LATER}",
        ),
        (
            judgement(
                Reason.INTERNAL_ERROR, server=None, endpoint=None, unforeseen=Unforeseen("OSError")
            ),
            f"internal_error. {OPERATOR}",
        ),
    ],
    ids=lambda value: value.reason.value if isinstance(value, Judgement) else "",
)
def test_the_line_for_each_reason(made: Judgement, expected: str) -> None:
    assert made.reason is not None
    cause, _, rest = expected.partition(". ")
    others = " Local tools are not concerned." if made.server is None else OTHERS
    assert message.line(made) == f"{START}{cause}. {made.reason.sentence} {rest}{others}"


@pytest.mark.parametrize("sub_reason", SubReason)
def test_every_sub_reason_is_named_beside_its_reason(sub_reason: SubReason) -> None:
    made = message.line(judgement(sub_reason.reason, sub_reason))

    assert made.startswith(f"{START}{sub_reason.reason.value} ({sub_reason.value}). ")
    assert made.isprintable()


def test_the_same_cause_gives_the_same_line_times_aside() -> None:
    later = datetime(2026, 10, 2, tzinfo=UTC)
    cause = {"reason": Reason.DO_NOT_DELEGATE, "cache_ttl_seconds": 0.0}
    other = seen(requested_at=later, method="x", limits="y", details=dict.fromkeys(Check, "z"))

    first = message.line(judgement(**cause, observation=SEEN, tool="a"))

    assert first == message.line(judgement(**cause, observation=other, tool="b\nc"))
    moved = message.line(judgement(**cause, observation=seen(observed_at=later)))
    assert moved == first.replace("2026-10-01T12:00:01Z", "2026-10-02T00:00:00Z")
    assert "REMOTE" not in first


@pytest.mark.parametrize(("age", "seconds"), [(0.0, 300), (0.1, 300), (299.0, 1), (300.0, 1)])
def test_the_next_step_waits_until_the_evidence_has_expired(age: float, seconds: int) -> None:
    made = judgement(Reason.DO_NOT_DELEGATE, observation=seen(cached=True, age_seconds=age))

    assert made.next_step == f"retry_after {seconds} s"


@pytest.mark.parametrize(
    ("reason", "reachable", "ttl", "expected"),
    [
        (Reason.DO_NOT_DELEGATE, Status.PROVEN, 300.0, "operator"),
        (Reason.DO_NOT_DELEGATE, Status.PROVEN, 0.0, "operator"),
        (Reason.DO_NOT_DELEGATE, Status.FAILED, 300.0, "retry_after 300 s"),
        (Reason.DO_NOT_DELEGATE, Status.FAILED, 0.0, "retry_later"),
        (Reason.REQUIRED_CHECK_FAILED, Status.PROVEN, 300.0, "operator"),
        (Reason.REQUIRED_CHECK_UNKNOWN, Status.PROVEN, 300.0, "operator"),
        (Reason.REQUIRED_CHECK_UNKNOWN, Status.UNKNOWN, 300.0, "retry_after 300 s"),
        (Reason.CAUTION_NOT_PERMITTED, Status.FAILED, 300.0, "operator"),
        (Reason.BINDING_CHANGED, Status.PROVEN, 300.0, "retry_later"),
    ],
)
def test_an_endpoint_that_was_reached_and_refused_is_not_tried_again(
    reason: Reason, reachable: Status, ttl: float, expected: str
) -> None:
    """A policy refuses it for what it is; what was not reached may be back later."""
    statuses = {**dict.fromkeys(Check, Status.UNKNOWN), Check.ENDPOINT_REACHABLE: reachable}
    made = judgement(reason, cache_ttl_seconds=ttl, observation=seen(statuses=statuses))

    assert made.next_step == expected


@pytest.mark.parametrize("reason", Reason)
def test_the_longest_line_still_says_why_where_and_what_next(reason: Reason) -> None:
    sub_reasons = [None, *(sub for sub in SubReason if sub.reason is reason)]
    for sub_reason in sub_reasons:
        made = judgement(
            reason,
            sub_reason,
            server="w" * 128,
            endpoint=f"https://{'x' * 63}.{'y' * 63}.{'z' * 63}.example.com:65535",
            observation=seen(cached=True, age_seconds=86_400.0),
            is_withheld=True,
        )
        shown = message.line(made)
        assert len(shown) <= 600
        assert shown.startswith("Agent Guild preflight withheld the result of this call: ")
        assert f"{reason.sentence} Server: {'w' * 64}." in shown
        assert shown.endswith(
            f"{made.next_step}. {made.next_step_sentence} Tools of other servers are not concerned."
        )


def test_a_long_server_name_is_cut() -> None:
    made = message.line(judgement(Reason.URL_MISMATCH, server="w" * 128))

    assert f"Server: {'w' * 64}. " in made


# The exception


def raised_while_handling(text: str) -> GuildPreflightError:
    """Raise a denial in the worst place there is."""
    caught: list[GuildPreflightError] = []
    try:
        try:
            raise ValueError("REMOTE")
        except ValueError as error:
            raise GuildPreflightError(text) from error
    except GuildPreflightError as error:
        caught.append(error)
    return caught[0]


def test_a_denial_has_nothing_to_show_but_its_line() -> None:
    text = message.line(judgement(Reason.URL_MISMATCH))

    error = raised_while_handling(text)

    assert isinstance(error, RepairableException)
    assert str(error) == text
    assert error.args == (text,)
    assert error.__traceback__ is None
    assert error.__cause__ is None
    assert error.__context__ is None
    lines = "".join(traceback.format_exception(error)).splitlines()
    name = f"{GuildPreflightError.__module__}.GuildPreflightError"
    assert [line for line in lines if line != "Traceback (most recent call last):"] == [
        f"{name}: {text}"
    ]


def test_the_framework_shows_the_line_first() -> None:
    text = message.line(judgement(Reason.URL_MISMATCH))

    shown = format_error(raised_while_handling(text))

    assert GuildPreflightError.__qualname__.isidentifier()
    assert GuildPreflightError.__qualname__.endswith("Error")
    assert shown.splitlines()[0].endswith(f"GuildPreflightError: {text}")
    assert shown.count("\n") <= 3
    assert "REMOTE" not in shown
    assert ".py" not in shown


# Remote text that is kept


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.text(max_size=800)
    | st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=5).map(json.dumps)
    | st.characters(categories=["Cs", "Cc"]).map(lambda character: character * 700)
)
def test_kept_remote_text_is_never_json_and_never_long(text: str) -> None:
    kept = untrusted(text)

    assert kept.startswith("untrusted: ")
    assert kept.isascii()
    assert kept.isprintable()
    assert '"' not in kept
    assert len(kept) <= 600 + len("untrusted: ")
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(kept)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", "untrusted: "),
        ("plain text", "untrusted: plain text"),
        ('{"response_id": "x"}', "untrusted: {\\x22response_id\\x22: \\x22x\\x22}"),
        ("a\nb\x1b", "untrusted: a\\nb\\x1b"),
        ("\ud800\u202e", "untrusted: \\ud800\\u202e"),
        ("x" * 601, "untrusted: " + "x" * 600),
        ('"' * 600, "untrusted: " + "\\x22" * 150),
    ],
)
def test_kept_remote_text_is_still_readable(text: str, kept: str) -> None:
    assert untrusted(text) == kept
