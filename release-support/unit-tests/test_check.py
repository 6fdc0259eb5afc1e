"""`check`: what it sends and to whom, what it says, and that it judges as the gate does.

The Agent Zero folder is built by hand, the preflight service is a raw server on loopback.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from local_guild.answers import answer_body
from local_guild.wire import Play, Script, Send, Stall, WireServer, answer
from stage.boot import CHECKOUT
from stage.folder import GLOBAL, HOOK, AgentZero, Said
from usr.plugins.agent_guild_preflight.helpers import evaluation
from usr.plugins.agent_guild_preflight.helpers.commands.main import main
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import cache, observe
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason

PUBLIC = "https://mcp.example.com/mcp"
PUBLIC_SHOWN = "https://mcp.example.com"
NEW = "https://new.example.org:8443/mcp"
PROJECT = "usr/projects/shop/.a0proj/plugins/agent_guild_preflight/config.json"
PROFILE = "usr/agents/agent0/plugins/agent_guild_preflight/config.json"
NOT_CHECKED = (
    "Not checked here: whether the server exposes a tool, and whether that is the pinned one; "
    "pin lists its tools."
)
RUN_LINT = "What to do: Run lint; it names every key that is wrong and what mends it."
ONLY_OPERATOR = (
    "Next step: operator. Do not repeat this call; only the operator can change this. "
    "Tell the user. Tools of other servers are not concerned."
)
SECRET = "Bearer s3cret"


class Folder(AgentZero):
    """One in which a configuration protects `tools`."""

    def configure(self, path: str = GLOBAL, **settings: Any) -> None:
        """Write a configuration that protects `tools`."""
        self.write(path, {"protected_servers": {"tools": PUBLIC}, **settings})

    def run(self, *arguments: str) -> Said:
        code, lines, errors = super().run(*arguments)
        lines = [re.sub(r"\b\d+ ms$", "<time> ms", line) for line in lines]
        lines = [re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>", line) for line in lines]
        return Said(code, lines, errors)


def asked(head: bytes) -> str:
    """The URL that a request asks about."""
    return unquote(head.split(b" ")[1].partition(b"url=")[2].decode("ascii"))


def answers(statuses: dict[str, str] | None = None, **overrides: Any) -> Play:
    def play(head: bytes) -> Script:
        return [Send(answer(answer_body(asked(head), statuses, **overrides)))]

    return play


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command is a process of its own: nothing is remembered from another one."""
    monkeypatch.setattr(observe, "_cache", cache.ObservationCache())


@pytest.fixture
def zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    """An Agent Zero folder in which `tools` is protected and configured."""
    zero = Folder(tmp_path, capsys)
    zero.set_mcp(tools=PUBLIC)
    zero.configure()
    return zero


@pytest.fixture
def guild() -> Any:
    """A preflight service that finds every server healthy."""
    with WireServer(answers()) as server:
        yield server


def checks(**changed: str) -> list[str]:
    """The table of a healthy answer under the default policy; a row may be changed."""
    rows = {
        "endpoint_reachable": "proven   yes",
        "protocol_handshake": "proven   yes",
        "agent_card_resolves": "unknown  no",
        "agent_card_signed": "unknown  no",
        "payment_claim_holds": "unknown  no",
        "independent_evidence": "unknown  no",
        **changed,
    }
    return [
        "check                 status   required",
        *(f"{name:<22}{row}" for name, row in rows.items()),
    ]


def refusal_of(cause: str) -> str:
    """Return how the line of a refusal begins."""
    sentence = Reason(cause.partition(" ")[0]).sentence
    return f"Agent Guild preflight refused this call: {cause}. {sentence}"


# --- What is said of a call that would be allowed -------------------------------------------


def test_an_allowed_call_whole(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    code, lines, errors = zero.run("check", "tools")
    assert lines == [
        "server      tools",
        f"endpoint    {PUBLIC_SHOWN}",
        f"asked       {guild.origin}",
        "",
        *checks(),
        "",
        "verdict     no_failed_checks",
        "decision    allowed",
        "took        <time> ms",
        "",
        "settings  decision  file",
        f"selected  allowed   {GLOBAL}",
        "",
        NOT_CHECKED,
    ]
    assert (code, errors) == (0, [f"sends {PUBLIC} to {guild.origin}"])
    (head,) = guild.requests
    assert asked(head) == PUBLIC


def test_a_file_in_a_folder_of_a_hostile_name(zero: Folder, guild: WireServer) -> None:
    """Another plugin may bring settings for a profile; a terminal obeys what it is shown."""
    plugin = "usr/plugins/evil\x1b]0;owned\x07"
    zero.write(f"{plugin}/plugin.yaml", "name: evil")
    path = f"{plugin}/agents/agent0/plugins/agent_guild_preflight/config.json"
    for settings in ({"fixture_guild_origin": guild.origin}, {"polcy": {}}):
        zero.configure(path, **settings)
        said = zero.run("check", "tools")
        shown = "".join(said.lines)
        assert r"usr/plugins/evil\x1b]0;owned\x07/agents" in shown
        assert shown.isprintable()


def test_an_allowed_call_as_data(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    data = zero.data("check", "tools")
    took, observation = data.pop("took_ms"), data.pop("observation")
    assert type(took) is int and took >= 0
    assert data == {
        "server": "tools",
        "approved_for": "tools",
        "endpoint": PUBLIC_SHOWN,
        "asked": [guild.origin],
        "decision": "allowed",
        "reason": None,
        "sub_reason": None,
        "refused_by": None,
        "tolerated": [],
        "error": None,
        "verdict": "no_failed_checks",
        "required_by": {
            "endpoint_reachable": ["selected"],
            "protocol_handshake": ["selected"],
            "agent_card_resolves": [],
            "agent_card_signed": [],
            "payment_claim_holds": [],
            "independent_evidence": [],
        },
        "settings": [{"source": "selected", "decision": "allowed", "file": GLOBAL}],
        "policies": [
            {
                "server": "tools",
                "source": "selected",
                "settings": {
                    "policy.required_proven": {
                        "value": ["endpoint_reachable", "protocol_handshake"],
                        "from": "default",
                    },
                    "policy.tolerate_unknown_required": {"value": False, "from": "default"},
                    "policy.on_caution": {"value": "deny", "from": "default"},
                    "policy.on_unavailable": {"value": "deny", "from": "default"},
                    "timeout_seconds": {"value": 5, "from": "default"},
                    "cache_ttl_seconds": {"value": 300, "from": "default"},
                },
            }
        ],
        "refusal": None,
        "tools_checked": False,
    }
    assert observation["scored"] == ["endpoint_reachable", "protocol_handshake"]
    assert observation["checks"][0]["detail"] == "untrusted: Observed."


def test_the_name_is_normalised_as_the_framework_does(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin, protected_servers={"My Tools": PUBLIC})
    zero.set_mcp(**{"my-tools": PUBLIC})
    code, lines, _ = zero.run("check", " MY.tools ")
    assert (code, lines[0]) == (0, "server      my_tools")


def test_a_server_that_is_protected_by_its_url(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.set_mcp(tools=PUBLIC, other=PUBLIC)
    code, lines, _ = zero.run("check", "other")
    approved = "other, protected by its URL, which is approved for tools"
    assert (code, lines[0]) == (0, f"server      {approved}")
    data = zero.data("check", "other")
    assert (data["server"], data["approved_for"]) == ("other", "tools")


def test_pins_are_left_aside(zero: Folder, guild: WireServer) -> None:
    pins = {"echo": f"sha256:{'0' * 64}"}
    zero.configure(
        fixture_guild_origin=guild.origin,
        protected_servers={"tools": {"url": PUBLIC, "tools": pins}},
    )
    assert zero.run("check", "tools").code == 0


def test_an_empty_table_of_pins_refuses_every_tool(zero: Folder, guild: WireServer) -> None:
    """That is known without any tool, and nobody is asked for it."""
    zero.configure(
        fixture_guild_origin=guild.origin, protected_servers={"tools": {"url": PUBLIC, "tools": {}}}
    )
    said = zero.run("check", "tools")
    assert (said.code, said.errors) == (10, [])
    assert "decision    refused: tool_not_pinned" in said.lines
    assert guild.requests == []


@pytest.mark.parametrize(
    ("file", "sentence", "remedy"),
    [
        (
            "usr/projects/shop/.a0proj/plugins/agent_guild_preflight/.toggle-0",
            "This file switches the plugin off, so nothing is checked.",
            "Remove the file, or switch the plugin on in Agent Zero.",
        ),
        (
            f"usr/projects/shop/.a0proj/{HOOK}",
            "This file takes the place of the plugin's hook, so nothing is checked.",
            "Find out who wrote it; remove or rename it.",
        ),
    ],
)
def test_a_gate_that_does_not_run_decides_nothing(
    zero: Folder, guild: WireServer, file: str, sentence: str, remedy: str
) -> None:
    """Whatever it would decide, every call goes on; "allowed" would say that it had looked."""
    zero.configure(fixture_guild_origin=guild.origin)
    zero.write(file, "")
    assert zero.run("check", "tools", "--project", "shop") == (
        12,
        [f"{file}: {sentence}", f"What to do: {remedy}"],
        [],
    )
    assert zero.data("check", "tools", "--project", "shop")["error"] == "nothing_is_checked"
    assert guild.requests == []
    assert zero.run("check", "tools").code == 0


@pytest.mark.parametrize(
    "file",
    [
        "usr/projects/none/.a0proj/plugins/agent_guild_preflight/.toggle-0",
        "usr/extensions/python/_functions/helpers/plugins/get_plugin_config/end/_10_helpful.py",
        "usr/extensions/python/tool_execute_before/_10_helpful.py",
    ],
)
def test_a_gate_that_may_not_run_decides_nothing(
    zero: Folder, guild: WireServer, file: str
) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.write(file, '__name__ = "_45_agent_guild_preflight"')
    code, lines, errors = zero.run("check", "tools")
    assert (code, errors, guild.requests) == (12, [], [])
    assert lines[0].startswith(f"{file}: ")
    assert "perhaps" in lines[0]


def test_what_is_tolerated_is_named(zero: Folder, guild: WireServer) -> None:
    zero.configure(
        fixture_guild_origin=guild.origin,
        policy={
            "required_proven": ["agent_card_signed", "endpoint_reachable"],
            "tolerate_unknown_required": True,
        },
    )
    code, lines, _ = zero.run("check", "tools")
    assert code == 0
    assert lines[4:16] == [
        *checks(protocol_handshake="proven   no", agent_card_signed="unknown  yes"),
        "",
        "verdict     no_failed_checks",
        "decision    allowed",
        "tolerated   agent_card_signed",
        "took        <time> ms",
    ]


def test_checks_that_are_not_known_are_counted(zero: Folder) -> None:
    def play(head: bytes) -> Script:
        document = json.loads(answer_body(asked(head)))
        document["checks"] += [
            {"check": "another", "status": "failed", "detail": "MARKER"},
            {"check": "third", "status": "unknown", "detail": "MARKER"},
        ]
        document["failed"], document["verdict"] = ["another"], "delegate_with_caution"
        document["unknowns"].append("third")
        document["scored"].append("another")
        return [Send(answer(json.dumps(document).encode()))]

    with WireServer(play) as guild:
        zero.configure(fixture_guild_origin=guild.origin, policy={"on_caution": "allow"})
        code, lines, _ = zero.run("check", "tools")
    assert code == 0
    assert lines[4:15] == [
        *checks(),
        "+2 unlisted, 1 of them failed",
        "",
        "verdict     delegate_with_caution",
        "decision    allowed",
    ]
    assert lines[15] == "tolerated   delegate_with_caution"
    assert "MARKER" not in str(lines)


@pytest.mark.parametrize("policy", ["allow_unreachable", "allow"])
def test_an_allowed_call_without_evidence_says_so(
    zero: Folder, guild: WireServer, policy: str
) -> None:
    guild.stop()
    zero.configure(fixture_guild_origin=guild.origin, policy={"on_unavailable": policy})
    code, lines, errors = zero.run("check", "tools")
    assert lines == [
        "server      tools",
        f"endpoint    {PUBLIC_SHOWN}",
        f"asked       {guild.origin}",
        "",
        "evidence    none: connect. No connection to the service.",
        "decision    allowed WITHOUT evidence: policy.on_unavailable tolerates it",
        "tolerated   connect",
        "took        <time> ms",
        "",
        "settings  decision  file",
        f"selected  allowed   {GLOBAL}",
        "",
        "policy of tools:",
        f"  on_unavailable: {policy} (from the top level)",
        "",
        NOT_CHECKED,
    ]
    assert (code, errors) == (0, [f"sends {PUBLIC} to {guild.origin}"])
    data = zero.data("check", "tools")
    assert (data["decision"], data["error"], data["observation"]) == ("allowed", "connect", None)


# --- A policy for one server ----------------------------------------------------------------

LENIENT = {"required_proven": ["endpoint_reachable"], "on_caution": "allow"}
LENIENT_LINES = [
    "  required_proven: endpoint_reachable (from the entry)",
    "  on_caution: allow (from the entry)",
]


def wants_credentials() -> WireServer:
    """A service that finds what a 401 can show."""
    return WireServer(answers({"protocol_handshake": "unknown", "agent_card_resolves": "failed"}))


def test_a_server_is_judged_by_its_entry(zero: Folder) -> None:
    with wants_credentials() as guild:
        servers = {"tools": {"url": PUBLIC, "policy": LENIENT, "timeout_seconds": 9}, "maps": NEW}
        zero.configure(fixture_guild_origin=guild.origin, protected_servers=servers)
        zero.set_mcp(tools=PUBLIC, maps=NEW)
        code, lines, _ = zero.run("check", "tools")
        assert (code, lines[-6:-2]) == (
            0,
            ["policy of tools:", *LENIENT_LINES, "  timeout_seconds: 9 (from the entry)"],
        )
        assert "protocol_handshake    unknown  no" in lines
        data = zero.data("check", "tools")
        assert data["required_by"]["protocol_handshake"] == []
        (policy,) = data["policies"]
        assert policy["settings"]["timeout_seconds"] == {"value": 9, "from": "entry"}
        refused = zero.data("check", "maps")
    assert (refused["decision"], refused["reason"]) == ("refused", "required_check_unknown")


def test_a_file_of_a_project_is_judged_by_its_own_entry(zero: Folder) -> None:
    with wants_credentials() as guild:
        zero.configure(fixture_guild_origin=guild.origin, floor=True, timeout_seconds=2)
        entry = {"tools": {"url": PUBLIC, "policy": LENIENT, "timeout_seconds": 1}}
        zero.configure(PROJECT, protected_servers=entry)
        code, lines, _ = zero.run("check", "tools", "--project", "shop")
    assert code == 10
    assert lines[lines.index("policy of tools (selected):") :][:5] == [
        "policy of tools (selected):",
        *LENIENT_LINES,
        "  timeout_seconds: 1 (from the entry)",
        "policy of tools (floor):",
    ]
    rows = [line.split()[:2] for line in lines if line.startswith(("selected  ", "floor  "))]
    assert rows == [["selected", "allowed"], ["floor", "refused:"]]


@pytest.mark.parametrize(
    ("arguments", "code", "policy"),
    [
        (["tools", "--url", NEW], 0, "tools"),
        (["--url", PUBLIC], 0, "tools"),
        (["stranger", "--url", PUBLIC], 0, "tools"),
        (["--url", NEW], 10, None),
        (["maps", "--url", PUBLIC], 10, "maps"),
        (["stranger", "--url", NEW], 10, "stranger"),
    ],
    ids=str,
)
def test_a_url_is_judged_by_the_entry_of_the_name_or_else_of_the_url(
    zero: Folder, arguments: list[str], code: int, policy: str | None
) -> None:
    with wants_credentials() as guild:
        servers = {"tools": {"url": PUBLIC, "policy": LENIENT}, "maps": "https://maps.example.com/"}
        zero.configure(fixture_guild_origin=guild.origin, protected_servers=servers)
        said = zero.run("check", *arguments)
        data = zero.data("check", *arguments)
    assert said.code == code
    assert data["policies"][0]["server"] == policy


def test_without_an_entry_the_policy_of_the_file_counts_for_any_server(
    zero: Folder, guild: WireServer
) -> None:
    zero.configure(fixture_guild_origin=guild.origin, cache_ttl_seconds=1.5)
    lines = zero.run("check", "--url", NEW).lines
    assert lines[-4:-2] == [
        "policy of any server:",
        "  cache_ttl_seconds: 1.5 (from the top level)",
    ]


# --- What is said of a call that would be refused -------------------------------------------


def test_a_refused_call_whole(zero: Folder) -> None:
    with WireServer(answers({"agent_card_signed": "failed"})) as guild:
        zero.configure(fixture_guild_origin=guild.origin)
        code, lines, errors = zero.run("check", "tools")
        data = zero.data("check", "tools")
    refusal = (
        f"{refusal_of('caution_not_permitted')} Server: tools. "
        f"Endpoint: {PUBLIC_SHOWN}. Verdict: delegate_with_caution. Failed: agent_card_signed. "
        "Unknown: agent_card_resolves, payment_claim_holds, independent_evidence. "
        "Proven: endpoint_reachable, protocol_handshake. "
        f"Observed at <time>. {ONLY_OPERATOR}"
    )
    assert lines == [
        "server      tools",
        f"endpoint    {PUBLIC_SHOWN}",
        f"asked       {guild.origin}",
        "",
        *checks(agent_card_signed="failed   no"),
        "",
        "verdict     delegate_with_caution",
        "decision    refused: caution_not_permitted",
        "why         The verdict asks for caution, and the policy does not permit that.",
        "what to do  The command check shows what failed; set policy.on_caution to allow if you accept that.",
        "took        <time> ms",
        "",
        "settings  decision                        file",
        f"selected  refused: caution_not_permitted  {GLOBAL}",
        "",
        "The model is told:",
        refusal,
        "",
        NOT_CHECKED,
    ]
    assert (code, errors) == (10, [f"sends {PUBLIC} to {guild.origin}"])
    assert data["refusal"].startswith("Agent Guild preflight refused this call: caution_not_perm")
    assert [data[key] for key in ("decision", "reason", "sub_reason", "refused_by")] == [
        "refused",
        "caution_not_permitted",
        None,
        "selected",
    ]


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ({"endpoint_reachable": "failed"}, "do_not_delegate"),
        ({"endpoint_reachable": "unknown"}, "required_check_unknown"),
    ],
)
def test_every_refusal_of_the_policy(zero: Folder, statuses: Any, reason: str) -> None:
    with WireServer(answers(statuses)) as guild:
        zero.configure(fixture_guild_origin=guild.origin)
        code, lines, _ = zero.run("check", "tools")
    assert code == 10
    assert f"decision    refused: {reason}" in lines


def test_no_evidence_whole(zero: Folder) -> None:
    with WireServer([Send(answer(b"{}", status=b"503 Down"))]) as guild:
        zero.configure(fixture_guild_origin=guild.origin)
        code, lines, errors = zero.run("check", "tools")
    cause = "evidence_unavailable (http_status)"
    assert lines == [
        "server      tools",
        f"endpoint    {PUBLIC_SHOWN}",
        f"asked       {guild.origin}",
        "",
        "evidence    none: http_status. The status was not 200.",
        f"decision    refused: {cause}",
        "why         The preflight service gave no usable answer.",
        "what to do  Try again later; see the sub-reason. on_unavailable says what a missing "
        "answer means.",
        "took        <time> ms",
        "",
        "settings  decision                                     file",
        f"selected  refused: {cause}  {GLOBAL}",
        "",
        "The model is told:",
        f"{refusal_of(cause)} Server: tools. Endpoint: {PUBLIC_SHOWN}. Next step: retry_later. "
        "The same call may be tried again later. Tools of other servers are not concerned.",
        "",
        NOT_CHECKED,
    ]
    assert (code, errors) == (11, [f"sends {PUBLIC} to {guild.origin}"])


@pytest.mark.parametrize("sub_reason", [SubReason.STALE, SubReason.CLOCK])
def test_a_remedy_of_the_sub_reason(zero: Folder, sub_reason: SubReason) -> None:
    year = {SubReason.STALE: b"2015", SubReason.CLOCK: b"2999"}[sub_reason]
    date = (b"Date", b"7 Mar %s 07:08:09 GMT" % year)
    with WireServer([Send(answer(answer_body(PUBLIC), headers=[date]))]) as guild:
        zero.configure(fixture_guild_origin=guild.origin)
        code, lines, _ = zero.run("check", "tools")
    assert code == 11
    assert lines[4:8] == [
        f"evidence    none: {sub_reason.value}. {sub_reason.sentence}",
        f"decision    refused: evidence_unavailable ({sub_reason.value})",
        "why         The preflight service gave no usable answer.",
        f"what to do  {sub_reason.remedy}",
    ]


def test_evidence_that_breaks_the_contract(zero: Folder) -> None:
    body = answer_body("https://other.example.com/mcp")
    with WireServer([Send(answer(body))]) as guild:
        zero.configure(fixture_guild_origin=guild.origin)
        code, lines, _ = zero.run("check", "tools")
    assert code == 11
    assert "decision    refused: evidence_inconsistent (target)" in lines


def test_a_service_that_hangs_ends_at_the_deadline(zero: Folder) -> None:
    with WireServer([Stall()]) as guild:
        zero.configure(fixture_guild_origin=guild.origin, timeout_seconds=0.2)
        started = time.monotonic()
        code, lines, _ = zero.run("check", "tools")
        assert time.monotonic() - started < 10
    assert (code, lines[4]) == (
        11,
        "evidence    none: timeout. The deadline passed before the answer was whole.",
    )


def test_what_is_unforeseen_is_named_by_its_class_only(
    zero: Folder, guild: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(*_: object) -> None:
        raise LookupError("\x1b[31mMARKER")

    monkeypatch.setattr(evaluation, "evaluate", break_down)
    zero.configure(fixture_guild_origin=guild.origin)
    code, lines, _ = zero.run("check", "tools")
    lines[7] = re.sub("line [0-9]+$", "line <n>", lines[7])
    assert lines[4:] == [
        "decision    refused: internal_error",
        "why         The gate met a condition that it does not know.",
        "what to do  Report it, with what explain --last shows as unforeseen: an exception's class "
        "and a line of the plugin.",
        "unforeseen  LookupError in commands.shared.network, line <n>",
        "took        <time> ms",
        "",
        "settings  decision   file",
        f"selected  undecided  {GLOBAL}",
        "",
        "The model is told:",
        f"{refusal_of('internal_error')} Server: tools. Endpoint: {PUBLIC_SHOWN}. {ONLY_OPERATOR}",
        "",
        NOT_CHECKED,
    ]
    assert (code, guild.connections) == (10, 0)


# --- What is refused before anything is sent ------------------------------------------------


def server(**changed: Any) -> dict[str, Any]:
    return {"type": "streamable-http", "url": PUBLIC, **changed}


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ({}, "server_not_configured"),
        ({"tools": server(disabled=True)}, "server_not_configured"),
        ({"tools": PUBLIC, "Tools": PUBLIC}, "server_ambiguous"),
        ({"tools": {"command": "tools"}}, "server_not_remote"),
        ({"tools": "https://mcp.example.com/other"}, "url_mismatch"),
        ({"tools": server(verify=False)}, "transport_altered"),
        ({"tools": server(headers={"Host": "other.example.com"})}, "transport_altered"),
    ],
)
def test_what_the_binding_refuses_is_not_sent(
    zero: Folder, guild: WireServer, servers: Any, reason: str
) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.set_mcp(**servers)
    code, lines, errors = zero.run("check", "tools")
    assert lines[:5] == [
        "server      tools",
        f"endpoint    {PUBLIC_SHOWN}",
        "asked       nobody",
        "",
        f"decision    refused: {reason}",
    ]
    assert lines[-4:] == [
        "The model is told:",
        f"{refusal_of(reason)} Server: tools. Endpoint: {PUBLIC_SHOWN}. {ONLY_OPERATOR}",
        "",
        NOT_CHECKED,
    ]
    assert (code, errors, guild.connections) == (10, [], 0)


def test_headers_are_neither_shown_nor_sent(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.set_mcp(tools=server(headers={"Authorization": SECRET}))
    said = zero.run("check", "tools")
    assert said.code == 0
    assert "s3cret" not in f"{said} {zero.data('check', 'tools')}"
    assert not any(b"s3cret" in head for head in guild.requests)


def test_what_the_screen_refuses_is_neither_shown_nor_sent(zero: Folder, guild: WireServer) -> None:
    url = "https://mcp.example.com/mcp?key=MARKER"
    zero.configure(fixture_guild_origin=guild.origin, protected_servers={"tools": url})
    zero.set_mcp(tools=url)
    code, lines, errors = zero.run("check", "tools")
    cause = "endpoint_refused (query)"
    assert lines == [
        "server      tools",
        "endpoint    not shown",
        "asked       nobody",
        "",
        f"decision    refused: {cause}",
        "why         The approved URL must not be disclosed or is not written in its one spelling. "
        "The URL holds a question mark.",
        "what to do  Write the URL in its one spelling, here and in the MCP settings; for a "
        "private host set allow_private_hosts and a local service. See the sub-reason.",
        "",
        "settings  decision                           file",
        f"selected  refused: {cause}  {GLOBAL}",
        "",
        "The model is told:",
        f"{refusal_of(cause)} Server: tools. {ONLY_OPERATOR}",
        "",
        NOT_CHECKED,
    ]
    assert (code, errors, guild.connections) == (10, [], 0)
    assert "MARKER" not in str(zero.data("check", "tools"))


def test_a_private_url_is_not_told_to_the_public_service(zero: Folder) -> None:
    url = "http://127.0.0.1:9/mcp"
    zero.configure(protected_servers={"tools": url}, allow_private_hosts=True)
    zero.set_mcp(tools=url)
    code, lines, errors = zero.run("check", "tools")
    assert (code, errors) == (10, [])
    assert "decision    refused: endpoint_refused (private_needs_local_service)" in lines


def test_to_whom_it_goes_is_said_before_it_goes(
    zero: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = io.StringIO()
    seen: list[str] = []

    def play(head: bytes) -> Script:
        seen.append(errors.getvalue())
        return answers()(head)

    monkeypatch.setattr(sys, "stderr", errors)
    with WireServer(play) as guild:
        zero.configure(fixture_guild_origin=guild.origin)
        assert main(["check", "tools", "--root", str(zero.root)]) == 0
    assert seen == [f"sends {PUBLIC} to {guild.origin}\n"]


# --- A URL that is not configured -----------------------------------------------------------


def test_a_new_url_needs_no_name_and_no_mcp_settings(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.write("usr/settings.json", "no JSON")
    code, lines, errors = zero.run("check", "--url", NEW)
    assert lines[:3] == [
        "server      no name given",
        "endpoint    https://new.example.org:8443",
        f"asked       {guild.origin}",
    ]
    assert (code, errors) == (0, [f"sends {NEW} to {guild.origin}"])
    assert [asked(head) for head in guild.requests] == [NEW]


def test_a_new_url_is_judged_by_the_policy_in_force(zero: Folder, guild: WireServer) -> None:
    zero.configure(
        fixture_guild_origin=guild.origin, policy={"required_proven": ["agent_card_signed"]}
    )
    refusal = refusal_of("required_check_unknown")
    code, lines, _ = zero.run("check", "--url", NEW)
    assert (code, lines[0]) == (10, "server      no name given")
    assert lines[-3].startswith(f"{refusal} Endpoint: https://new.example.org")
    code, lines, _ = zero.run("check", "New Name", "--url", NEW)
    assert (code, lines[0]) == (10, "server      new_name")
    assert lines[-3].startswith(f"{refusal} Server: new_name. Endpoint: https://new.example.org")


def test_a_new_url_is_judged_where_nothing_is_configured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zero = Folder(tmp_path, capsys)
    code, lines, errors = zero.run("check", "--url", "http://10.0.0.1/mcp")
    assert (code, errors) == (10, [])
    assert "decision    refused: endpoint_refused (host_not_public)" in lines
    assert lines[-6] == (
        "selected  refused: endpoint_refused (host_not_public)  "
        "usr/plugins/agent_guild_preflight/default_config.yaml"
    )
    assert "10.0.0.1" not in str(lines)


@pytest.mark.parametrize("url", ["", "\x1b[31mMARKER", "https://user:MARKER@example.com/mcp"])
def test_a_new_url_that_the_screen_refuses_is_not_shown(
    zero: Folder, guild: WireServer, url: str
) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    said = zero.run("check", "--url", url)
    assert (said.code, said.errors, guild.connections) == (10, [], 0)
    assert "MARKER" not in str(said)
    assert said.lines[:3] == [
        "server      no name given",
        "endpoint    not shown",
        "asked       nobody",
    ]


def test_neither_name_nor_url_is_a_usage_error(zero: Folder) -> None:
    for arguments in ([], [" "]):
        code, lines, errors = zero.run("check", *arguments)
        assert (code, lines) == (2, [])
        assert errors[-1].endswith(" check: error: name a server, or a URL with --url")


# --- Two files in force ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("project", "everywhere", "outcome", "decisions"),
    [
        ("allow", "allow", (0, None), ["allowed", "allowed"]),
        ("allow", "deny", (10, "floor"), ["allowed", "refused: caution_not_permitted"]),
        ("deny", "allow", (10, "selected"), ["refused: caution_not_permitted", "undecided"]),
        ("deny", "deny", (10, "selected"), ["refused: caution_not_permitted", "undecided"]),
    ],
)
def test_both_files_decide(
    zero: Folder, project: str, everywhere: str, outcome: Any, decisions: list[str]
) -> None:
    with WireServer(answers({"agent_card_signed": "failed"})) as guild:
        zero.configure(
            fixture_guild_origin=guild.origin, floor=True, policy={"on_caution": everywhere}
        )
        zero.configure(
            PROJECT,
            fixture_guild_origin=guild.origin,
            policy={"on_caution": project, "required_proven": ["endpoint_reachable"]},
        )
        code, lines, errors = zero.run("check", "tools", "--project", "shop")
        data = zero.data("check", "tools", "--project", "shop")
        assert len(guild.requests) == 1  # the second time it is remembered
    assert errors == [f"sends {PUBLIC} to {guild.origin}"]
    assert (code, data["refused_by"]) == outcome
    assert data["settings"] == [
        {"source": "selected", "decision": decisions[0], "file": PROJECT},
        {"source": "floor", "decision": decisions[1], "file": GLOBAL},
    ]
    width = max(len("decision"), *map(len, decisions))
    at = lines.index(f"settings  {'decision':<{width}}  file")
    assert lines[at + 1 : at + 3] == [
        f"selected  {decisions[0]:<{width}}  {PROJECT}",
        f"floor     {decisions[1]:<{width}}  {GLOBAL}",
    ]
    assert lines[4:7] == [
        "check                 status   required",
        "endpoint_reachable    proven   selected, floor",
        "protocol_handshake    proven   floor",
    ]


@pytest.mark.parametrize("named", [{}, {"fixture_guild_origin": "http://127.0.0.1:1"}])
@pytest.mark.parametrize("floor", [True, False])
def test_a_project_has_no_say_in_who_is_told(
    zero: Folder, guild: WireServer, named: dict[str, str], floor: bool
) -> None:
    zero.configure(fixture_guild_origin=guild.origin, floor=floor)
    zero.configure(PROJECT, **named)
    code, lines, errors = zero.run("check", "tools", "--project", "shop")
    assert (code, len(guild.requests)) == (0, 1)
    assert errors == [f"sends {PUBLIC} to {guild.origin}"]
    assert lines[2] == f"asked       {guild.origin}"


@pytest.mark.parametrize(
    ("here", "floor", "decisions"),
    [
        (5, 2, ["undecided", "refused: required_check_unknown"]),
        (2, 5, ["allowed", "refused: required_check_unknown"]),
        (5, 5, ["allowed", "refused: required_check_unknown"]),
    ],
)
def test_who_waits_less_decides_first(
    zero: Folder, guild: WireServer, here: int, floor: int, decisions: list[str]
) -> None:
    """What comes after a refusal is not said to allow anything."""
    zero.configure(
        fixture_guild_origin=guild.origin,
        floor=True,
        timeout_seconds=floor,
        policy={"required_proven": ["independent_evidence"]},
    )
    zero.configure(PROJECT, timeout_seconds=here)
    data = zero.data("check", "tools", "--project", "shop")
    assert [row["decision"] for row in data["settings"]] == decisions


def test_the_floor_refuses_before_anything_is_sent(zero: Folder, guild: WireServer) -> None:
    """A project's file gives the server another URL, and its own MCP settings that one too."""
    other = "https://other.example.com/mcp"
    zero.configure(fixture_guild_origin=guild.origin, floor=True)
    zero.configure(PROJECT, fixture_guild_origin=guild.origin, protected_servers={"tools": other})
    zero.write(
        "usr/projects/shop/.a0proj/mcp_servers.json", {"mcpServers": {"tools": server(url=other)}}
    )
    code, lines, errors = zero.run("check", "tools", "--project", "shop")
    assert (code, errors, guild.connections) == (10, [], 0)
    assert [line for line in lines if line.startswith(("selected", "floor"))] == [
        f"selected  undecided              {PROJECT}",
        f"floor     refused: url_mismatch  {GLOBAL}",
    ]


def test_a_file_that_does_not_protect_the_server_does_not_decide(
    zero: Folder, guild: WireServer
) -> None:
    zero.configure(fixture_guild_origin=guild.origin, floor=True)
    zero.configure(PROJECT, protected_servers={})
    code, lines, _ = zero.run("check", "tools", "--project", "shop")
    assert code == 0
    assert [line for line in lines if line.startswith(("selected", "floor"))] == [
        f"selected  does not protect this server  {PROJECT}",
        f"floor     allowed                       {GLOBAL}",
    ]


def test_a_file_that_is_not_valid_but_protects_others_does_not_decide(
    zero: Folder, guild: WireServer
) -> None:
    zero.configure(fixture_guild_origin=guild.origin, floor=True)
    zero.configure(PROJECT, protected_servers={"other": "https://other.example.com/"}, typo=1)
    code, lines, _ = zero.run("check", "tools", "--project", "shop")
    assert code == 0
    assert [line for line in lines if line.startswith(("selected", "floor"))] == [
        f"selected  not valid; does not protect this server  {PROJECT}",
        f"floor     allowed                                  {GLOBAL}",
    ]
    code, lines, errors = zero.run("check", "--url", NEW, "--project", "shop")
    assert (code, lines[1:3], errors) == (12, [f"{PROJECT}:", "  typo: is not a setting"], [])


def test_the_file_of_the_profile_is_in_force(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.configure(PROFILE, fixture_guild_origin=guild.origin)
    assert zero.run("check", "tools").lines[-3] == f"selected  allowed   {PROFILE}"
    assert zero.run("check", "tools", "--profile", "").lines[-3] == f"selected  allowed   {GLOBAL}"


# --- A wrong configuration ------------------------------------------------------------------

INVALID = "invalid_configuration: The gate's settings cannot be read or do not validate."
EVERY_TOOL = "Which servers are protected cannot be told, so every MCP tool is refused."


@pytest.mark.parametrize("arguments", [["tools"], ["--url", NEW], ["stranger"]], ids=str)
def test_settings_that_are_not_valid(zero: Folder, guild: WireServer, arguments: Any) -> None:
    zero.configure(
        fixture_guild_origin=guild.origin, timeout_seconds="5", policy={"on_cauton": "allow"}
    )
    code, lines, errors = zero.run("check", *arguments)
    assert lines == [
        INVALID,
        f"{GLOBAL}:",
        "  policy.on_cauton: is not a setting",
        "  timeout_seconds: must be a number of seconds",
        RUN_LINT,
    ]
    assert (code, errors, guild.connections) == (12, [], 0)
    assert zero.data("check", *arguments) == {
        "reason": "invalid_configuration",
        "source": "selected",
        "file": GLOBAL,
        "problems": [
            {"path": "policy.on_cauton", "problem": "is not a setting"},
            {"path": "timeout_seconds", "problem": "must be a number of seconds"},
        ],
    }


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "the file: cannot be read as plain JSON, or is gone"),
        ("[]", "the file: must be an object, {...}"),
        ('{"protected_server": {}}', "protected_server: is not a setting"),
    ],
)
def test_settings_of_which_nobody_can_tell_what_they_protect(
    zero: Folder, content: str, problem: str
) -> None:
    zero.write(GLOBAL, content)
    code, lines, errors = zero.run("check", "tools")
    assert lines == [INVALID, f"{GLOBAL}:", f"  {problem}", EVERY_TOOL, RUN_LINT]
    assert (code, errors) == (12, [])


@pytest.mark.parametrize(
    "settings",
    [
        {"protected_servers": {"tools": PUBLIC}, "typo": 1},
        {"protected_servers": None, "typo": 1},
    ],
)
def test_a_valid_floor_does_not_make_up_for_a_file_that_is_not(
    zero: Folder, guild: WireServer, settings: dict[str, Any]
) -> None:
    zero.configure(fixture_guild_origin=guild.origin, floor=True)
    zero.configure(PROJECT, **settings)
    code, lines, errors = zero.run("check", "tools", "--project", "shop")
    assert (code, lines[:3], errors) == (
        12,
        [INVALID, f"{PROJECT}:", "  typo: is not a setting"],
        [],
    )


def test_a_floor_that_is_not_valid_is_named(zero: Folder) -> None:
    zero.configure(floor=True, typo=1)
    zero.configure(PROJECT)
    code, lines, errors = zero.run("check", "tools", "--project", "shop")
    assert (code, lines[1:3], errors) == (12, [f"{GLOBAL}:", "  typo: is not a setting"], [])
    assert zero.data("check", "tools", "--project", "shop")["source"] == "floor"


def test_a_malformed_digest_says_how_to_get_a_new_one(zero: Folder) -> None:
    zero.configure(protected_servers={"tools": {"url": PUBLIC, "tools": {"echo": "sha256:1"}}})
    code, lines, _ = zero.run("check", "tools")
    assert (code, lines[2:]) == (
        12,
        [
            "  protected_servers.tools.tools.echo: must be sha256: and 64 hexadecimal digits in "
            "lower case",
            RUN_LINT,
            'For new digests, write "tools": {} first, which refuses every tool; run pin.',
        ],
    )


def test_a_name_that_nothing_protects(zero: Folder) -> None:
    zero.configure(protected_servers={"tools": PUBLIC, "B": "https://b.example.com/"})
    zero.set_mcp(other="https://other.example.com/")
    code, lines, errors = zero.run("check", "other")
    assert lines == ["other: no file in force protects this server.", "Protected: tools, b."]
    assert (code, errors) == (12, [])
    assert zero.data("check", "other") == {
        "error": "not_protected",
        "server": "other",
        "protected": ["tools", "b"],
    }
    zero.configure(protected_servers={"b": PUBLIC, "tools": PUBLIC}, floor=True)
    zero.configure(PROJECT, protected_servers={"c": PUBLIC, "b": PUBLIC})
    lines = zero.run("check", "other", "--project", "shop").lines
    assert lines[1] == "Protected: c, b, tools."
    zero.configure(protected_servers={})
    assert zero.run("check", "other").lines[1] == "Protected: none."


def test_mcp_settings_that_only_the_framework_can_read(zero: Folder, guild: WireServer) -> None:
    zero.configure(fixture_guild_origin=guild.origin)
    zero.write("usr/settings.json", {"mcp_servers": "{mcpServers: {}}"})
    code, lines, errors = zero.run("check", "tools")
    assert lines == [
        "usr/settings.json: the MCP servers in it cannot be read as plain JSON",
        "Agent Zero may still read them, but what it makes of them cannot be told here.",
    ]
    assert (code, errors, guild.connections) == (12, [], 0)
    assert zero.data("check", "tools") == {
        "error": "mcp_settings_unreadable",
        "files": ["usr/settings.json"],
    }


# --- As a process ---------------------------------------------------------------------------


def test_a_process_of_its_own_ends_at_once(zero: Folder) -> None:
    """It leaves nothing behind that the interpreter would wait for."""
    with WireServer([Stall()]) as guild:
        zero.configure(fixture_guild_origin=guild.origin, timeout_seconds=0.2)
        command = [sys.executable, str(CHECKOUT / "helpers"), "check", "tools"]
        ended = subprocess.run(
            [*command, "--root", str(zero.root)], capture_output=True, text=True, timeout=30
        )
    assert ended.returncode == 11
    assert ended.stderr == f"sends {PUBLIC} to {guild.origin}\n"


def test_the_public_service_is_the_default_one(
    zero: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def evaluate(prechecked: Any) -> Any:
        told.extend(one.protection.origin for one in prechecked)
        raise LookupError

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    errors = zero.run("check", "tools").errors
    assert told == ["https://agent-guild-5d5r.onrender.com"]
    assert errors == [f"sends {PUBLIC} to https://agent-guild-5d5r.onrender.com"]
