"""Every decision that the gate can make, each produced through the host.

The first table holds every reason and sub-reason of the vocabulary, the second every way
to be allowed. What a refusal and an allowed call must look like everywhere is stated in
`Scene.expect_refused` and `Scene.expect_allowed`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from helpers import persist_chat
from helpers.mcp_handler import MCPServerLocal
from local_guild.answers import answer_body
from local_guild.wire import Close, Drip, Endless, Send, Stall, answer
from usr.plugins.agent_guild_preflight.helpers import evaluation
from usr.plugins.agent_guild_preflight.helpers.commands.main import main
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

HEALTHY: Mapping[str, str] = {}
UNREACHABLE = {"endpoint_reachable": "failed", "protocol_handshake": "unknown"}
NO_HANDSHAKE = {"protocol_handshake": "failed"}
UNKNOWN_HANDSHAKE = {"protocol_handshake": "unknown"}
CAUTION = {"agent_card_resolves": "failed"}
PUBLIC_ENDPOINT = "https://tools.example.com"
BIG_CHUNK = b" " * 65536
IN_THE_FUTURE = b"Thu, 07 Mar 2999 07:08:09 GMT"


@dataclass(frozen=True)
class Case:
    """One refusal.

    Attributes:
        reason, sub_reason, next_step: what must come out.
        service: gives the service's script for a scene; None for a healthy answer.
        settings: what the configuration has besides that of `Scene.settings`.
        arrange: what is changed once everything is configured.
        shown: what the denial and the log hold besides; see `Scene.line`.
        preflights: how many requests must have reached the service.
        name: tells cases of one reason apart.
    """

    reason: str
    sub_reason: str | None = None
    next_step: str = "operator"
    service: Callable[[Any], Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrange: Callable[[Any], object] = lambda scene: None
    shown: Mapping[str, Any] = field(default_factory=dict)
    preflights: int = 0
    name: str = ""

    @property
    def id(self) -> str:
        return "-".join(part for part in (self.reason, self.sub_reason, self.name) if part)


def policy(**settings: Any) -> dict[str, Any]:
    return {"policy": settings}


def approved(url: str, sub_reason: str, name: str = "") -> Case:
    """A URL that the screen refuses: it is shown nowhere and sent nowhere."""
    return Case(
        "endpoint_refused",
        sub_reason,
        settings={"protected_servers": {"tools": url}},
        shown={"endpoint": None},
        name=name,
    )


def unavailable(sub_reason: str, data: bytes, *steps: Any, name: str = "", **settings: Any) -> Case:
    """An answer that cannot be used, whatever it says."""
    return Case(
        "evidence_unavailable",
        sub_reason,
        "retry_later",
        service=lambda scene: [Send(data), *steps],
        settings=settings,
        preflights=1,
        name=name,
    )


def inconsistent(sub_reason: str, name: str = "", **overrides: Any) -> Case:
    """An answer with some of its top-level keys replaced."""
    return Case(
        "evidence_inconsistent",
        sub_reason,
        "retry_later",
        service=lambda scene: scene.answers(**overrides),
        preflights=1,
        name=name,
    )


def edited(sub_reason: str, name: str, edit: Callable[[dict[str, Any]], object]) -> Case:
    """An answer that was changed inside."""
    return Case(
        "evidence_inconsistent",
        sub_reason,
        "retry_later",
        service=lambda scene: scene.edits(edit),
        preflights=1,
        name=name,
    )


def broken(sub_reason: str, body: bytes, name: str = "") -> Case:
    """A body that is no answer at all."""
    return Case(
        "evidence_inconsistent",
        sub_reason,
        "retry_later",
        service=lambda scene: [Send(answer(body))],
        preflights=1,
        name=name,
    )


def judged(
    reason: str, statuses: Mapping[str, str], next_step: str = "operator", **more: Any
) -> Case:
    """A valid answer that is not enough."""
    return Case(
        reason,
        None,
        next_step,
        service=lambda scene: scene.answers(statuses),
        shown={"statuses": statuses},
        preflights=1,
        **more,
    )


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


REPEATED_KEY = answer_body("x")[:-1] + b',"verdict":"no_failed_checks"}'

REFUSED = [
    Case(
        "dispatch_mismatch",
        next_step="retry_later",
        arrange=lambda s: s.between(lambda: setattr(s.chat.agent.loop_data, "current_tool", None)),
        shown={"endpoint": None},
    ),
    approved("ftp://tools.example.com/mcp", "scheme"),
    approved("https://user@tools.example.com/mcp", "userinfo"),
    approved("https://@tools.example.com/mcp", "userinfo", "empty"),
    approved("https://tools.example.com/mcp?key=1", "query"),
    approved("https://tools.example.com/mcp#part", "fragment"),
    approved("https://tools.example.com/m cp", "forbidden_character"),
    approved("https:///mcp", "host_missing"),
    approved("https://tools..example.com/mcp", "host_syntax"),
    Case(
        "endpoint_refused",
        "host_not_public",
        settings={"allow_private_hosts": False},
        shown={"endpoint": None},
    ),
    approved("https://2130706433/mcp", "number_like_host"),
    approved("https://tools.example.com:0/mcp", "port"),
    approved("https://tools.example.com:443/mcp", "not_canonical"),
    approved("https://tools.example.com/" + "a" * 2048, "too_long"),
    Case(
        "endpoint_refused",
        "private_needs_local_service",
        settings={"fixture_guild_origin": None},
        shown={"endpoint": None},
    ),
    Case(
        "server_not_configured",
        arrange=lambda s: s.between(s.replace_servers),
    ),
    Case(
        "server_ambiguous",
        arrange=lambda s: s.replace_servers(s.live, s.live),
    ),
    Case(
        "server_not_remote",
        arrange=lambda s: s.between(
            lambda: s.replace_servers(MCPServerLocal({"name": "tools", "command": "true"}))
        ),
    ),
    Case("url_mismatch", arrange=lambda s: s.alter(url=s.url + "/")),
    Case("transport_altered", arrange=lambda s: s.alter(verify=False), name="tls"),
    Case(
        "transport_altered",
        arrange=lambda s: s.alter(headers={"hOsT": "other.example.com"}),
        name="host",
    ),
    Case(
        "tool_not_exposed",
        arrange=lambda s: s.between(lambda: s.alter(disabled_tools=["echo"])),
    ),
    unavailable("timeout", b"", Stall(), timeout_seconds=0.5),
    unavailable(
        "timeout", b"", Drip(answer(b"x" * 999), every=0.01), name="dripping", timeout_seconds=0.5
    ),
    unavailable("http_status", answer(b"no", status=b"500 Internal Server Error")),
    unavailable("redirect", answer(b"", status=b"302 Found", headers=[(b"Location", b"/else")])),
    unavailable("media_type", answer(b"no", content_type=b"text/plain")),
    unavailable("content_encoding", answer(b"no", headers=[(b"Content-Encoding", b"gzip")])),
    unavailable(
        "too_large",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
        Endless(BIG_CHUNK),
    ),
    unavailable("stale", answer(b"{}", headers=[(b"Age", b"7")])),
    unavailable("clock", answer(b"{}", headers=[(b"Date", IN_THE_FUTURE)])),
    unavailable("protocol", b"HTTP/1.1 200 OK\r\nContent-", Close()),
    broken("encoding", b'{"target":"\xff"}'),
    broken("json", b'{"target":'),
    broken("duplicate_key", REPEATED_KEY),
    broken("depth", nested(17)),
    broken("number", b'{"target":NaN}'),
    broken("shape", b"[]"),
    inconsistent("shape", "type", scored=None),
    edited("target", "", lambda a: a.update(target="https://tools.example.com/mcp")),
    edited("check_set", "missing", lambda a: a["checks"].pop()),
    edited("check_set", "twice", lambda a: a["checks"].append(a["checks"][0])),
    edited("status", "", lambda a: a["checks"][5].update(status="passed")),
    inconsistent("summary", scored=[]),
    inconsistent("verdict", verdict="delegate_with_caution"),
    judged("do_not_delegate", UNREACHABLE, "retry_later", name="unreachable"),
    judged("do_not_delegate", NO_HANDSHAKE, name="handshake"),
    judged(
        "do_not_delegate",
        NO_HANDSHAKE,
        name="whatever_is_tolerated",
        settings=policy(required_proven=[], on_caution="allow", on_unavailable="allow"),
    ),
    judged(
        "required_check_failed",
        CAUTION,
        settings=policy(required_proven=["agent_card_resolves"], on_caution="allow"),
    ),
    judged("required_check_unknown", UNKNOWN_HANDSHAKE),
    judged("caution_not_permitted", CAUTION),
    Case(
        "binding_changed",
        next_step="retry_later",
        service=lambda s: s.answers(before=lambda: s.alter(headers={"X-Team": "other"})),
        shown={"statuses": HEALTHY},
        preflights=1,
    ),
    Case(
        "internal_error",
        arrange=lambda s: s.patch.setattr(evaluation, "decide", None),
        shown={"unforeseen": "TypeError"},
        preflights=1,
    ),
]

# These need more than a line; each has a test of its own, below, in test_last_moment or test_pins.
ELSEWHERE = {
    ("binding_changed_during_call", None),
    ("tool_not_pinned", None),
    ("tool_ambiguous", None),
    ("definition_changed", None),
    ("invalid_configuration", None),
    ("evidence_unavailable", "resolve"),
    ("evidence_unavailable", "connect"),
    ("evidence_unavailable", "tls"),
}


def test_the_table_holds_every_reason_and_sub_reason():
    """Nothing can be added to the vocabulary without a test that produces it."""
    refined = {sub.reason for sub in SubReason}
    words = {(sub.reason.value, sub.value) for sub in SubReason}
    words |= {(reason.value, None) for reason in Reason if reason not in refined}
    assert {(case.reason, case.sub_reason) for case in REFUSED} | ELSEWHERE == words
    assert len({case.id for case in REFUSED}) == len(REFUSED)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_refused(scene, case):
    """Each refusal: its record, its line, its place in the log, and nothing on the wire."""
    scene.serve(case.service(scene) if case.service else None)
    scene.protect(**case.settings)
    case.arrange(scene)
    scene.call()
    scene.expect_refused(
        case.reason, case.sub_reason, case.next_step, preflights=case.preflights, **case.shown
    )


def test_invalid_configuration(scene):
    """A decision like any other; what is wrong is told to the operator in the log."""
    scene.protect(timeout_seconds="5")
    scene.call()
    scene.expect_invalid("timeout_seconds: must be a number of seconds")


@pytest.mark.parametrize(
    ("raw", "server"), [("{", "unknown"), ({"timeout_seconds": "5"}, "tools")], ids=["all", "one"]
)
def test_invalid_configuration_is_explained(scene, capsys, raw, server):
    """The command shows the refusal like every other, with what to do."""
    scene.protect()
    scene.operator.configure(raw if isinstance(raw, str) else scene.settings(**raw))
    scene.call()
    persist_chat.save_tmp_chat(scene.chat.context)
    try:
        arguments = [scene.chat.context.id, "--root", str(scene.operator.root)]
        capsys.readouterr()
        assert main(["explain", *arguments]) == 0
        row = capsys.readouterr().out.splitlines()[-1].split()
        assert main(["explain", "--last", *arguments]) == 0
        latest = capsys.readouterr().out
    finally:
        persist_chat.remove_chat(scene.chat.context.id)
    assert row[1:] == [
        server,
        '"echo"',
        "refused",
        "invalid_configuration",
        "selected",
        "-",
        "none",
    ]
    assert f"What to do: {Reason.INVALID_CONFIGURATION.remedy}" in latest


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that is taken and refuses every connection."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def nowhere(scene: Any) -> str:
    """Return an origin whose name does not resolve; no resolver is asked about it."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
        if host in ("guild.invalid", b"guild.invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **named)

    scene.patch.setattr(socket, "getaddrinfo", getaddrinfo)
    return "https://guild.invalid"


def without_tls(scene: Any) -> str:
    """Return an origin that speaks plain HTTP where TLS is expected."""
    service = scene.serve([Send(answer(b"{}", status=b"400 Bad Request"))], before_request=True)
    return service.origin.replace("http:", "https:")


TOWARDS_THE_SERVICE = {"resolve": nowhere, "tls": without_tls}


@pytest.mark.parametrize("sub_reason", TOWARDS_THE_SERVICE)
def test_refused_without_a_way_to_the_public_service(scene, sub_reason):
    """Name resolution and TLS can only fail towards a public service."""
    origin = TOWARDS_THE_SERVICE[sub_reason](scene)
    scene.protect_publicly(origin)
    scene.call()
    scene.expect_refused(
        "evidence_unavailable", sub_reason, "retry_later", endpoint=PUBLIC_ENDPOINT
    )


def test_refused_without_a_connection(scene, deaf_port):
    """A service that does not listen."""
    scene.protect(fixture_guild_origin=f"http://127.0.0.1:{deaf_port}")
    scene.call()
    scene.expect_refused("evidence_unavailable", "connect", "retry_later")


def test_a_refusal_by_kept_evidence_says_for_how_long(scene, clock):
    """The second call is refused by what the first one left, and says when to come back."""
    scene.serve(scene.answers(UNREACHABLE))
    scene.protect(cache_ttl_seconds=300)
    scene.call()
    scene.expect_refused(
        "do_not_delegate", None, "retry_after 300 s", statuses=UNREACHABLE, preflights=1
    )
    clock(120)
    scene.chat = scene.new_chat()
    scene.call()
    scene.expect_refused(
        "do_not_delegate",
        None,
        "retry_after 180 s",
        statuses=UNREACHABLE,
        preflights=1,
        age=" (cached, age 120 s)",
    )


def test_a_refusal_counts_unlisted_checks_and_names_none(scene):
    """Names of checks that are not known are remote text: the model gets their number."""

    def edit(document):
        for name in ("one_more", "yet_another"):
            document["checks"].append({"check": name, "status": "unknown", "detail": ""})
            document["unknowns"].append(name)

    scene.serve(scene.edits(edit))
    scene.protect(policy={"required_proven": ["agent_card_signed"]})
    scene.call()
    scene.expect_refused(
        "required_check_unknown",
        None,
        "operator",
        statuses=HEALTHY,
        unlisted=2,
        preflights=1,
    )


# What is allowed


@pytest.mark.parametrize(
    ("statuses", "settings", "tolerated"),
    [
        pytest.param(HEALTHY, {}, [], id="no_failed_checks"),
        pytest.param(
            dict.fromkeys(("agent_card_resolves", "agent_card_signed"), "proven"),
            {"required_proven": ["agent_card_signed"]},
            [],
            id="required_and_proven",
        ),
        pytest.param(
            CAUTION, {"on_caution": "allow"}, ["delegate_with_caution"], id="caution_allowed"
        ),
        pytest.param(
            UNKNOWN_HANDSHAKE,
            {"tolerate_unknown_required": True},
            ["protocol_handshake"],
            id="tolerated_unknown",
        ),
        pytest.param(
            UNKNOWN_HANDSHAKE | CAUTION,
            {"tolerate_unknown_required": True, "on_caution": "allow"},
            ["protocol_handshake", "delegate_with_caution"],
            id="tolerated_unknown_and_caution",
        ),
        pytest.param(UNKNOWN_HANDSHAKE, {"required_proven": []}, [], id="nothing_required"),
    ],
)
def test_allowed(scene, statuses, settings, tolerated):
    """A valid answer that is enough; what was tolerated is named as that."""
    scene.serve(scene.answers(statuses))
    scene.protect(policy=settings)
    scene.call()
    scene.expect_allowed(statuses=statuses, tolerated=tolerated)
    scene.expect_reached()


UNUSABLE = {
    "timeout": ([Stall()], {"timeout_seconds": 0.5}),
    "http_status": ([Send(answer(b"no", status=b"503 Service Unavailable"))], {}),
    "stale": ([Send(answer(b"{}", headers=[(b"X-Cache", b"HIT")]))], {}),
    "clock": ([Send(answer(b"{}", headers=[(b"Date", IN_THE_FUTURE)]))], {}),
    "protocol": ([Close()], {}),
    "json": ([Send(answer(b"{"))], {}),
    "shape": ([Send(answer(b"{}"))], {}),
}


@pytest.mark.parametrize("sub_reason", UNUSABLE)
def test_allowed_by_tolerating_any_unusable_answer(scene, sub_reason):
    """`allow` tolerates missing and broken evidence alike."""
    script, settings = UNUSABLE[sub_reason]
    scene.serve(script)
    scene.protect(policy={"on_unavailable": "allow"}, **settings)
    scene.call()
    scene.expect_allowed(tolerated=[sub_reason])
    scene.expect_reached()
    assert scene.chat.last_observation["error"] == sub_reason


@pytest.mark.parametrize("sub_reason", UNUSABLE)
def test_allow_unreachable_tolerates_nothing_that_a_server_can_cause(scene, sub_reason):
    """The probed server can delay or break an answer; that must not pay."""
    script, settings = UNUSABLE[sub_reason]
    reason = "evidence_inconsistent" if sub_reason in ("json", "shape") else "evidence_unavailable"
    scene.serve(script)
    scene.protect(policy={"on_unavailable": "allow_unreachable"}, **settings)
    scene.call()
    scene.expect_refused(reason, sub_reason, "retry_later", preflights=1)


@pytest.mark.parametrize("tolerance", ["allow_unreachable", "allow"])
def test_allowed_without_a_connection_to_the_service(scene, deaf_port, tolerance):
    """Nobody was asked, and the operator said that this is no reason to refuse."""
    scene.protect(
        fixture_guild_origin=f"http://127.0.0.1:{deaf_port}", policy={"on_unavailable": tolerance}
    )
    scene.call()
    scene.expect_allowed(preflights=0, tolerated=["connect"])
    scene.expect_reached()


@pytest.mark.parametrize("tolerance", ["allow_unreachable", "allow"])
@pytest.mark.parametrize("sub_reason", TOWARDS_THE_SERVICE)
def test_allowed_without_a_way_to_the_public_service(scene, sub_reason, tolerance):
    """The same for a name that does not resolve and a handshake that fails."""
    origin = TOWARDS_THE_SERVICE[sub_reason](scene)
    scene.protect_publicly(origin, policy={"on_unavailable": tolerance})
    executed = scene.stub_execution()  # the approved URL is a public one
    scene.call()
    scene.expect_allowed(preflights=0, tolerated=[sub_reason], endpoint=PUBLIC_ENDPOINT)
    assert executed == ["tools.echo"]


NO_SUMMARY = {"failed": None}
CUT_OFF = b'{"verdict":"do_not_delegate","checks":['


def claiming(statuses: Mapping[str, str], **overrides: Any) -> Callable[[Any], Any]:
    return lambda scene: scene.answers(statuses, **overrides)


def sending(*steps: Any) -> Callable[[Any], Any]:
    return lambda scene: list(steps)


CLAIMS = {
    "verdict": ("shape", claiming(NO_HANDSHAKE, **NO_SUMMARY), {}),
    "hidden_verdict": ("verdict", claiming(NO_HANDSHAKE, verdict="no_failed_checks"), {}),
    "required_check": (
        "shape",
        claiming(CAUTION, **NO_SUMMARY),
        {"required_proven": ["agent_card_resolves"], "on_caution": "allow"},
    ),
    "caution": ("shape", claiming(CAUTION, **NO_SUMMARY), {}),
    "repeated_key": (
        "duplicate_key",
        sending(Send(answer(b'{"verdict":"do_not_delegate","verdict":"no_failed_checks"}'))),
        {},
    ),
    "error_body": (
        "http_status",
        sending(Send(answer(b'{"verdict":"do_not_delegate"}', status=b"500 Oh"))),
        {},
    ),
    "stored_answer": (
        "stale",
        sending(Send(answer(b'{"verdict":"do_not_delegate"}', headers=[(b"Age", b"1")]))),
        {},
    ),
    "wrong_clock": (
        "clock",
        sending(
            Send(answer(b'{"verdict":"do_not_delegate"}', headers=[(b"Date", IN_THE_FUTURE)])),
        ),
        {},
    ),
    "cut_off": ("protocol", sending(Send(answer(CUT_OFF + b" " * 99)[:-50]), Close()), {}),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_withholds_tolerance(scene, claim):
    """An answer that says no does not become a yes because it is also broken."""
    sub_reason, service, settings = CLAIMS[claim]
    unusable = ("http_status", "stale", "clock", "protocol")
    reason = "evidence_unavailable" if sub_reason in unusable else "evidence_inconsistent"
    scene.serve(service(scene))
    scene.protect(policy={"on_unavailable": "allow", **settings})
    scene.call()
    scene.expect_refused(reason, sub_reason, "retry_later", preflights=1)


def test_a_claim_that_is_permitted_withholds_nothing(scene):
    """A broken answer that claims caution, where caution is permitted."""
    scene.serve(scene.answers(verdict="delegate_with_caution", scored=None))
    scene.protect(policy={"on_unavailable": "allow", "on_caution": "allow"})
    scene.call()
    scene.expect_allowed(tolerated=["shape"])
    scene.expect_reached()


def test_a_claim_received_before_the_deadline_withholds_tolerance(scene):
    """What had arrived when the time was over is read."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n"
    scene.serve([Send(head + CUT_OFF), Stall()])
    scene.protect(policy={"on_unavailable": "allow"}, timeout_seconds=1)
    scene.call()
    scene.expect_refused("evidence_unavailable", "timeout", "retry_later", preflights=1)
