"""Binding: what is protected, and every way in which a server is not the approved one."""

import pytest
from usr.plugins.agent_guild_preflight.helpers.binding.approval import Approval
from usr.plugins.agent_guild_preflight.helpers.binding.comparison import (
    BindingRefused,
    classify,
    require_approved,
)
from usr.plugins.agent_guild_preflight.helpers.binding.view import ServerView, View
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason

URL = "https://mcp.example.com:8443/mcp"
APPROVAL = Approval("weather", URL)
DIGEST = "sha256:" + "0" * 64
OTHER_DIGEST = "sha256:" + "0" * 63 + "1"
GOOD = ServerView(
    name="weather",
    is_remote=True,
    url=URL,
    transport="streamable-http",
    scope="global",
    verifies_tls=True,
    named_hosts=(),
    headers_digest=b"1",
    exposes_tool=True,
)
LOCAL = GOOD._replace(is_remote=False, url="")

# Each flaw, in the order in which the first one found is the reason.
FLAWS = [
    (Reason.SERVER_NOT_REMOTE, {"is_remote": False}),
    (Reason.URL_MISMATCH, {"url": "https://other.example/mcp"}),
    (Reason.TRANSPORT_ALTERED, {"verifies_tls": False}),
    (Reason.TOOL_NOT_EXPOSED, {"exposes_tool": False}),
]


def view(*servers: ServerView, name: str = "weather") -> View:
    return View(server=name, tool="forecast.today", servers=servers)


def reason(seen: View, approval: Approval = APPROVAL) -> Reason | None:
    try:
        require_approved(seen, approval)
    except BindingRefused as refused:
        return refused.reason
    return None


# Classify


@pytest.mark.parametrize(
    ("seen", "approval"),
    [
        (view(GOOD), APPROVAL),
        (view(), APPROVAL),
        (view(GOOD, GOOD), APPROVAL),
        (view(LOCAL), APPROVAL),
        (view(GOOD._replace(url="https://other.example/")), APPROVAL),
        (view(GOOD, name="other"), APPROVAL),  # by its URL, whatever its name
        (view(GOOD._replace(url="https://other.example/"), GOOD, name="other"), APPROVAL),
        (view(GOOD._replace(exposes_tool=False), name="other"), APPROVAL),
        (view(name="other"), None),
        (view(LOCAL, name="other"), None),
        (view(GOOD._replace(url="https://other.example/"), name="other"), None),
        (view(GOOD._replace(url=URL + "/"), name="other"), None),
        (view(GOOD._replace(url=URL.upper()), name="other"), None),
        (view(GOOD._replace(is_remote=False), name="other"), None),
    ],
)
def test_a_call_is_protected_by_name_or_by_url(seen: View, approval: Approval | None) -> None:
    assert classify(seen, {"weather": APPROVAL}) == approval


def test_the_name_comes_before_the_url() -> None:
    protected = {"maps": Approval("maps", "https://maps.example/"), "weather": APPROVAL}
    stolen = GOOD._replace(url="https://maps.example/")

    assert classify(view(stolen), protected) == APPROVAL


def test_the_approval_that_protects_a_call_keeps_its_pins() -> None:
    pinned = APPROVAL._replace(pins={"forecast": DIGEST})

    assert classify(view(GOOD), {"weather": pinned}) is pinned
    assert classify(view(GOOD, name="other"), {"weather": pinned}) is pinned


def test_nothing_is_protected_without_protected_servers() -> None:
    assert classify(view(GOOD), {}) is None


# Hold against the approval


def test_the_approved_server_passes() -> None:
    assert reason(view(GOOD)) is None


def test_the_approved_url_passes_under_another_name() -> None:
    assert reason(view(GOOD._replace(name="other"), name="other")) is None


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ((), Reason.SERVER_NOT_CONFIGURED),
        ((GOOD, GOOD), Reason.SERVER_AMBIGUOUS),
        ((GOOD, LOCAL), Reason.SERVER_AMBIGUOUS),
        ((LOCAL, LOCAL, LOCAL), Reason.SERVER_AMBIGUOUS),
        ((LOCAL,), Reason.SERVER_NOT_REMOTE),
    ],
)
def test_there_is_exactly_one_remote_server(
    servers: tuple[ServerView, ...], expected: Reason
) -> None:
    assert reason(view(*servers)) is expected


@pytest.mark.parametrize("first", range(len(FLAWS)))
def test_the_first_flaw_is_the_reason(first: int) -> None:
    expected, only = FLAWS[first]
    later: dict[str, object] = {}
    for _, flaw in FLAWS[first:]:
        later |= flaw

    assert reason(view(GOOD._replace(**only))) is expected
    assert reason(view(GOOD._replace(**later))) is expected
    assert reason(view(GOOD._replace(**later), GOOD)) is Reason.SERVER_AMBIGUOUS


@pytest.mark.parametrize(
    "url",
    [
        "",
        URL + "/",
        URL + "?",
        URL + " ",
        URL.upper(),
        URL.replace("https", "http"),
        URL.replace("https", "HTTPS"),
        URL.replace(":8443", ""),
        URL.replace("/mcp", "/%6Dcp"),
        URL.replace("mcp.example", "user@mcp.example"),
    ],
)
def test_the_url_is_compared_byte_for_byte(url: str) -> None:
    assert reason(view(GOOD._replace(url=url))) is Reason.URL_MISMATCH


@pytest.mark.parametrize(
    ("named_hosts", "expected"),
    [
        ((), None),
        (("mcp.example.com:8443",), None),
        (("mcp.example.com:8443", "mcp.example.com:8443"), None),
        (("other.example",), Reason.TRANSPORT_ALTERED),
        (("mcp.example.com:9000",), Reason.TRANSPORT_ALTERED),
        (("mcp.example.com.:8443",), Reason.TRANSPORT_ALTERED),
        (("mcp.example.com:8443.evil.example",), Reason.TRANSPORT_ALTERED),
        (("mcp.example.com:8443, other.example",), Reason.TRANSPORT_ALTERED),
        (("mcp.example.com:8443", "other.example"), Reason.TRANSPORT_ALTERED),
        (("",), Reason.TRANSPORT_ALTERED),
    ],
)
def test_a_header_may_name_the_approved_host_only(
    named_hosts: tuple[str, ...], expected: Reason | None
) -> None:
    assert reason(view(GOOD._replace(named_hosts=named_hosts))) is expected


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://mcp.example.com/mcp", "mcp.example.com"),
        ("http://[2001:db8::1]:81/", "[2001:db8::1]:81"),
    ],
)
def test_the_approved_host_has_its_port_only_where_the_url_has_one(url: str, host: str) -> None:
    server = GOOD._replace(url=url, named_hosts=(host,))

    assert reason(view(server), Approval("weather", url)) is None


@pytest.mark.parametrize(
    ("permitted", "names", "expected"),
    [
        (None, (), None),
        (None, ("authorization", "x-team"), None),
        ([], (), None),
        ([], ("authorization",), Reason.TRANSPORT_ALTERED),
        (["authorization"], (), None),
        (["authorization"], ("authorization",), None),
        (["authorization", "x-team"], ("authorization",), None),
        (["authorization"], ("x-team",), Reason.TRANSPORT_ALTERED),
        (["authorization"], ("authorization", "x-team"), Reason.TRANSPORT_ALTERED),
        (["authorization"], ("authorization-2",), Reason.TRANSPORT_ALTERED),
    ],
)
def test_where_headers_are_named_there_is_no_other(
    permitted: list[str] | None, names: tuple[str, ...], expected: Reason | None
) -> None:
    approval = APPROVAL._replace(headers=None if permitted is None else frozenset(permitted))

    assert reason(view(GOOD._replace(header_names=names)), approval) is expected


def test_a_header_that_is_named_may_not_name_another_host() -> None:
    approval = APPROVAL._replace(headers=frozenset({"host"}))
    server = GOOD._replace(header_names=("host",), named_hosts=("other.example",))

    assert reason(view(server), approval) is Reason.TRANSPORT_ALTERED
    assert reason(view(server._replace(named_hosts=("mcp.example.com",))), approval) is None


@pytest.mark.parametrize(
    ("pins", "definitions", "expected"),
    [
        (None, (), None),
        (None, ("",), None),
        (None, (DIGEST, OTHER_DIGEST), None),
        ({"forecast.today": DIGEST}, (DIGEST,), None),
        ({"forecast.today": DIGEST, "history": OTHER_DIGEST}, (DIGEST,), None),
        ({}, (DIGEST,), Reason.TOOL_NOT_PINNED),
        ({}, (), Reason.TOOL_NOT_PINNED),
        ({"history": DIGEST}, (DIGEST,), Reason.TOOL_NOT_PINNED),
        ({"forecast": DIGEST}, (DIGEST,), Reason.TOOL_NOT_PINNED),
        ({"Forecast.today": DIGEST}, (DIGEST,), Reason.TOOL_NOT_PINNED),
        ({"forecast.today ": DIGEST}, (DIGEST,), Reason.TOOL_NOT_PINNED),
        ({"weather.forecast.today": DIGEST}, (DIGEST,), Reason.TOOL_NOT_PINNED),
        ({"history": DIGEST}, (DIGEST, DIGEST), Reason.TOOL_NOT_PINNED),
        ({"forecast.today": DIGEST}, (DIGEST, DIGEST), Reason.TOOL_AMBIGUOUS),
        ({"forecast.today": DIGEST}, (DIGEST, OTHER_DIGEST), Reason.TOOL_AMBIGUOUS),
        ({"forecast.today": DIGEST}, (OTHER_DIGEST, DIGEST), Reason.TOOL_AMBIGUOUS),
        ({"forecast.today": DIGEST}, ("", "", ""), Reason.TOOL_AMBIGUOUS),
        ({"forecast.today": DIGEST}, (OTHER_DIGEST,), Reason.DEFINITION_CHANGED),
        ({"forecast.today": DIGEST}, (DIGEST.upper(),), Reason.DEFINITION_CHANGED),
        ({"forecast.today": DIGEST}, (DIGEST.removeprefix("sha256:"),), Reason.DEFINITION_CHANGED),
        (
            {"forecast.today": DIGEST, "history": OTHER_DIGEST},
            (OTHER_DIGEST,),
            Reason.DEFINITION_CHANGED,
        ),
        ({"forecast.today": DIGEST}, ("",), Reason.DEFINITION_CHANGED),
        ({"forecast.today": DIGEST}, (), Reason.DEFINITION_CHANGED),
    ],
)
def test_a_pinned_tool_is_there_once_and_as_it_was_pinned(
    pins: dict[str, str] | None, definitions: tuple[str, ...], expected: Reason | None
) -> None:
    seen = view(GOOD._replace(definitions=definitions))

    assert reason(seen, APPROVAL._replace(pins=pins)) is expected


@pytest.mark.parametrize(("expected", "flaw"), FLAWS)
@pytest.mark.parametrize("pins", [{}, {"forecast.today": DIGEST}])
@pytest.mark.parametrize("definitions", [(OTHER_DIGEST,), (DIGEST, DIGEST)])
def test_every_other_flaw_comes_before_the_pins(
    expected: Reason, flaw: dict[str, object], pins: dict[str, str], definitions: tuple[str, ...]
) -> None:
    seen = GOOD._replace(definitions=definitions, **flaw)

    assert reason(view(seen), APPROVAL._replace(pins=pins)) is expected


# The re-check

CHANGES = {
    "name": "other",
    "is_remote": False,
    "url": "https://other.example/",
    "transport": "sse",
    "scope": "project",
    "verifies_tls": False,
    "named_hosts": ("mcp.example.com:8443",),
    "headers_digest": b"2",
    "exposes_tool": False,
    "definitions": (DIGEST,),
    "header_names": ("authorization",),
}


@pytest.mark.parametrize("field", ServerView._fields)
def test_a_binding_with_any_change_is_another_binding(field: str) -> None:
    before = view(GOOD)

    assert before == view(GOOD._replace())
    assert before != view(GOOD._replace(**{field: CHANGES[field]}))


def test_another_tool_is_another_binding() -> None:
    assert view(GOOD) != view(GOOD)._replace(tool="history")


def test_a_refusal_says_its_reason_and_nothing_else() -> None:
    with pytest.raises(BindingRefused) as refused:
        require_approved(view(GOOD._replace(url="https://secret.example/")), APPROVAL)

    assert str(refused.value) == "url_mismatch"
    assert refused.value.args == ("url_mismatch",)
    assert refused.value.sub_reason is None


@pytest.mark.parametrize(
    ("url", "same", "other"),
    [
        (
            "https://a.example.com/mcp",
            ["a.example.com", "a.example.com:443"],
            ["a.example.com:80", "b.example.com", "a.example.com:8443", "", "a.example.com:"],
        ),
        (
            "http://a.example.com/mcp/x",
            ["a.example.com", "a.example.com:80"],
            ["a.example.com:443"],
        ),
        (
            "https://a.example.com:8443/mcp",
            ["a.example.com", "a.example.com:8443"],
            ["a.example.com:443"],
        ),
        (
            "https://[2606:4700::1]:8443/mcp",
            ["[2606:4700::1]", "[2606:4700::1]:8443"],
            ["2606:4700::1", "[2606:4700::1]:443"],
        ),
    ],
)
def test_the_spellings_in_which_a_header_names_the_same_host(
    url: str, same: list[str], other: list[str]
) -> None:
    for hosts, expected in ((same, None), (other, Reason.TRANSPORT_ALTERED)):
        for host in hosts:
            seen = view(GOOD._replace(url=url, named_hosts=(host,)))
            assert reason(seen, Approval("weather", url)) is expected, host
