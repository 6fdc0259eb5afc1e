"""The settings: every default, limit, wrong type and typo, and what is protected meanwhile."""

import re
from datetime import date
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers import configuration
from usr.plugins.agent_guild_preflight.helpers.configuration import (
    Configuration,
    InvalidConfiguration,
    Problem,
)
from usr.plugins.agent_guild_preflight.helpers.policy import OnCaution, OnUnavailable, Policy
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason
from usr.plugins.agent_guild_preflight.helpers.verdicts import Check

SHIPPED_FILE = Path(__file__).parents[2] / "default_config.yaml"

NAN = float("nan")
INFINITY = float("inf")
HUGE = 10**400  # more than a float can hold

# One value of every JSON type; null is the default everywhere, and so no wrong type.
JSON_VALUES = {
    "boolean": True,
    "integer": 7,
    "real": 0.5,
    "text": "secret-value",
    "list": ["secret-value"],
    "object": {"secret-key": "secret-value"},
}


def normalize_name(name: str) -> str:
    """Normalise as the framework does."""
    return re.sub(r"\W", "_", name.strip().lower())


def parse(raw: object) -> Configuration:
    return configuration.parse(raw, normalize_name=normalize_name)


def refused(raw: object) -> InvalidConfiguration:
    with pytest.raises(InvalidConfiguration) as caught:
        parse(raw)
    assert caught.value.reason is Reason.INVALID_CONFIGURATION
    assert caught.value.sub_reason is None
    return caught.value


def problems(raw: object) -> list[tuple[str, Problem]]:
    return list(refused(raw).problems)


# Defaults


def test_an_empty_file_means_the_documented_defaults() -> None:
    assert parse({}) == Configuration(
        protected_servers={},
        policy=Policy(
            required_proven=(Check.ENDPOINT_REACHABLE, Check.PROTOCOL_HANDSHAKE),
            tolerate_unknown_required=False,
            on_caution=OnCaution.DENY,
            on_unavailable=OnUnavailable.DENY,
        ),
        timeout_seconds=5.0,
        cache_ttl_seconds=300.0,
        allow_private_hosts=False,
        fixture_guild_origin=None,
    )


def test_the_shipped_file_states_every_setting_with_its_default() -> None:
    shipped = yaml.safe_load(SHIPPED_FILE.read_text(encoding="utf-8"))

    assert parse(shipped) == Configuration()
    assert shipped.keys() == Configuration.__dataclass_fields__.keys()
    assert shipped["policy"].keys() == Policy.__dataclass_fields__.keys()
    changed = {**shipped, "policy": dict.fromkeys(shipped["policy"])}
    assert parse(changed) == Configuration()


def test_null_means_the_default() -> None:
    shipped = dict.fromkeys(Configuration.__dataclass_fields__)

    assert parse(shipped) == Configuration()
    assert parse({"policy": dict.fromkeys(Policy.__dataclass_fields__)}) == Configuration()


# Each setting's good values


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"timeout_seconds": 15}, {"timeout_seconds": 15.0}),
        ({"timeout_seconds": 15.0}, {"timeout_seconds": 15.0}),
        ({"timeout_seconds": 0.001}, {"timeout_seconds": 0.001}),
        ({"timeout_seconds": 5e-324}, {"timeout_seconds": 5e-324}),
        ({"cache_ttl_seconds": 0}, {"cache_ttl_seconds": 0.0}),
        ({"cache_ttl_seconds": 0.0}, {"cache_ttl_seconds": 0.0}),
        ({"cache_ttl_seconds": 0.5}, {"cache_ttl_seconds": 0.5}),
        ({"cache_ttl_seconds": 86400}, {"cache_ttl_seconds": 86400.0}),
        ({"allow_private_hosts": True}, {"allow_private_hosts": True}),
        ({"allow_private_hosts": False}, {"allow_private_hosts": False}),
    ],
)
def test_good_values(raw: dict[str, object], expected: dict[str, object]) -> None:
    assert parse(raw) == Configuration(**expected)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"required_proven": []}, {"required_proven": ()}),
        (
            {"required_proven": ["independent_evidence", "endpoint_reachable"]},
            {"required_proven": (Check.INDEPENDENT_EVIDENCE, Check.ENDPOINT_REACHABLE)},
        ),
        ({"required_proven": [check.value for check in Check]}, {"required_proven": tuple(Check)}),
        ({"tolerate_unknown_required": True}, {"tolerate_unknown_required": True}),
        ({"on_caution": "deny"}, {"on_caution": OnCaution.DENY}),
        ({"on_caution": "allow"}, {"on_caution": OnCaution.ALLOW}),
        ({"on_unavailable": "deny"}, {"on_unavailable": OnUnavailable.DENY}),
        (
            {"on_unavailable": "allow_unreachable"},
            {"on_unavailable": OnUnavailable.ALLOW_UNREACHABLE},
        ),
        ({"on_unavailable": "allow"}, {"on_unavailable": OnUnavailable.ALLOW}),
    ],
)
def test_good_policies(raw: dict[str, object], expected: dict[str, object]) -> None:
    assert parse({"policy": raw}).policy == Policy(**expected)


def test_protected_servers_are_kept_under_their_normalised_names_with_untouched_urls() -> None:
    raw = {" My-Server ": " HTTPS://Example.com ", "b\xe4r": ""}

    assert parse({"protected_servers": raw}).protected_servers == {
        "my_server": " HTTPS://Example.com ",
        "b\xe4r": "",
    }


# Wrong types and limits

WRONG_TYPE = {
    "protected_servers": (Problem.NOT_AN_OBJECT, {"object"}),
    "policy": (Problem.NOT_AN_OBJECT, {"object"}),
    "timeout_seconds": (Problem.NOT_A_NUMBER, {"integer", "real"}),
    "cache_ttl_seconds": (Problem.NOT_A_NUMBER, {"integer", "real"}),
    "allow_private_hosts": (Problem.NOT_BOOLEAN, {"boolean"}),
    "fixture_guild_origin": (Problem.NOT_LOCAL_ORIGIN, set()),
    "policy.required_proven": (Problem.NOT_CHECK_NAMES, set()),
    "policy.tolerate_unknown_required": (Problem.NOT_BOOLEAN, {"boolean"}),
    "policy.on_caution": (Problem.NOT_A_CHOICE, set()),
    "policy.on_unavailable": (Problem.NOT_A_CHOICE, set()),
}


@pytest.mark.parametrize("kind", JSON_VALUES)
@pytest.mark.parametrize("path", WRONG_TYPE)
def test_every_other_json_type_is_a_problem_that_shows_no_value(path: str, kind: str) -> None:
    problem, right_kinds = WRONG_TYPE[path]
    section, _, key = path.rpartition(".")
    raw = {key: JSON_VALUES[kind]}

    if kind in right_kinds:
        return
    error = refused({section: raw} if section else raw)

    assert error.problems == ((path, problem),)
    assert "secret" not in f"{error!s} {error!r} {error.problems}"


def test_wrong_type_table_names_every_setting() -> None:
    names = set(Configuration.__dataclass_fields__)
    names |= {f"policy.{name}" for name in Policy.__dataclass_fields__}

    assert set(WRONG_TYPE) == names


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("timeout_seconds", 0, Problem.OUT_OF_RANGE),
        ("timeout_seconds", 0.0, Problem.OUT_OF_RANGE),
        ("timeout_seconds", -0.0, Problem.OUT_OF_RANGE),
        ("timeout_seconds", -1, Problem.OUT_OF_RANGE),
        ("timeout_seconds", 15.000001, Problem.OUT_OF_RANGE),
        ("timeout_seconds", 16, Problem.OUT_OF_RANGE),
        ("timeout_seconds", HUGE, Problem.OUT_OF_RANGE),
        ("timeout_seconds", -HUGE, Problem.OUT_OF_RANGE),
        ("timeout_seconds", INFINITY, Problem.OUT_OF_RANGE),
        ("timeout_seconds", NAN, Problem.NOT_A_NUMBER),
        ("timeout_seconds", "5", Problem.NOT_A_NUMBER),
        ("timeout_seconds", False, Problem.NOT_A_NUMBER),
        ("cache_ttl_seconds", -1, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", -0.001, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", 86400.001, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", 86401, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", HUGE, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", INFINITY, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", -INFINITY, Problem.OUT_OF_RANGE),
        ("cache_ttl_seconds", NAN, Problem.NOT_A_NUMBER),
        ("cache_ttl_seconds", False, Problem.NOT_A_NUMBER),
        ("allow_private_hosts", "false", Problem.NOT_BOOLEAN),
        ("allow_private_hosts", 0, Problem.NOT_BOOLEAN),
        ("allow_private_hosts", 1, Problem.NOT_BOOLEAN),
        ("allow_private_hosts", "", Problem.NOT_BOOLEAN),
    ],
)
def test_limits_and_near_misses(path: str, value: object, problem: Problem) -> None:
    assert problems({path: value}) == [(path, problem)]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("tolerate_unknown_required", "true", Problem.NOT_BOOLEAN),
        ("tolerate_unknown_required", 0, Problem.NOT_BOOLEAN),
        ("on_caution", "Allow", Problem.NOT_A_CHOICE),
        ("on_caution", "allow ", Problem.NOT_A_CHOICE),
        ("on_caution", "", Problem.NOT_A_CHOICE),
        ("on_caution", "allow_unreachable", Problem.NOT_A_CHOICE),
        ("on_caution", False, Problem.NOT_A_CHOICE),
        ("on_unavailable", "ALLOW", Problem.NOT_A_CHOICE),
        ("on_unavailable", "allow-unreachable", Problem.NOT_A_CHOICE),
        ("on_unavailable", True, Problem.NOT_A_CHOICE),
        ("on_unavailable", ["allow"], Problem.NOT_A_CHOICE),
        ("required_proven", "endpoint_reachable", Problem.NOT_CHECK_NAMES),
        ("required_proven", {"endpoint_reachable": True}, Problem.NOT_CHECK_NAMES),
        ("required_proven", ["endpoint_reachable"] * 2, Problem.NOT_CHECK_NAMES),
        ("required_proven", ["endpoint_reachable", "no_such_check"], Problem.NOT_CHECK_NAMES),
        ("required_proven", ["Endpoint_Reachable"], Problem.NOT_CHECK_NAMES),
        ("required_proven", ["endpoint_reachable "], Problem.NOT_CHECK_NAMES),
        ("required_proven", [None], Problem.NOT_CHECK_NAMES),
        ("required_proven", [["endpoint_reachable"]], Problem.NOT_CHECK_NAMES),
        ("required_proven", [{}], Problem.NOT_CHECK_NAMES),
        ("required_proven", [NAN], Problem.NOT_CHECK_NAMES),
    ],
)
def test_policy_near_misses(key: str, value: object, problem: Problem) -> None:
    assert problems({"policy": {key: value}}) == [(f"policy.{key}", problem)]


@pytest.mark.parametrize("raw", [None, [], [{}], "", "text", 0, 1.5, True, False, NAN])
def test_a_file_that_is_no_object_is_no_configuration(raw: object) -> None:
    error = refused(raw)

    assert error.problems == (("", Problem.NOT_AN_OBJECT),)
    assert error.protected is None


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"protected_server": {}}, "protected_server"),
        ({"Policy": {}}, "Policy"),
        ({"timeout": 5}, "timeout"),
        ({"timeout_seconds ": 5}, "timeout_seconds "),
        ({"": 5}, ""),
        ({"on_caution": "deny"}, "on_caution"),
        ({1: 2}, "1"),
        ({None: 2}, "None"),
        ({"unknown": None}, "unknown"),
        ({"policy": {"on_cautions": "deny"}}, "policy.on_cautions"),
        ({"policy": {"timeout_seconds": 5}}, "policy.timeout_seconds"),
        ({"policy": {7: 5}}, "policy.7"),
        ({"policy": {"unknown": None}}, "policy.unknown"),
    ],
)
def test_a_key_that_is_no_setting_is_a_problem_at_every_level(raw: object, path: str) -> None:
    assert problems(raw) == [(path, Problem.UNKNOWN_KEY)]


# The local service

LOCAL = ["http://127.0.0.1:1", "http://127.0.0.1:8080", "http://[::1]:65535", "http://[::1]:9000"]
NOT_LOCAL = [
    "",
    "http://127.0.0.1",
    "http://[::1]",
    "http://127.0.0.1:",
    "http://127.0.0.1:0",
    "http://127.0.0.1:08080",
    "http://127.0.0.1:65536",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:123456",
    "http://127.0.0.1:\uff18080",
    "http://127.0.0.1:8080/",
    "http://127.0.0.1:8080/preflight",
    "http://127.0.0.1:8080?",
    "http://127.0.0.1:8080#",
    "http://127.0.0.1:8080\n",
    " http://127.0.0.1:8080",
    "http://127.0.0.1:8080@evil.example",
    "http://user@127.0.0.1:8080",
    "http://127.0.0.1:80a",
    "http://127.0.0.1.evil.example:8080",
    "http://127-0-0-1:8080",
    "http://127.0.0.2:8080",
    "http://127.1:8080",
    "http://0.0.0.0:8080",
    "http://localhost:8080",
    "http://::1:8080",
    "http://[::1%lo]:8080",
    "http://[0:0:0:0:0:0:0:1]:8080",
    "http://[::ffff:127.0.0.1]:8080",
    "https://127.0.0.1:8080",
    "HTTP://127.0.0.1:8080",
    "//127.0.0.1:8080",
    "127.0.0.1:8080",
    "https://example.com",
]


@pytest.mark.parametrize("origin", LOCAL)
def test_a_loopback_origin_is_a_local_service(origin: str) -> None:
    assert parse({"fixture_guild_origin": origin}).fixture_guild_origin == origin
    assert configuration.local_origin({"fixture_guild_origin": origin, "typo": 1}) == origin


@pytest.mark.parametrize("origin", NOT_LOCAL)
def test_any_other_origin_is_none(origin: str) -> None:
    raw = {"fixture_guild_origin": origin}

    assert problems(raw) == [("fixture_guild_origin", Problem.NOT_LOCAL_ORIGIN)]
    assert configuration.local_origin(raw) is None


@pytest.mark.parametrize(
    "raw", [None, [], "http://127.0.0.1:1", {}, {"fixture_guild_origin": 1}, {"other": LOCAL[0]}]
)
def test_a_file_without_an_origin_names_no_local_service(raw: object) -> None:
    assert configuration.local_origin(raw) is None


# Protected names

URL = "https://example.com/"


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ({"my-server": URL, "my_server": URL}, [("my_server", Problem.NAME_TWICE)]),
        ({"A": URL, " a ": URL}, [(" a ", Problem.NAME_TWICE)]),
        ({"a.b": URL, "a b": URL, "A/B": URL}, [("a b", "twice"), ("A/B", "twice")]),
        ({"": URL}, [("", Problem.NAME_UNUSABLE)]),
        ({" \t": URL}, [(" \\t", Problem.NAME_UNUSABLE)]),
        ({"a" * 129: URL}, [("a" * 59 + "...", Problem.NAME_UNUSABLE)]),
        ({"a": 1}, [("a", Problem.NOT_TEXT)]),
        ({"a": None}, [("a", Problem.NOT_TEXT)]),
        ({"a": {"url": URL}}, [("a", Problem.NOT_TEXT)]),
        ({"a": [URL], "b": True}, [("a", Problem.NOT_TEXT), ("b", Problem.NOT_TEXT)]),
    ],
)
def test_unusable_protected_servers(
    servers: dict[str, object], found: list[tuple[str, object]]
) -> None:
    expected = [
        (f"protected_servers.{name}", Problem.NAME_TWICE if problem == "twice" else problem)
        for name, problem in found
    ]

    assert problems({"protected_servers": servers}) == expected


def test_the_longest_name_is_usable() -> None:
    assert parse({"protected_servers": {"a" * 128: URL}}).protected_servers == {"a" * 128: URL}


@pytest.mark.parametrize(
    ("raw", "protected"),
    [
        # Nobody can tell.
        ({"typo": 1}, None),
        ({"protected_servers": None, "typo": 1}, None),
        ({"protected_servers": []}, None),
        ({"protected_servers": "a"}, None),
        ({"protected_servers": {1: URL}}, None),
        ({"protected_servers": {"a": URL, None: URL}}, None),
        # The names are readable, whatever else is wrong.
        ({"protected_servers": {}, "typo": 1}, set()),
        ({"protected_servers": {"My Server": URL}, "typo": 1}, {"my_server"}),
        ({"protected_servers": {"a": URL, "b": URL}, "policy": []}, {"a", "b"}),
        ({"protected_servers": {"a": URL}, "timeout_seconds": -1}, {"a"}),
        ({"protected_servers": {"a": 1, "b": URL}}, {"a", "b"}),
        ({"protected_servers": {"A": URL, "a": URL}}, {"a", "a (1)"}),
    ],
)
def test_what_is_protected_while_the_settings_are_invalid(
    raw: object, protected: set[str] | None
) -> None:
    found = refused(raw).protected

    assert (None if found is None else set(found)) == protected


def test_readable_urls_stay_approved_while_the_settings_are_invalid() -> None:
    error = refused({"protected_servers": {"a": URL, "b": 7}, "typo": 1})

    assert error.protected == {"a": URL, "b": ""}


# Reporting


def test_all_problems_are_reported_together() -> None:
    raw = {
        "typo": 1,
        "protected_servers": {"a": 1, "A": URL},
        "policy": {
            "typo": 1,
            "required_proven": "all",
            "tolerate_unknown_required": "yes",
            "on_caution": "maybe",
            "on_unavailable": "maybe",
        },
        "timeout_seconds": 0,
        "cache_ttl_seconds": "1",
        "allow_private_hosts": "no",
        "fixture_guild_origin": "https://example.com",
    }

    found = problems(raw)

    assert problems(raw) == found
    assert sorted(found) == sorted(
        [
            ("typo", Problem.UNKNOWN_KEY),
            ("protected_servers.a", Problem.NOT_TEXT),
            ("protected_servers.A", Problem.NAME_TWICE),
            ("policy.typo", Problem.UNKNOWN_KEY),
            ("policy.required_proven", Problem.NOT_CHECK_NAMES),
            ("policy.tolerate_unknown_required", Problem.NOT_BOOLEAN),
            ("policy.on_caution", Problem.NOT_A_CHOICE),
            ("policy.on_unavailable", Problem.NOT_A_CHOICE),
            ("timeout_seconds", Problem.OUT_OF_RANGE),
            ("cache_ttl_seconds", Problem.NOT_A_NUMBER),
            ("allow_private_hosts", Problem.NOT_BOOLEAN),
            ("fixture_guild_origin", Problem.NOT_LOCAL_ORIGIN),
        ]
    )


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("a\x1b[31m", "a\\x1b[31m"),
        ("\x00\x7f\x85", "\\x00\\x7f\\x85"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\U0001f600", "\\U0001f600"),
        ("a" * 80, "a" * 80),
        ("a" * 81, "a" * 77 + "..."),
        ("a" * 100_000, "a" * 77 + "..."),
    ],
)
def test_a_key_is_shown_printable_and_cut_to_size(key: str, shown: str) -> None:
    assert problems({key: 1}) == [(shown, Problem.UNKNOWN_KEY)]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["deny", "allow", "endpoint_reachable"])
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
any_files = st.dictionaries(
    st.sampled_from([*Configuration.__dataclass_fields__, "typo", "\x1b"]), json_values, max_size=5
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(any_files)
def test_any_file_is_read_or_refused_with_printable_paths(raw: dict[str, object]) -> None:
    shown = ""
    try:
        parse(raw)
    except InvalidConfiguration as error:
        shown = "".join(path for path, _ in error.problems)

    assert shown.isascii()
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"timeout_seconds": 1}, {"timeout_seconds": True}),
        ({"cache_ttl_seconds": 0}, {"cache_ttl_seconds": False}),
        ({"cache_ttl_seconds": 0.0}, {"cache_ttl_seconds": False}),
        ({"allow_private_hosts": True}, {"allow_private_hosts": 1}),
        (
            {"policy": {"tolerate_unknown_required": False}},
            {"policy": {"tolerate_unknown_required": 0}},
        ),
    ],
)
def test_what_was_read_before_is_not_taken_for_its_equal(good, bad):
    """Python holds 1, 1.0 and true for equal; the settings do not, in whatever order they come."""
    assert good == bad
    for _ in range(2):
        assert parse(good) == parse(good)
        refused(bad)


def test_what_was_read_before_cannot_be_changed():
    with pytest.raises(TypeError):
        parse({"protected_servers": {"weather": "x"}}).protected_servers["weather"] = "y"
    assert parse({"protected_servers": {"weather": "x"}}).protected_servers == {"weather": "x"}


def endless():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [endless(), object(), {1}, date(2026, 11, 30)], ids=type)
def test_values_of_no_plain_kind(value):
    """YAML has dates and sets, and a plugin may hand anything over; none is a setting."""
    error = refused({"protected_servers": {}, "timeout_seconds": value, "policy": value})
    assert [path for path, _ in error.problems] == ["policy", "timeout_seconds"]
