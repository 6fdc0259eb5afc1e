"""`explain`: saved chats as the gate leaves them, and as nobody should have edited them."""

from __future__ import annotations

import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers import records
from usr.plugins.agent_guild_preflight.helpers.commands.explain import command as explain
from usr.plugins.agent_guild_preflight.helpers.commands.explain import json_cursor, saved_chats
from usr.plugins.agent_guild_preflight.helpers.commands.explain.json_cursor import (
    NOT_TAKEN,
    Cursor,
    NotRead,
)
from usr.plugins.agent_guild_preflight.helpers.commands.main import main
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import contract, observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import (
    Check,
    Status,
    Verdict,
    compute_verdict,
)
from usr.plugins.agent_guild_preflight.helpers.judgement import Judgement
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, SubReason
from usr.plugins.agent_guild_preflight.helpers.settings import files, locations
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import Source
from usr.plugins.agent_guild_preflight.helpers.untrusted import untrusted

DECISIONS = "agent_guild_preflight.decisions"
LAST = "agent_guild_preflight.last_observation"
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
GUILD = "https://guild.example"
TITLE = "Chat chat, saved 2026-03-01T12:00:00Z."
NO_DECISION = "No decision is stored in this chat."
EVERY_WORD = [(None, None), *((reason, None) for reason in Reason)] + [
    (sub_reason.reason, sub_reason) for sub_reason in SubReason
]


# Chats as the framework saves them


class Agent:
    """An agent of a chat: what the gate keeps on it is real, its time is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data: dict[str, object] = {}
        self.monkeypatch = monkeypatch
        self.number = 0

    def keep(self, minute: int, reason=None, sub_reason=None, **fields: object) -> None:
        """Keep a decision that is made some minutes after noon."""
        now = NOON.replace(minute=minute)
        self.monkeypatch.setattr(records, "time", SimpleNamespace(time=now.timestamp))
        agent = SimpleNamespace(get_data=self.data.get, set_data=self.data.__setitem__)
        fields = {
            "server": "weather",
            "endpoint": "https://mcp.example:8443",
            "tool": "forecast",
            "guild_origin": GUILD,
            **fields,
        }
        self.number += 1
        records.keep(agent, Judgement(reason, sub_reason, **fields), f"{self.number:032x}")

    @property
    def records(self) -> list[dict[str, object]]:
        return self.data[DECISIONS]


@pytest.fixture
def agent(monkeypatch) -> Agent:
    return Agent(monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "usr" / "chats").mkdir(parents=True)
    return tmp_path


def seen(age: float | None = None, text: str = "as it should be", **statuses: str):
    """Return an observation, kept evidence if it has an age, in which most checks are proven."""
    found = {check: Status(statuses.get(check.value, "proven")) for check in Check}
    return observation.Observation(
        verdict=compute_verdict(found),
        statuses=found,
        details=dict.fromkeys(Check, untrusted(text, contract.MAX_DETAIL_CHARACTERS)),
        other_checks=2,
        other_failed=0,
        method=untrusted(text),
        limits=untrusted(text),
        requested_at=NOON,
        observed_at=NOON,
        cached=age is not None,
        age_seconds=age or 0.0,
    )


def save(root: Path, *data: object, chat: str = "chat", minute: int = 0, **more: object) -> Path:
    """Save a chat with one agent for each of the given data."""
    agents = [{"number": number, "data": one} for number, one in enumerate(data)]
    text = json.dumps({"id": chat, "agents": agents, "log": {"logs": []}, **more})
    return save_text(root, text.encode(), chat=chat, minute=minute)


def save_text(root: Path, content: bytes, *, chat: str = "chat", minute: int = 0) -> Path:
    file = root / "usr" / "chats" / chat / "chat.json"
    file.parent.mkdir()
    file.write_bytes(content)
    os.utime(file, (NOON.timestamp() + 60 * minute,) * 2)
    return file


class Explained:
    """What the command said."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.code: int | str | None
        try:
            self.code = main(["explain", "--root", str(root), *arguments])
        except SystemExit as raised:
            self.code = raised.code
        self.output, errors = capsys.readouterr()
        self.errors = errors.splitlines()[-1:]

    @property
    def data(self) -> dict:
        assert (self.code, self.errors) == (0, [])
        return json.loads(self.output)

    @property
    def text(self) -> str:
        assert (self.code, self.errors) == (0, [])
        return self.output


@pytest.fixture
def explained(root, capsys):
    return lambda *arguments: Explained(root, capsys, *arguments)


# The table


def test_one_agent(root, agent, explained):
    agent.keep(1, observation=seen())
    agent.keep(2, observation=seen(age=59.9), tool="a tool\x1b[2J")
    agent.keep(3, Reason.EVIDENCE_UNAVAILABLE, SubReason.CONNECT, error=SubReason.CONNECT)
    agent.keep(4, Reason.DISPATCH_MISMATCH, server=None, endpoint=None, tool="")
    agent.keep(5, server="a" * 40, tool="b" * 40)
    save(root, agent.data)
    # Blanks at the ends of lines are none of the table's.
    assert explained().text == (
        f"""{TITLE}

time                  server                            tool, untrusted                     decision  reason                          verdict           evidence
2026-03-01T12:01:00Z  weather                           "forecast"                          allowed   -                               no_failed_checks  fresh
2026-03-01T12:02:00Z  weather                           "a tool\\x1b[2J"                     allowed   -                               no_failed_checks  cached, age 59 s
2026-03-01T12:03:00Z  weather                           "forecast"                          refused   evidence_unavailable (connect)  -                 none
2026-03-01T12:04:00Z  unknown                           ""                                  refused   dispatch_mismatch               -                 none
2026-03-01T12:05:00Z  {"a" * 29}...  "{"b" * 29}..."  allowed   -                               -                 none
"""  # noqa: E501
    )


def test_two_agents_and_a_floor(root, monkeypatch, explained):
    """The decisions of all stand in the order in which they were made."""
    main_agent, subordinate = Agent(monkeypatch), Agent(monkeypatch)
    main_agent.keep(1, observation=seen())
    subordinate.keep(2, Reason.URL_MISMATCH, source=Source.FLOOR)
    main_agent.keep(3, Reason.URL_MISMATCH, source=Source.SELECTED)
    subordinate.keep(3, Reason.CAUTION_NOT_PERMITTED, observation=seen(agent_card_signed="failed"))
    save(root, main_agent.data, subordinate.data)
    assert explained().text == (
        f"""{TITLE}

time                  agent  server   tool, untrusted  decision  reason                 refused by  verdict                evidence
2026-03-01T12:01:00Z  0      weather  "forecast"       allowed   -                      -           no_failed_checks       fresh
2026-03-01T12:02:00Z  1      weather  "forecast"       refused   url_mismatch           floor       -                      none
2026-03-01T12:03:00Z  0      weather  "forecast"       refused   url_mismatch           selected    -                      none
2026-03-01T12:03:00Z  1      weather  "forecast"       refused   caution_not_permitted  -           delegate_with_caution  fresh
"""  # noqa: E501
    )


def test_a_clock_that_went_back(root, monkeypatch, explained):
    """An agent's own order stays; its last decision is the latest that it has."""
    main_agent, subordinate = Agent(monkeypatch), Agent(monkeypatch)
    for minute in (9, 1):
        main_agent.keep(minute)
    subordinate.keep(5)
    save(root, main_agent.data, subordinate.data)
    decisions = explained("--json").data["decisions"]
    assert [(one["agent"], one["at"][14:16]) for one in decisions] == [
        (1, "05"),
        (0, "09"),
        (0, "01"),
    ]


# The latest decision in full


IN_FULL = f"""{TITLE}

The latest decision
  agent        0
  at           2026-03-01T12:02:00Z
  decision     refused
  reason       do_not_delegate: The endpoint was seen not to do what it is listed for.
  sub_reason   none
  next_step    retry_after 240 s: The same call gives the same answer until then.
  refused_by   floor
  server       weather
  tool         untrusted: "fore\\x22cast\\n"
  endpoint     https://mcp.example:8443
  verdict      do_not_delegate
  observed_at  2026-03-01T12:00:00Z
  cached       yes
  age_seconds  60.5
  tolerated    none
  id           00000000000000000000000000000002

What to do: The command check shows which of the service's checks failed; repair the server.

What it rested on
  guild_origin  https://guild.example
  error         none
  verdict       do_not_delegate
  failed        endpoint_reachable, protocol_handshake
  unknowns      payment_claim_holds
  scored        endpoint_reachable, protocol_handshake, agent_card_resolves, agent_card_signed, independent_evidence
  other_checks  2
  other_failed  0
  requested_at  2026-03-01T12:00:00Z
  observed_at   2026-03-01T12:00:00Z
  cached        yes
  age_seconds   60.5
  checks        check                 status   detail, untrusted
                endpoint_reachable    failed   "\\x1b]0;owned\\x07 \\u202e \\xe9"
                protocol_handshake    failed   "\\x1b]0;owned\\x07 \\u202e \\xe9"
                agent_card_resolves   proven   "\\x1b]0;owned\\x07 \\u202e \\xe9"
                agent_card_signed     proven   "\\x1b]0;owned\\x07 \\u202e \\xe9"
                payment_claim_holds   unknown  "\\x1b]0;owned\\x07 \\u202e \\xe9"
                independent_evidence  proven   "\\x1b]0;owned\\x07 \\u202e \\xe9"
  method        untrusted: "\\x1b]0;owned\\x07 \\u202e \\xe9"
  limits        untrusted: "\\x1b]0;owned\\x07 \\u202e \\xe9"
"""


def test_the_latest_in_full(root, agent, explained):
    agent.keep(1)
    statuses = {
        "endpoint_reachable": "failed",
        "protocol_handshake": "failed",
        "payment_claim_holds": "unknown",
    }
    agent.keep(
        2,
        Reason.DO_NOT_DELEGATE,
        tool='fore"cast\n',
        source=Source.FLOOR,
        observation=seen(60.5, "\x1b]0;owned\x07 \u202e é", **statuses),
        cache_ttl_seconds=300,
    )
    save(root, agent.data)
    assert explained("--last").text == IN_FULL


def test_the_latest_without_an_observation(root, agent, explained):
    agent.keep(1, observation=seen())
    timeout = SubReason.TIMEOUT
    agent.keep(2, Reason.EVIDENCE_UNAVAILABLE, timeout, error=timeout, source=Source.SELECTED)
    save(root, agent.data)
    assert explained("--last").text == (
        f"""{TITLE}

The latest decision
  agent        0
  at           2026-03-01T12:02:00Z
  decision     refused
  reason       evidence_unavailable: The preflight service gave no usable answer.
  sub_reason   timeout: The deadline passed before the answer was whole.
  next_step    retry_later: The same call may be tried again later.
  refused_by   selected
  server       weather
  tool         untrusted: "forecast"
  endpoint     https://mcp.example:8443
  verdict      none
  observed_at  none
  cached       no
  age_seconds  none
  tolerated    none
  id           00000000000000000000000000000002

What to do: Try again later; see the sub-reason. on_unavailable says what a missing answer means.

It rested on no observation
  guild_origin  https://guild.example
  error         timeout: The deadline passed before the answer was whole.
"""
    )


@pytest.mark.parametrize(
    ("sub_reason", "remedy"),
    [
        (SubReason.CLOCK, SubReason.CLOCK.remedy),
        (SubReason.STALE, SubReason.STALE.remedy),
        (SubReason.TIMEOUT, Reason.EVIDENCE_UNAVAILABLE.remedy),
    ],
)
def test_a_sub_reason_may_have_its_own_remedy(root, agent, explained, sub_reason, remedy):
    agent.keep(1, Reason.EVIDENCE_UNAVAILABLE, sub_reason, error=sub_reason)
    save(root, agent.data)
    output = explained("--last").text
    assert f"\n  sub_reason   {sub_reason.value}: {sub_reason.sentence}\n" in output
    assert f"\nWhat to do: {remedy}\n" in output


def test_the_latest_was_allowed_of_a_subordinate(root, monkeypatch, explained):
    """There is nothing to do, and what was tolerated is named."""
    main_agent, subordinate = Agent(monkeypatch), Agent(monkeypatch)
    main_agent.keep(1, Reason.URL_MISMATCH)
    tolerated = ("agent_card_signed", "delegate_with_caution")
    subordinate.keep(2, observation=seen(agent_card_signed="unknown"), tolerated=tolerated)
    save(root, main_agent.data, subordinate.data)
    lines = explained("--last").text.splitlines()
    assert lines[3:8] == [
        "  agent        1",
        "  at           2026-03-01T12:02:00Z",
        "  decision     allowed",
        "  reason       none",
        "  sub_reason   none",
    ]
    assert "  tolerated    agent_card_signed, delegate_with_caution" in lines
    assert "  unknowns      agent_card_signed" in lines
    assert not any("What to do" in line for line in lines)


def test_the_largest_of_everything(root, agent, explained):
    """What is kept is cut to size; nothing of it is lost here."""
    agent.keep(1, tool="\\" * 5_000, observation=seen(text="\0" * 5_000))
    save(root, agent.data)
    output = explained("--last").text
    tool, detail, text = "\\" * 200, r"\x00" * 75, r"\x00" * 150
    assert f'\n  tool         untrusted: "{tool}"\n' in output
    assert output.count(f'  "{detail}"\n') == len(Check)
    assert f'\n  method        untrusted: "{text}"\n  limits        untrusted: "{text}"\n' in output


# The same for a program


def test_all_as_data(root, agent, explained):
    agent.keep(1, observation=seen(), tolerated=("agent_card_signed",))
    agent.keep(2, Reason.ENDPOINT_REFUSED, SubReason.PORT, endpoint=None)
    save(root, agent.data, name="Weather")
    assert explained("--json").data == {
        "chat": {"id": "chat", "saved_at": "2026-03-01T12:00:00Z", "name": "Weather"},
        "left_out": 0,
        "decisions": [
            {
                "agent": 0,
                "at": "2026-03-01T12:01:00Z",
                "decision": "allowed",
                "reason": None,
                "sub_reason": None,
                "next_step": None,
                "refused_by": None,
                "server": "weather",
                "tool": "untrusted: forecast",
                "endpoint": "https://mcp.example:8443",
                "verdict": "no_failed_checks",
                "observed_at": "2026-03-01T12:00:00Z",
                "cached": False,
                "age_seconds": 0.0,
                "tolerated": ["agent_card_signed"],
                "id": "00000000000000000000000000000001",
            },
            {
                "agent": 0,
                "at": "2026-03-01T12:02:00Z",
                "decision": "refused",
                "reason": "endpoint_refused",
                "sub_reason": "port",
                "next_step": "operator",
                "refused_by": None,
                "server": "weather",
                "tool": "untrusted: forecast",
                "endpoint": None,
                "verdict": None,
                "observed_at": None,
                "cached": False,
                "age_seconds": None,
                "tolerated": [],
                "id": "00000000000000000000000000000002",
            },
        ],
    }


@pytest.mark.parametrize(("reason", "sub_reason"), EVERY_WORD)
@pytest.mark.parametrize("source", [None, *Source])
def test_whatever_the_gate_keeps_is_a_record(root, agent, explained, reason, sub_reason, source):
    """The form in which decisions are kept and the one that is read are the same."""
    agent.keep(1, tool="\0" * 300)
    observation = None if sub_reason else seen(3.25, "\0" * 999, agent_card_signed="failed")
    words = (*Check, *Verdict, *SubReason) if reason is None else ()
    agent.keep(
        2,
        reason,
        sub_reason,
        server="ä" * 128,
        observation=observation,
        error=sub_reason,
        tolerated=tuple(word.value for word in words),
        source=source,
        cache_ttl_seconds=86_400.0,
    )
    save(root, agent.data)
    data = explained("--last", "--json").data
    assert data["left_out"] == 0
    assert data["decisions"] == [{"agent": 0, **agent.records[-1]}]
    kept = agent.data[LAST]
    assert data["observation"] == (
        kept if observation else {name: kept[name] for name in ("guild_origin", "error")}
    )
    shown = explained("--last").text
    assert all(f"\n  {name} " in shown for name in agent.records[-1])
    assert all(f"\n  {name} " in shown for name in data["observation"])


# Which chat


def test_the_chat_that_was_saved_last(root, agent, explained):
    """Whether it has decisions or not: it is the one that the operator has just seen."""
    save(root, agent.data, chat="new", minute=9, name="Weather")
    agent.keep(1)
    save(root, agent.data, chat="old", minute=8)
    assert explained().text == (
        f'Chat new, saved 2026-03-01T12:09:00Z, named "Weather".\n{NO_DECISION}\n'
    )
    assert explained("old").text.startswith("Chat old, saved 2026-03-01T12:08:00Z.\n\ntime ")
    assert len(explained("old", "--json").data["decisions"]) == 1


@pytest.mark.parametrize("chats", ["none", "empty", "a file", "other things"])
def test_no_chat_at_all(root, explained, chats):
    folder = root / "usr" / "chats"
    if chats in ("none", "a file"):
        folder.rmdir()
    if chats == "a file":
        folder.touch()
    if chats == "other things":
        (folder / "empty").mkdir()
        (folder / "file.json").touch()
    assert explained().text == "There is no saved chat in usr/chats.\n"
    assert explained("--last").text == "There is no saved chat in usr/chats.\n"
    assert explained("--json").data == {"chat": None, "left_out": 0, "decisions": []}
    assert explained("--last", "--json").data == {
        "chat": None,
        "left_out": 0,
        "decisions": [],
        "observation": None,
    }


def test_no_decision(root, explained):
    save(root, {}, None, {DECISIONS: None, "responses_state": {}})
    assert explained("chat").text == f"{TITLE}\n{NO_DECISION}\n"
    assert explained("--last").text == f"{TITLE}\n{NO_DECISION}\n"
    data = explained("--last", "--json").data
    assert (data["left_out"], data["decisions"], data["observation"]) == (0, [], None)


ELSEWHERE = {
    "another": '"another"',
    "": '""',
    ".": '"."',
    "..": '".."',
    "../chats/chat": '"../chats/chat"',
    "chat/": '"chat/"',
    "chat\\": r'"chat\\"',
    "/etc": '"/etc"',
    "chat/../chat": '"chat/../chat"',
    "chat\0": r'"chat\x00"',
    '\x1b[2J"\n': r'"\x1b[2J\x22\n"',
    "\u202e\ud800": r'"\u202e\ud800"',
    "a" * 5_000: f'"{"a" * 80}..."',
}


@pytest.mark.parametrize(("chat", "quoted"), ELSEWHERE.items(), ids=ascii)
def test_a_chat_that_is_not_there(root, explained, chat, quoted):
    save(root)
    found = explained(chat)
    assert (found.code, found.output) == (2, "")
    assert found.errors == [
        "python -m usr.plugins.agent_guild_preflight.helpers explain: error: there is no saved "
        f"chat {quoted}; a chat's id is the name of its folder in usr/chats"
    ]


def a_link_out(folder: Path, outside: Path) -> None:
    folder.symlink_to(outside)


def a_file_that_leads_out(folder: Path, outside: Path) -> None:
    folder.mkdir()
    (folder / "chat.json").symlink_to(outside / "chat.json")


def a_loop(folder: Path, outside: Path) -> None:
    folder.symlink_to(folder)


def a_folder_for_a_file(folder: Path, outside: Path) -> None:
    (folder / "chat.json").mkdir(parents=True)


def a_pipe(folder: Path, outside: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "chat.json")


@pytest.mark.parametrize(
    "make", [a_link_out, a_file_that_leads_out, a_loop, a_folder_for_a_file, a_pipe]
)
def test_what_is_no_chat_of_this_folder(root, agent, explained, make):
    agent.keep(1)
    file = save(root, agent.data, chat="moved")
    outside = file.parent.rename(root / "outside")
    make(root / "usr" / "chats" / "trap", outside)
    assert explained("trap").code == 2
    assert explained().text == "There is no saved chat in usr/chats.\n"


def test_a_chats_folder_that_is_a_link(root, agent, explained):
    """An operator may keep all chats on another disk."""
    agent.keep(1)
    save(root, agent.data)
    (root / "usr" / "chats").rename(root / "disk")
    (root / "usr" / "chats").symlink_to(root / "disk")
    assert explained("chat").text == explained().text
    assert explained().text.startswith(f"{TITLE}\n\ntime ")


NAMES = {
    "Wetter in Köln": '"Wetter in Köln"',
    '\x1b[2J"\r\n\u2028\u202e\ud800\\': r'"\x1b[2J\x22\r\n\u2028\u202e\ud800\\"',
    "x" * 81: f'"{"x" * 80}..."',
}


@pytest.mark.parametrize(("name", "quoted"), NAMES.items(), ids=ascii)
def test_the_name_of_a_chat(root, explained, name, quoted):
    save(root, name=name)
    assert explained().text == f"{TITLE[:-1]}, named {quoted}.\n{NO_DECISION}\n"


@pytest.mark.parametrize("name", [None, "", 7, ["x"], {}])
def test_a_chat_without_a_name(root, explained, name):
    save(root, name=name)
    assert explained().text == f"{TITLE}\n{NO_DECISION}\n"


def test_a_folder_with_a_hostile_name(root, explained):
    save(root, chat="\x1b[2J\n")
    assert explained().text == f"Chat \\x1b[2J\\n, saved {TITLE[17:]}\n{NO_DECISION}\n"


def test_a_file_of_no_time(root, explained, monkeypatch):
    file = save(root)
    chat = saved_chats.SavedChat("chat", file, 1e20)
    monkeypatch.setattr(explain, "newest_chat", lambda folder: chat)
    assert explained().text == f"Chat chat, saved at an unknown time.\n{NO_DECISION}\n"
    assert explained("--json").data["chat"] == {"id": "chat", "saved_at": None, "name": None}


# Chats that somebody has edited


UNREADABLE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"agents"',
    b"{}",
    b'{"agents": null}',
    b'{"agents": {"0": {}}}',
    b'\xef\xbb\xbf{"agents": []}',
    b'{"agents": []}\xff',
    b'{"agents": []} {}',
    b'{"agents": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"agents": [' + b"9" * 10_000 + b"]}",
]


@pytest.mark.parametrize("content", UNREADABLE, ids=lambda content: ascii(content[:30]))
def test_a_file_that_is_no_chat(root, explained, content):
    save_text(root, content)
    found = explained()
    assert (found.code, found.errors) == (11, [])
    assert found.output == (
        f"{TITLE}\nIts chat.json is no saved chat, cannot be read or has more than 64 MiB.\n"
    )
    found = explained("chat", "--last", "--json")
    assert (found.code, json.loads(found.output)["decisions"]) == (11, [])


def test_a_file_that_is_too_large(root, agent, explained, monkeypatch):
    agent.keep(1)
    file = save(root, agent.data)
    monkeypatch.setattr(files, "MAX_FILE_BYTES", file.stat().st_size)
    assert explained().code == 0
    monkeypatch.setattr(files, "MAX_FILE_BYTES", file.stat().st_size - 1)
    assert explained().code == 11


def test_a_file_that_goes_meanwhile(root, agent, explained, monkeypatch):
    file = save(root)
    chat = saved_chats.newest_chat(file.parents[1])
    file.unlink()
    monkeypatch.setattr(explain, "newest_chat", lambda folder: chat)
    assert explained().code == 11


NO_RECORDS = [None, 7, "text", [], [[]], {}, {"id": 1}]


def test_entries_that_are_no_records(root, agent, explained):
    agent.keep(1, observation=seen())
    agent.keep(2)
    record, other = agent.records
    save(root, {DECISIONS: [record, *NO_RECORDS, other], LAST: agent.data[LAST]})
    output = explained().text.splitlines()
    assert output[:2] == [
        TITLE,
        "Entries left out, because they are no records of this plugin: 7.",
    ]
    assert [line[:20] for line in output[4:]] == [record["at"], other["at"]]
    assert explained("--json").data["left_out"] == 7


@pytest.mark.parametrize("entry", [None, "text", {"decision": "allowed"}])
def test_an_observation_of_an_entry_that_is_no_record(root, agent, explained, entry):
    """What is stored belongs to the very last entry, so it is not shown with another."""
    agent.keep(1, observation=seen())
    save(root, {DECISIONS: [*agent.records, entry], LAST: agent.data[LAST]})
    assert explained("--last").text.splitlines()[-1] == (
        "What it rested on is not stored in the form that this plugin gives it."
    )
    assert explained("--last", "--json").data["observation"] is None


@pytest.mark.parametrize("entries", ["text", 7, {"id": 1}, True, {}])
def test_entries_that_are_no_list(root, explained, entries):
    save(root, {DECISIONS: entries})
    assert explained().text == (
        f"{TITLE}\nEntries left out, because they are no records of this plugin: 1.\n"
        f"{NO_DECISION}\n"
    )


def test_more_entries_than_the_gate_keeps(root, agent, explained):
    """Only the last ones can be ours."""
    for minute in range(21):
        agent.keep(minute)
    records = [{**agent.records[0], "at": "2026-03-01T11:59:00Z"}, *agent.records]
    save(root, {DECISIONS: records})
    data = explained("--json").data
    assert data["left_out"] == 1
    assert [one["at"] for one in data["decisions"]] == [one["at"] for one in agent.records]


@pytest.mark.parametrize(
    "agents",
    [
        [None, 7, "text", []],
        [{}, {"data": None}, {"data": []}, {"data": "text"}],
    ],
)
def test_agents_that_are_none(root, explained, agents):
    save(root, agents=agents)
    assert explained().text == f"{TITLE}\n{NO_DECISION}\n"


@pytest.mark.parametrize("number", [None, "0", True, -1, 10_000, 1.0, [], 10**30])
def test_an_agent_without_its_number(root, agent, explained, number):
    """Its place in the chat is its number."""
    agent.keep(1)
    save(root, agents=[{}, {"number": number, "data": agent.data}])
    assert [one["agent"] for one in explained("--json").data["decisions"]] == [1]


EVIL = [
    None,
    True,
    7,
    -1,
    1e400,
    float("nan"),
    "",
    "\x1b[2J",
    "untrusted: \x1b[2J",
    "untrusted: é",
    'untrusted: "',
    "untrusted: " + "x" * 601,
    "refused\n",
    "\ud800",
    "x" * 100_000,
    [],
    [[]],
    ["\x1b"],
    {},
    {"check": "\x1b"},
    [{"check": "endpoint_reachable", "status": "proven", "detail": "\x1b[2J"}],
    [{"check": ["endpoint_reachable"], "status": {}, "detail": None}],
]


def run(root: Path, chat: str, *, last: bool = True) -> dict:
    """Run the command without its parser, for speed; give the data, if all is printable."""
    place = locations.Locations(root)
    outcome = explain.run(SimpleNamespace(locations=place, chat=chat, last=last))
    assert outcome.exit == 0
    assert all(line.isprintable() for line in outcome.lines)
    return outcome.data


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: ascii(evil)[:30])
def test_evil_in_each_field_of_a_record(root, agent, evil):
    """Such a record is left out, or the value is one that the field may have."""
    agent.keep(1, Reason.DO_NOT_DELEGATE, observation=seen(1.5), source=Source.SELECTED)
    record = agent.records[0]
    for name in (*record, "one more"):
        edited = {**record, name: evil}
        save(root, {DECISIONS: [edited]}, chat=name)
        data = run(root, name, last=False)
        kept = [{"agent": 0, **{key: edited[key] for key in record}}]
        assert data["decisions"] == (kept if data["left_out"] == 0 else [])
        assert run(root, name)["decisions"] == data["decisions"]


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: ascii(evil)[:30])
def test_evil_in_each_field_of_an_observation(root, agent, evil):
    """Such an observation is not shown, or the value is one that the field may have."""
    agent.keep(1, observation=seen(1.5, agent_card_signed="unknown"))
    observation = agent.data[LAST]
    for name in (*observation, "one more"):
        edited = {**observation, name: evil}
        save(root, {DECISIONS: agent.records, LAST: edited}, chat=name)
        kept = {key: edited[key] for key in observation}
        assert run(root, name)["observation"] in (None, kept)
    save(root, {DECISIONS: agent.records, LAST: evil}, chat="whole")
    whole = run(root, "whole")["observation"]
    assert whole in (None, {"guild_origin": None, "error": None})


CONTRADICTIONS = [
    {"decision": "allowed"},
    {"reason": None},
    {"reason": None, "sub_reason": None},
    {"reason": "evidence_inconsistent"},
    {"reason": "url_mismatch"},
    {"reason": "timeout"},
    {"sub_reason": "depth"},
    {"sub_reason": "url_mismatch"},
]


@pytest.mark.parametrize("edit", CONTRADICTIONS)
def test_records_that_contradict_themselves(root, agent, explained, edit):
    agent.keep(1, Reason.EVIDENCE_UNAVAILABLE, SubReason.TIMEOUT, error=SubReason.TIMEOUT)
    save(root, {DECISIONS: [{**agent.records[0], **edit}]})
    assert explained("--json").data["left_out"] == 1


def test_an_observation_that_contradicts_itself(root, agent, explained):
    """One that was not obtained has no checks."""
    agent.keep(1, observation=seen())
    save(root, {DECISIONS: agent.records, LAST: {**agent.data[LAST], "verdict": None}})
    assert explained("--last", "--json").data["observation"] is None


def test_a_record_of_an_older_version(root, agent, explained):
    """A field that may be null may also be missing."""
    agent.keep(1, Reason.URL_MISMATCH)
    save(root, {DECISIONS: [{k: v for k, v in agent.records[0].items() if k != "refused_by"}]})
    assert explained("--json").data["decisions"] == [{"agent": 0, **agent.records[0]}]


KEYS = [DECISIONS, LAST, "data", "number", "name"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner),
    max_leaves=20,
)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_anything_in_a_chat(tmp_path_factory, decisions, observation, agent):
    file = tmp_path_factory.getbasetemp() / "anything.json"
    data = {DECISIONS: decisions, LAST: observation}
    file.write_text(json.dumps({"agents": [agent, {"data": data}], "name": agent}))
    chat = saved_chats.SavedChat("chat", file, 0.0)
    contents = chat.read()
    assert contents is not None
    assert contents.decisions == []
    assert (contents.left_out > 0) == (decisions not in (None, []))


# It opens no socket


def test_no_socket_is_opened(root, agent, explained, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket")

    agent.keep(1, observation=seen())
    save(root, agent.data)
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    for arguments in ((), ("--last",), ("chat", "--json")):
        assert explained(*arguments).code == 0


# Reading a large text without building it


def walked(cursor: Cursor) -> object:
    """Return the value at a cursor, gone through in full."""
    if cursor.opens == b"{":
        return {key: walked(cursor) for key in cursor.members()}
    if cursor.opens == b"[":
        return [walked(cursor) for _ in cursor.items()]
    return cursor.take(10**6)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=20), inner),
    max_leaves=30,
)


@given(VALUES, st.sampled_from([None, 0, 1]), st.booleans())
def test_what_a_cursor_goes_through_is_what_the_library_parses(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    expected = json.loads(text)
    cursor = Cursor(text + b" \n")
    assert walked(cursor) == expected
    cursor.require_end()
    taken = Cursor(b"\t" + text)
    assert taken.take(len(text)) == expected
    taken.require_end()
    assert Cursor(text).take(len(text) - 1) is NOT_TAKEN
    if text[0] in b"[{":
        for end in range(len(text)):
            with pytest.raises(NotRead):
                Cursor(text[:end]).skip()


@given(VALUES, VALUES)
def test_a_cursor_passes_over_one_value_and_no_more(one, other):
    text = json.dumps([one, other, {"a": one, "b": other}]).encode()
    found = []
    cursor = Cursor(text)
    for number, _ in enumerate(cursor.items()):
        if number < 2:
            found.append(cursor.take(10**6))
            continue
        for key in cursor.members():
            cursor.skip() if key == "a" else found.append(cursor.take(10**6))
    cursor.require_end()
    assert found == json.loads(json.dumps([one, other, other]))


BROKEN = [
    b"", b" ", b"[", b"]", b"[}", b"[[]", b'["', b'["\\"]', b"[1", b"[1 2]", b"[1,]x", b"[,]", b"[1,,2]",
    b"{1:2}", b'{"a"}', b'{"a" 1}', b'{"a":}', b'{"a":1,}', b'{"a":1 "b":2}', b"{,}", b"truex", b"tru",
    b"01", b"1.", b"-", b"+1", b"1e", b"nan", b"'a'", b"1" * 4301, b"\xff", b'"\xe9"', b"[[{]}]",
    b"[] []",
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: ascii(text[:20]))
def test_what_a_cursor_does_not_go_through(text):
    def go_through() -> None:
        cursor = Cursor(text)
        walked(cursor)
        cursor.require_end()

    with pytest.raises(NotRead):
        go_through()


def test_how_deep_a_cursor_passes_over():
    Cursor(b"[" * 1_000 + b"]" * 1_000).skip()
    with pytest.raises(NotRead):
        Cursor(b"[" * 1_010 + b"]" * 1_010).skip()


def test_a_key_may_be_written_in_escapes(root, agent, explained):
    """And the last of two that are the same counts, as it does for the library."""
    agent.keep(1)
    decisions = json.dumps(agent.records)
    save_text(
        root,
        b'{"agents": [], "\\u0061gents": [{"data": {"%b": 7, "%b": %b}, "number": 4}], "name": "a",'
        b'"n\\u0061me": "b"}'
        % (DECISIONS.encode(), DECISIONS.replace(".", "\\u002e").encode(), decisions.encode()),
    )
    data = explained("--json").data
    assert (data["chat"]["name"], data["left_out"]) == ("b", 0)
    assert [one["agent"] for one in data["decisions"]] == [4]


@pytest.mark.parametrize("place", ["log", "text", "list", "deeper"])
def test_our_keys_elsewhere_in_a_chat_are_nothing(root, agent, explained, place):
    """A message may quote a chat, and a log holds what a tool has said."""
    agent.keep(1)
    ours = {DECISIONS: agent.records}
    more = {
        "log": {"log": {"agents": [{"data": ours}], **ours}},
        "text": {"text": json.dumps({"agents": [{"data": ours}]})},
        "list": {"data": ours, DECISIONS: agent.records},
        "deeper": {"log": [[{"agents": [{"data": ours}]}]]},
    }[place]
    save(root, {"data": ours, "history": json.dumps(ours), "list": [DECISIONS, ours]}, **more)
    assert explained().text == f"{TITLE}\n{NO_DECISION}\n"


def test_an_entry_too_long_to_be_ours(root, agent, explained):
    agent.keep(1)
    record = {**agent.records[0], "more": "x" * saved_chats.MAX_ENTRY_BYTES}
    save(root, {DECISIONS: [record, *agent.records], LAST: record}, name="n" * 70_000)
    data = explained("--json").data
    assert (data["left_out"], len(data["decisions"]), data["chat"]["name"]) == (1, 1, None)


def test_a_chat_of_too_many_parts_says_that_it_is_left_out(root, agent, explained, monkeypatch):
    agent.keep(1)
    save(root, agent.data, log=[[[]]] * 1_000)
    assert explained("chat").code == 0
    monkeypatch.setattr(json_cursor, "MAX_STEPS", 1_000)
    found = explained("chat")
    assert (found.code, found.errors) == (11, [])
    assert found.output == (
        f"{TITLE}\nIts chat.json has too many parts to be gone through; all of it is left out.\n"
    )
