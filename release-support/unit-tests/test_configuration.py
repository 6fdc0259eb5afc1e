"""The settings: every default, limit, wrong type and typo, and what is protected meanwhile."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.binding.approval import Approval
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import Check
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason
from usr.plugins.agent_guild_preflight.helpers.requirements import (
    OnCaution,
    OnUnavailable,
    Policy,
    Requirements,
)
from usr.plugins.agent_guild_preflight.helpers.settings import files, reader
from usr.plugins.agent_guild_preflight.helpers.settings.configuration import Configuration
from usr.plugins.agent_guild_preflight.helpers.settings.problems import (
    InvalidConfiguration,
    Problem,
)

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


def parse(raw: object, **where: bool) -> Configuration:
    return reader.parse(raw, normalize_name=normalize_name, **where)


def refused(raw: object, **where: bool) -> InvalidConfiguration:
    with pytest.raises(InvalidConfiguration) as caught:
        parse(raw, **where)
    assert caught.value.reason is Reason.INVALID_CONFIGURATION
    assert caught.value.sub_reason is None
    return caught.value


def problems(raw: object, **where: bool) -> list[tuple[str, Problem]]:
    return list(refused(raw, **where).problems)


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
        floor=False,
    )


def test_the_shipped_file_states_every_setting_with_its_default() -> None:
    shipped = yaml.safe_load(SHIPPED_FILE.read_text(encoding="utf-8"))

    assert parse(shipped) == Configuration()
    assert shipped.keys() == Configuration.__dataclass_fields__.keys()
    assert shipped["policy"].keys() == Policy.__dataclass_fields__.keys()
    changed = {**shipped, "policy": dict.fromkeys(shipped["policy"])}
    assert parse(changed) == Configuration()
    assert parse(shipped, is_global=False) == Configuration()


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
        ({"timeout_seconds": 0.1}, {"timeout_seconds": 0.1}),
        ({"cache_ttl_seconds": 0}, {"cache_ttl_seconds": 0.0}),
        ({"cache_ttl_seconds": 0.0}, {"cache_ttl_seconds": 0.0}),
        ({"cache_ttl_seconds": 0.5}, {"cache_ttl_seconds": 0.5}),
        ({"cache_ttl_seconds": 86400}, {"cache_ttl_seconds": 86400.0}),
        ({"allow_private_hosts": True}, {"allow_private_hosts": True}),
        ({"allow_private_hosts": False}, {"allow_private_hosts": False}),
        ({"floor": True}, {"floor": True}),
        ({"floor": False}, {"floor": False}),
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
        "my_server": Approval("my_server", " HTTPS://Example.com ", None),
        "b\xe4r": Approval("b\xe4r", "", None),
    }


# Wrong types and limits

WRONG_TYPE = {
    "protected_servers": (Problem.NOT_AN_OBJECT, {"object"}),
    "policy": (Problem.NOT_AN_OBJECT, {"object"}),
    "timeout_seconds": (Problem.NOT_A_NUMBER, {"integer", "real"}),
    "cache_ttl_seconds": (Problem.NOT_A_NUMBER, {"integer", "real"}),
    "allow_private_hosts": (Problem.NOT_BOOLEAN, {"boolean"}),
    "fixture_guild_origin": (Problem.NOT_LOCAL_ORIGIN, set()),
    "floor": (Problem.NOT_BOOLEAN, {"boolean"}),
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
        ("timeout_seconds", 1e-9, Problem.OUT_OF_RANGE),
        ("timeout_seconds", 0.0999, Problem.OUT_OF_RANGE),
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
        ("floor", "true", Problem.NOT_BOOLEAN),
        ("floor", "", Problem.NOT_BOOLEAN),
        ("floor", 0, Problem.NOT_BOOLEAN),
        ("floor", 1, Problem.NOT_BOOLEAN),
        ("floor", 1.0, Problem.NOT_BOOLEAN),
        ("floor", NAN, Problem.NOT_BOOLEAN),
        ("floor", [], Problem.NOT_BOOLEAN),
        ("floor", {}, Problem.NOT_BOOLEAN),
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
    assert error.protected_servers is None


@pytest.mark.parametrize("is_global", [True, False])
def test_a_file_that_its_loader_cannot_read_is_no_configuration(is_global: bool) -> None:
    error = refused(files.UNREADABLE, is_global=is_global)

    assert error.problems == (("", Problem.UNREADABLE),)
    assert error.protected_servers is None


@pytest.mark.parametrize("value", [True, False, "x", "", 0, 1, 0.5, [], {}])
def test_a_floor_counts_in_the_global_file_only(value: object) -> None:
    """Its type is no matter: where it stands is what is wrong."""
    raw = {"floor": value, "protected_servers": {"a": URL}}
    error = refused(raw, is_global=False)

    assert error.problems == (("floor", Problem.FLOOR_ELSEWHERE),)
    assert error.protected_servers == {"a": Approval("a", URL)}
    assert problems({"floor": value, "typo": 1}, is_global=False) == [
        ("typo", Problem.UNKNOWN_KEY),
        ("floor", Problem.FLOOR_ELSEWHERE),
    ]


def test_a_floor_elsewhere_that_is_null_is_none() -> None:
    assert parse({"floor": None}, is_global=False) == Configuration()
    assert parse({"timeout_seconds": 1}, is_global=False) == Configuration(timeout_seconds=1.0)


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
    assert reader.local_origin({"fixture_guild_origin": origin, "typo": 1}) == origin


@pytest.mark.parametrize("origin", NOT_LOCAL)
def test_any_other_origin_is_none(origin: str) -> None:
    raw = {"fixture_guild_origin": origin}

    assert problems(raw) == [("fixture_guild_origin", Problem.NOT_LOCAL_ORIGIN)]
    assert reader.local_origin(raw) is None


@pytest.mark.parametrize(
    "raw", [None, [], "http://127.0.0.1:1", {}, {"fixture_guild_origin": 1}, {"other": LOCAL[0]}]
)
def test_a_file_without_an_origin_names_no_local_service(raw: object) -> None:
    assert reader.local_origin(raw) is None


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
        ({"a": {"url": URL}, "A": {"url": URL}}, [("A", Problem.NAME_TWICE)]),
        ({"": {"url": URL}}, [("", Problem.NAME_UNUSABLE)]),
        ({"a": 1}, [("a", Problem.NOT_A_SERVER)]),
        ({"a": 0.5}, [("a", Problem.NOT_A_SERVER)]),
        ({"a": None}, [("a", Problem.NOT_A_SERVER)]),
        ({"a": [{"url": URL}]}, [("a", Problem.NOT_A_SERVER)]),
        ({"a": [URL], "b": True}, [("a", Problem.NOT_A_SERVER), ("b", Problem.NOT_A_SERVER)]),
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


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, None),
        ([], frozenset()),
        (["authorization"], frozenset({"authorization"})),
        (["Authorization", "X_API.Key"], frozenset({"authorization", "x-api-key"})),
    ],
)
def test_the_headers_that_a_server_gets_are_read_folded(
    headers: object, expected: frozenset[str] | None
) -> None:
    servers = {"a": {"url": URL, "headers": headers}}

    assert parse({"protected_servers": servers}).protected_servers == {
        "a": Approval("a", URL, None, expected)
    }


@pytest.mark.parametrize(
    "headers",
    [
        "authorization",
        {"authorization": True},
        True,
        0,
        [1],
        [None],
        [["authorization"]],
        [""],
        ["-"],
        [" authorization"],
        ["authorization:"],
        ["author ization"],
        ["X-\u00c4"],
        ["authorization", "Authorization"],
        ["x-key", "x_key"],
    ],
)
def test_headers_that_are_no_names(headers: object) -> None:
    """Until that is mended, none is permitted."""
    raw = {"protected_servers": {"a": {"url": URL, "headers": headers}}}

    assert problems(raw) == [("protected_servers.a.headers", Problem.NOT_HEADER_NAMES)]
    assert refused(raw).protected_servers == {"a": Approval("a", URL, None, frozenset())}


def test_the_longest_name_is_usable() -> None:
    name = "a" * 128

    assert parse({"protected_servers": {name: URL}}).protected_servers == {
        name: Approval(name, URL)
    }


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
        ({"protected_servers": {"a": None, "b": {}, "c": {"typo": 1}}}, {"a", "b", "c"}),
    ],
)
def test_what_is_protected_while_the_settings_are_invalid(
    raw: object, protected: set[str] | None
) -> None:
    found = refused(raw).protected_servers

    assert (None if found is None else set(found)) == protected


def test_readable_urls_stay_approved_while_the_settings_are_invalid() -> None:
    error = refused({"protected_servers": {"a": URL, "b": 7}, "typo": 1})

    assert error.protected_servers == {"a": Approval("a", URL), "b": Approval("b", "")}


def test_both_urls_of_a_name_stay_approved() -> None:
    other = {"url": "https://other.example/", "tools": {}}
    error = refused({"protected_servers": {"A": URL, "a": other, " a ": 7}})

    assert error.protected_servers == {
        "a": Approval("a", URL),
        "a (1)": Approval("a (1)", "https://other.example/", {}),
        "a (2)": Approval("a (2)", ""),
    }


# A server with pinned tools

DIGEST = "sha256:" + "0123456789abcdef" * 4
OTHER_DIGEST = "sha256:" + "f" * 64


@pytest.mark.parametrize(
    ("server", "pins"),
    [
        ({}, None),
        ({"tools": None}, None),
        ({"tools": {}}, {}),
        ({"tools": {"forecast": DIGEST}}, {"forecast": DIGEST}),
        (
            {
                "tools": {
                    "forecast": DIGEST,
                    "Forecast": OTHER_DIGEST,
                    " a.b:c\n": DIGEST,
                    "": DIGEST,
                }
            },
            {"forecast": DIGEST, "Forecast": OTHER_DIGEST, " a.b:c\n": DIGEST, "": DIGEST},
        ),
    ],
)
def test_a_server_may_be_an_object(server: dict[str, object], pins: object) -> None:
    """No table pins nothing, an empty one pins every tool; names of tools are left as they are."""
    raw = {"protected_servers": {"My-Server": {"url": " HTTPS://Example.com ", **server}, "b": URL}}

    found = parse(raw).protected_servers

    assert found == {
        "my_server": Approval("my_server", " HTTPS://Example.com ", pins),
        "b": Approval("b", URL, None),
    }
    assert (found["my_server"].pins is None) is (pins is None)


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ({}, [(".url", Problem.NOT_TEXT)]),
        ({"url": None}, [(".url", Problem.NOT_TEXT)]),
        ({"url": 7}, [(".url", Problem.NOT_TEXT)]),
        ({"url": 0.5}, [(".url", Problem.NOT_TEXT)]),
        ({"url": True}, [(".url", Problem.NOT_TEXT)]),
        ({"url": [URL]}, [(".url", Problem.NOT_TEXT)]),
        ({"url": {"url": URL}}, [(".url", Problem.NOT_TEXT)]),
        ({"tools": {}}, [(".url", Problem.NOT_TEXT)]),
        ({"URL": URL}, [(".URL", Problem.UNKNOWN_KEY), (".url", Problem.NOT_TEXT)]),
        ({"url": URL, "Tools": {}}, [(".Tools", Problem.UNKNOWN_KEY)]),
        ({"url": URL, "tools ": {}}, [(".tools ", Problem.UNKNOWN_KEY)]),
        ({"url": URL, "pins": None}, [(".pins", Problem.UNKNOWN_KEY)]),
        (
            {"url": URL, "allow_private_hosts": True},
            [(".allow_private_hosts", Problem.UNKNOWN_KEY)],
        ),
        ({"url": URL, "floor": None}, [(".floor", Problem.UNKNOWN_KEY)]),
        ({"url": URL, "on_caution": "allow"}, [(".on_caution", Problem.UNKNOWN_KEY)]),
        ({"url": URL, "": 1}, [(".", Problem.UNKNOWN_KEY)]),
        ({"url": URL, 1: 1}, [(".1", Problem.UNKNOWN_KEY)]),
        ({"url": URL, None: 1}, [(".None", Problem.UNKNOWN_KEY)]),
        ({"url": URL, "tools": "secret"}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": ""}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": DIGEST}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": ["forecast"]}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": []}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": 0}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": 0.5}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": True}, [(".tools", Problem.NOT_AN_OBJECT)]),
        ({"url": URL, "tools": False}, [(".tools", Problem.NOT_AN_OBJECT)]),
        (
            {"tools": {"forecast": "secret"}, "typo": 1},
            [
                (".typo", Problem.UNKNOWN_KEY),
                (".url", Problem.NOT_TEXT),
                (".tools.forecast", Problem.NOT_A_DIGEST),
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_server_is_named_by_its_path(
    server: dict[object, object], found: list[tuple[str, Problem]]
) -> None:
    error = refused({"protected_servers": {"My-Server": server, "b": URL}})

    assert error.problems == tuple(
        (f"protected_servers.My-Server{path}", problem) for path, problem in found
    )
    assert "secret" not in f"{error!s} {error!r} {error.problems}"


# A server with requirements of its own

TOP = {
    "policy": {"required_proven": ["independent_evidence"], "on_caution": "allow"},
    "timeout_seconds": 2,
}
OF_TOP = Requirements(
    Policy(required_proven=(Check.INDEPENDENT_EVIDENCE,), on_caution=OnCaution.ALLOW),
    timeout_seconds=2.0,
)


@pytest.mark.parametrize("nothing", [{}, None])
@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"timeout_seconds": 7}, replace(OF_TOP, timeout_seconds=7.0)),
        ({"timeout_seconds": 0.1}, replace(OF_TOP, timeout_seconds=0.1)),
        ({"cache_ttl_seconds": 0}, replace(OF_TOP, cache_ttl_seconds=0.0)),
        ({"timeout_seconds": 5}, replace(OF_TOP, timeout_seconds=5.0)),
        *(
            (
                {"policy": {key: written}},
                replace(OF_TOP, policy=replace(OF_TOP.policy, **{key: read})),
            )
            for key, written, read in (
                ("required_proven", [], ()),
                ("required_proven", ["endpoint_reachable"], (Check.ENDPOINT_REACHABLE,)),
                ("tolerate_unknown_required", True, True),
                ("on_caution", "deny", OnCaution.DENY),
                ("on_unavailable", "allow", OnUnavailable.ALLOW),
            )
        ),
        (
            {
                "policy": {"on_caution": "deny", "on_unavailable": None},
                "timeout_seconds": None,
                "cache_ttl_seconds": 60,
            },
            Requirements(
                replace(OF_TOP.policy, on_caution=OnCaution.DENY),
                timeout_seconds=2.0,
                cache_ttl_seconds=60.0,
            ),
        ),
    ],
)
def test_what_an_entry_leaves_out_comes_from_the_top_level_key_by_key(
    own: dict[str, Any], expected: Requirements, nothing: object
) -> None:
    servers = {
        "own": {"url": URL, **own},
        "none": {"url": URL, "policy": nothing},
        "short": URL,
    }

    found = parse({"protected_servers": servers, **TOP})

    assert found.protected_servers["own"].requirements == expected
    assert found.requirements == OF_TOP
    for name in ("none", "short"):
        assert found.protected_servers[name] == Approval(name, URL)


OF_ENTRY = [path for path in WRONG_TYPE if path.split(".")[0] in Requirements.__dataclass_fields__]


@pytest.mark.parametrize("kind", JSON_VALUES)
@pytest.mark.parametrize("path", OF_ENTRY)
def test_every_other_json_type_in_an_entry_is_a_problem_with_its_path(path: str, kind: str) -> None:
    problem, right_kinds = WRONG_TYPE[path]
    section, _, key = path.rpartition(".")
    raw = {key: JSON_VALUES[kind]}

    if kind in right_kinds:
        return
    entry = {"url": URL, **({section: raw} if section else raw)}

    error = refused({"protected_servers": {"My-Server": entry}})

    assert error.problems == ((f"protected_servers.My-Server.{path}", problem),)
    assert "secret" not in f"{error!s} {error!r} {error.problems}"


@pytest.mark.parametrize(
    ("own", "path", "problem"),
    [
        ({"policy": {"on_caution": "Allow"}}, "policy.on_caution", Problem.NOT_A_CHOICE),
        ({"policy": {"on_unavailable": 1}}, "policy.on_unavailable", Problem.NOT_A_CHOICE),
        ({"policy": {"required_proven": ["x"]}}, "policy.required_proven", Problem.NOT_CHECK_NAMES),
        ({"policy": {"timeout_seconds": 1}}, "policy.timeout_seconds", Problem.UNKNOWN_KEY),
        ({"policy": {"on_cauton": "deny"}}, "policy.on_cauton", Problem.UNKNOWN_KEY),
        ({"timeout_seconds": 0.09}, "timeout_seconds", Problem.OUT_OF_RANGE),
        ({"timeout_seconds": 15.1}, "timeout_seconds", Problem.OUT_OF_RANGE),
        ({"timeout_seconds": HUGE}, "timeout_seconds", Problem.OUT_OF_RANGE),
        ({"timeout_seconds": NAN}, "timeout_seconds", Problem.NOT_A_NUMBER),
        ({"cache_ttl_seconds": -1}, "cache_ttl_seconds", Problem.OUT_OF_RANGE),
        ({"cache_ttl_seconds": 86401}, "cache_ttl_seconds", Problem.OUT_OF_RANGE),
    ],
)
def test_limits_and_near_misses_in_an_entry(own: object, path: str, problem: Problem) -> None:
    raw = {"protected_servers": {"notes": {"url": URL, **own}}}

    assert problems(raw) == [(f"protected_servers.notes.{path}", problem)]
    assert refused(raw).protected_servers is not None


@pytest.mark.parametrize(
    ("tools", "paths"),
    [
        ({"forecast": None}, ["forecast"]),
        ({"forecast": True}, ["forecast"]),
        ({"forecast": 7}, ["forecast"]),
        ({"forecast": [DIGEST]}, ["forecast"]),
        ({"forecast": {"sha256": DIGEST}}, ["forecast"]),
        ({"forecast": ""}, ["forecast"]),
        ({"forecast": "sha256:"}, ["forecast"]),
        ({"forecast": DIGEST.upper()}, ["forecast"]),
        ({"forecast": DIGEST.removeprefix("sha256:")}, ["forecast"]),
        ({"forecast": DIGEST[:-1]}, ["forecast"]),
        ({"forecast": DIGEST + "0"}, ["forecast"]),
        ({"forecast": DIGEST + "\n"}, ["forecast"]),
        ({"forecast": " " + DIGEST}, ["forecast"]),
        ({"forecast": DIGEST, "a.b\n": "x", "history": OTHER_DIGEST, "": "y"}, ["a.b\\n", ""]),
        ({1: DIGEST}, ["1"]),
        ({None: DIGEST, "forecast": DIGEST, True: "x"}, ["None", "True"]),
        ({"t" * 100: "x"}, ["t" * 45 + "..."]),
    ],
)
def test_every_malformed_digest_is_a_problem(tools: dict[object, object], paths: list[str]) -> None:
    raw = {"protected_servers": {"weather": {"url": URL, "tools": tools}}}

    assert problems(raw) == [
        (f"protected_servers.weather.tools.{path}", Problem.NOT_A_DIGEST) for path in paths
    ]


@pytest.mark.parametrize(
    ("server", "url", "pins"),
    [
        ({"url": URL, "tools": "forecast"}, URL, {}),
        ({"url": URL, "tools": []}, URL, {}),
        ({"url": URL, "tools": False}, URL, {}),
        ({"url": URL, "typo": 1}, URL, None),
        ({"url": URL, "tools": None, "typo": 1}, URL, None),
        ({"url": URL, "tools": {}, "typo": 1}, URL, {}),
        ({"url": URL, "tools": {"forecast": "x"}}, URL, {"forecast": "x"}),
        (
            {"url": URL, "tools": {"forecast": 7, "history": DIGEST}},
            URL,
            {"forecast": 7, "history": DIGEST},
        ),
        ({"tools": {"history": DIGEST}}, "", {"history": DIGEST}),
        ({"url": 7, "tools": {"history": DIGEST}}, "", {"history": DIGEST}),
        ({}, "", None),
    ],
)
def test_a_readable_url_stays_approved_and_broken_pins_never_become_none(
    server: dict[str, object], url: str, pins: object
) -> None:
    """What is no digest equals none; a table that is none pins every tool to nothing."""
    protected = refused({"protected_servers": {"weather": server}}).protected_servers

    assert protected == {"weather": Approval("weather", url, pins)}


def test_the_settings_cannot_be_changed_nor_change_with_what_was_read() -> None:
    tools = {"forecast": DIGEST}
    servers = {"weather": {"url": URL, "tools": tools}}
    found = parse({"protected_servers": servers}).protected_servers
    expected = Approval("weather", URL, {"forecast": DIGEST})

    with pytest.raises(TypeError):
        found["weather"] = Approval("weather", "y")
    with pytest.raises(TypeError):
        found["weather"].pins["forecast"] = OTHER_DIGEST
    tools["forecast"] = OTHER_DIGEST
    servers.clear()
    assert found == {"weather": expected}


# Reporting


def test_all_problems_are_reported_together() -> None:
    raw = {
        "typo": 1,
        "protected_servers": {
            "a": 1,
            "A": URL,
            "b": {
                "url": 1,
                "tools": {"t": 1},
                "headers": 1,
                "typo": 1,
                "policy": {"typo": 1, "on_caution": "maybe"},
                "cache_ttl_seconds": "1",
            },
        },
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
        "floor": "yes",
    }

    found = problems(raw)

    assert problems(raw) == found
    assert sorted(found) == sorted(
        [
            ("typo", Problem.UNKNOWN_KEY),
            ("protected_servers.a", Problem.NOT_A_SERVER),
            ("protected_servers.A", Problem.NAME_TWICE),
            ("protected_servers.b.typo", Problem.UNKNOWN_KEY),
            ("protected_servers.b.url", Problem.NOT_TEXT),
            ("protected_servers.b.tools.t", Problem.NOT_A_DIGEST),
            ("protected_servers.b.headers", Problem.NOT_HEADER_NAMES),
            ("protected_servers.b.policy.typo", Problem.UNKNOWN_KEY),
            ("protected_servers.b.policy.on_caution", Problem.NOT_A_CHOICE),
            ("protected_servers.b.cache_ttl_seconds", Problem.NOT_A_NUMBER),
            ("policy.typo", Problem.UNKNOWN_KEY),
            ("policy.required_proven", Problem.NOT_CHECK_NAMES),
            ("policy.tolerate_unknown_required", Problem.NOT_BOOLEAN),
            ("policy.on_caution", Problem.NOT_A_CHOICE),
            ("policy.on_unavailable", Problem.NOT_A_CHOICE),
            ("timeout_seconds", Problem.OUT_OF_RANGE),
            ("cache_ttl_seconds", Problem.NOT_A_NUMBER),
            ("allow_private_hosts", Problem.NOT_BOOLEAN),
            ("fixture_guild_origin", Problem.NOT_LOCAL_ORIGIN),
            ("floor", Problem.NOT_BOOLEAN),
        ]
    )


def test_every_problem_says_what_is_wrong_and_what_mends_it() -> None:
    """The first is read after the key's path, the second stands alone."""
    members = list(Problem.__members__.values())

    # An enum makes an alias of a repeated value: it would be a member without being listed.
    assert members == list(Problem)
    assert len({problem.remedy for problem in Problem}) == len(Problem)
    for problem in Problem:
        assert problem.isascii() and problem.isprintable()
        assert problem[0].islower() and not problem.endswith(".")
        assert problem.remedy.isascii() and problem.remedy.isprintable()
        assert problem.remedy[0].isupper() and problem.remedy.endswith(".")


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem.OUT_OF_RANGE, ["timeout_seconds 0.1 to 15;", "cache_ttl_seconds 0 to 86400."]),
        (Problem.NOT_A_CHOICE, [*OnCaution, *OnUnavailable]),
        (Problem.NOT_CHECK_NAMES, list(Check)),
        (Problem.NAME_UNUSABLE, ["128"]),
        (Problem.NOT_A_SERVER, ['{"url": "<URL>", "tools": {"<tool>": "sha256:<digest>"}}']),
    ],
)
def test_what_mends_a_value_names_all_that_are_permitted(
    problem: Problem, words: list[str]
) -> None:
    for word in words:
        assert word in problem.remedy


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
servers = st.dictionaries(
    st.text(max_size=4),
    st.dictionaries(st.sampled_from([*reader.SERVER_SETTINGS, "\x1b"]), json_values, max_size=3),
    max_size=2,
)
any_files = st.dictionaries(
    st.sampled_from([*Configuration.__dataclass_fields__, "typo", "\x1b"]),
    json_values | servers,
    max_size=5,
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(any_files, st.booleans())
def test_any_file_is_read_or_refused_with_printable_paths(
    raw: dict[str, object], is_global: bool
) -> None:
    shown = ""
    try:
        parse(raw, is_global=is_global)
    except InvalidConfiguration as error:
        shown = "".join(path for path, _ in error.problems)

    assert shown.isascii()
    assert shown.isprintable()
