"""Headers: which of them may send a call elsewhere, by whatever spelling, and what is kept of them."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.binding import headers as room
from usr.plugins.agent_guild_preflight.helpers.binding.headers import (
    ROUTING_FAMILIES,
    ROUTING_HEADERS,
    folded,
    header_names,
    headers_digest,
    named_hosts,
)

# Written from the documentation of those who follow them; the plugin's own list is not read here.
FOLLOWED = [
    "Host",
    ":authority",
    "Forwarded",
    "X-Forwarded-Host",
    "X-Forwarded-Server",
    "X-Forwarded-Authority",
    "X-Forwarded-For",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Prefix",
    "X-Forwarded-Path",
    "X-Forwarded-Uri",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-Original-Host",
    "X-Original-URL",
    "X-Original-URI",
    "X-Rewrite-URL",
    "X-Real-IP",
    "X-Real-Host",
    "x-envoy-original-dst-host",
    "x-envoy-orignal-dst-host",
    "x-envoy-original-path",
    "l5d-dst-override",
    "l5d-dtab",
    "dtab-local",
    "dapr-app-id",
    "x-kuma-tags",
    "x-apigw-api-id",
    "DISGUISED-HOST",
    "x-ms-routing-name",
    "X-Replaced-Path",
    "SCRIPT_NAME",
    "PATH_INFO",
    "X-Script-Name",
    "$WSSN",
    "X-Cf-App-Instance",
    "X-CF-Forwarded-Url",
    "Cloudflare-Workers-Version-Overrides",
    "Knative-Serving-Revision",
    "Knative-Serving-Tag",
    "fly-force-instance-id",
    "fly-prefer-region",
    "X-Callback-Url",
    "Transfer-Encoding",
    "Content-Length",
    "Upgrade",
]
HARMLESS = [
    "Authorization",
    "X-API-Key",
    "X-Key",
    "X-Team",
    "Accept",
    "User-Agent",
    "Cookie",
    "Mcp-Session-Id",
    "CF-Access-Client-Id",
    "CF-Access-Client-Secret",
    "dapr-api-token",
    "ngrok-skip-browser-warning",
    "X-Goog-User-Project",
    "x-amzn-trace-id",
    "traceparent",
    "X-Realm",
    "X-Originality",
    "Hostess",
    "",
]


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_a_known_server_or_proxy_follows_may_lead_elsewhere(name: str) -> None:
    assert named_hosts({name: " Other.example "}) == ("other.example",)
    assert named_hosts([("Authorization", "x"), (name, "a"), (name, "B")]) == ("a", "b")


@pytest.mark.parametrize("name", HARMLESS)
def test_another_header_does_not(name: str) -> None:
    assert named_hosts({name: "other.example"}) == ()


SPELLINGS = [
    "x-forwarded-host",
    "X_Forwarded_Host",
    "X.Forwarded.Host",
    "X Forwarded Host",
    " X-Forwarded-Host ",
    "X--Forwarded__Host",
    "X-FORWARDED\tHOST",
    ":X-Forwarded-Host",
    "X-Forwarded-Host\r\n",
    "X-Forwarded\x00Host",
    "-x-forwarded-host-",
]


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_name_counts_by_whatever_spelling_a_server_may_fold(name: str) -> None:
    assert named_hosts({name: "other.example"}) == ("other.example",)
    assert named_hosts([(name.encode("latin-1"), b"other.example")]) == ("other.example",)
    assert header_names({name: ""}) == ("x-forwarded-host",)


def test_every_name_of_the_lists_is_folded() -> None:
    """Else it would never be met."""
    for name in (*ROUTING_HEADERS, *ROUTING_FAMILIES):
        assert name == folded(name) != ""


@given(
    st.sampled_from(FOLLOWED),
    st.text(string.punctuation.replace("_", "") + " \t_", min_size=1, max_size=3),
    st.booleans(),
)
def test_any_separator_is_folded(name: str, separator: str, upper: bool) -> None:
    spelled = separator.join(folded(name).split("-"))

    assert folded(spelled.upper() if upper else spelled) == folded(name)


@given(st.text())
def test_folding_twice_is_folding_once(name: str) -> None:
    assert folded(folded(name)) == folded(name)


@pytest.mark.parametrize("headers", [None, {}, [], ()])
def test_no_headers_at_all(headers: Any) -> None:
    assert (named_hosts(headers), header_names(headers), headers_digest(headers)) == ((), (), b"")


def test_names_are_given_once_and_sorted() -> None:
    headers = [("X-B", "1"), ("x_b", "2"), (b"Authorization", b"3")]
    many = {f"X-{number}": "" for number in range(9, 0, -1)}

    assert header_names(headers) == ("authorization", "x-b")
    assert header_names(many) == tuple(f"x-{number}" for number in range(1, 10))


@pytest.mark.parametrize("headers", ["Authorization: x", 5, [["a"]], [1], object()])
def test_what_cannot_be_read_names_another_host(headers: Any) -> None:
    """And is no header that anybody could have approved."""
    assert named_hosts(headers) == ("?",)
    assert header_names(headers) == ("host",)


def test_a_digest_changes_with_any_header_and_tells_nothing() -> None:
    one = headers_digest({"Authorization": "Bearer secret"})
    others = [
        {"Authorization": "Bearer Secret"},
        {"authorization": "Bearer secret"},
        {"Authorization": "Bearer secret", "X": ""},
        {"Authorization": "Bearer secret\ud800"},
        {},
    ]

    assert one == headers_digest([(b"Authorization", b"Bearer secret")])
    assert all(headers_digest(other) != one for other in others)
    assert len(one) == 16
    assert b"secret" not in one


def test_a_digest_means_nothing_outside_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers hold credentials; a digest without a secret of its own would confirm a guess."""
    headers = {"Authorization": "Bearer guessed"}
    digest = headers_digest(headers)
    assert len(room._DIGEST_KEY) == 32
    monkeypatch.setattr(room, "_DIGEST_KEY", b"of another process")
    assert headers_digest(headers) == headers_digest(dict(headers)) != digest
