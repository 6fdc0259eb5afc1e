"""Saved chats: which there are, and what the gate left in one.

Rules of this module:

1. A chat is a folder of usr/chats. Nothing outside of usr/chats is read, wherever a link leads.
2. Anybody may have edited a saved chat. A record or an observation that does not have, field
   by field, the form in which `records` keeps it is left out, and records left out are
   counted.
3. What has that form is safe to print: words of our vocabularies, numbers, times, names of
   servers, and remote text as `untrusted` escapes it and cuts it to size.
4. Of a chat only these entries are built; the rest is passed over, see `json_cursor`.

Source: the framework's `save_tmp_chat`, which writes the data of a chat's agents, each the
subordinate of the one before, to usr/chats/<id>/chat.json.
"""

from __future__ import annotations

import heapq
import re
import stat
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...guild_preflight.contract import MAX_DETAIL_CHARACTERS, MAX_OTHER_CHECKS
from ...guild_preflight.observation import written
from ...guild_preflight.verdicts import Check, Status, Verdict
from ...reasons import Reason, SubReason
from ...records import DECISIONS_KEY, LAST_OBSERVATION_KEY, MAX_RECORDS, MAX_TOOL_CHARACTERS
from ...settings.files import entries, read_bytes
from ...settings.in_force import Source
from ...untrusted import MARK, MAX_CHARACTERS
from .json_cursor import Cursor

CHAT_FILE: Final = "chat.json"
MAX_AGENT_NUMBER: Final = 9_999
MAX_ENTRY_BYTES: Final = 64 * 1024  # ten times what an entry of ours has at most

Fields = dict[str, Any]
Test = Callable[[Any], bool]


class Decision(NamedTuple):
    """One stored decision.

    Attributes:
        agent: the number of the agent that has it.
        record: every field of the record.
        observation: what it rested on; None for all but an agent's latest decision, and where
            that is not in our form.
    """

    agent: int
    record: Fields
    observation: Fields | None = None


class Contents(NamedTuple):
    """What one chat holds.

    Attributes:
        name: the chat's name, any text, for which see `visible`; empty without one.
        agents: how many agents it has.
        decisions: those stored, the latest last.
        left_out: how many entries among them are no records of ours.
    """

    name: str
    agents: int
    decisions: list[Decision]
    left_out: int


@dataclass(frozen=True, slots=True)
class SavedChat:
    """One saved chat.

    Attributes:
        id: the name of its folder, any text, for which see `visible`.
        file: its file, absolute.
        modified: when that was written, in seconds since 1970, as the file claims.
    """

    id: str
    file: Path
    modified: float

    @property
    def saved_at(self) -> str | None:
        """When it was saved: UTC, ISO 8601; None where the file claims what is no time."""
        try:
            return written(datetime.fromtimestamp(self.modified, UTC))
        except (OSError, OverflowError, ValueError):
            return None

    def read(self) -> Contents | None:
        """Return what it holds; None when its file cannot be read or is no saved chat.

        Raises:
            TooIntricate: it has too many parts to be gone through.
        """
        try:
            name, agents = _read_chat(Cursor(read_bytes(self.file)))
        except ValueError:  # `NotRead` is one
            return None
        if agents is None:
            return None
        of_agents = []
        left_out = 0
        for place, agent in enumerate(agents):
            decisions, others = _decisions(agent, place)
            of_agents.append(decisions)
            left_out += others
        # Each agent's stay in the order in which they were made, whatever its clock said.
        merged = list(heapq.merge(*of_agents, key=lambda decision: str(decision.record["at"])))
        return Contents(name, len(agents), merged, left_out)


def find_chat(folder: Path, chat_id: str) -> SavedChat | None:
    """Look for a chat.

    Args:
        folder: usr/chats of an Agent Zero folder.
        chat_id: any text.

    Returns:
        The chat; None when there is none, it lies elsewhere, or its file is no plain file.
    """
    if chat_id in ("", ".", "..") or "/" in chat_id or "\\" in chat_id:
        return None
    try:
        file = (folder / chat_id / CHAT_FILE).resolve(strict=True)
        status = file.stat()
        is_inside = file.is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # gone, a loop of links, no name for a file
        return None
    if not is_inside or not stat.S_ISREG(status.st_mode):
        return None
    return SavedChat(chat_id, file, status.st_mtime)


def newest_chat(folder: Path) -> SavedChat | None:
    """Return the chat that was saved last.

    Args:
        folder: usr/chats of an Agent Zero folder; need not exist.

    Returns:
        The chat; None when there is none.
    """
    chats = [chat for name in entries(folder) if (chat := find_chat(folder, name)) is not None]
    return max(chats, key=lambda chat: (chat.modified, chat.id), default=None)


# The way to our entries


class _Agent(NamedTuple):
    """What a chat stores of one agent, as far as it matters here.

    Attributes:
        number: what stands for its number.
        entries: the last of its entries; `NOT_TAKEN` for one that is too long to be ours.
        others: how many entries it has before those.
        observation: what stands for the latest one that a decision rested on.
    """

    number: Any = None
    entries: Sequence[Any] = ()
    others: int = 0
    observation: Any = None


def _read_chat(cursor: Cursor) -> tuple[str, list[_Agent] | None]:
    """Return the name of a chat and its agents, None where it has no list of them."""
    name, agents = None, None
    for key in cursor.members():
        if key == "agents" and cursor.opens == b"[":
            agents = [_read_agent(cursor) for _ in cursor.items()]
        elif key == "agents":
            cursor.skip()
            agents = None
        elif key == "name":
            name = cursor.take(MAX_ENTRY_BYTES)
        else:
            cursor.skip()
    cursor.require_end()
    return name if isinstance(name, str) else "", agents


def _read_agent(cursor: Cursor) -> _Agent:
    number, agent = None, _Agent()
    if cursor.opens != b"{":
        cursor.skip()
        return agent
    for key in cursor.members():
        if key == "number":
            number = cursor.take(MAX_ENTRY_BYTES)
        elif key == "data":
            agent = _read_data(cursor)
        else:
            cursor.skip()
    return agent._replace(number=number)


def _read_data(cursor: Cursor) -> _Agent:
    agent = _Agent()
    if cursor.opens != b"{":
        cursor.skip()
        return agent
    for key in cursor.members():
        if key == DECISIONS_KEY:
            entries, others = _read_entries(cursor)
            agent = agent._replace(entries=entries, others=others)
        elif key == LAST_OBSERVATION_KEY:
            agent = agent._replace(observation=cursor.take(MAX_ENTRY_BYTES))
        else:
            cursor.skip()
    return agent


def _read_entries(cursor: Cursor) -> tuple[Sequence[Any], int]:
    """Return the last entries, and how many there are before them."""
    if cursor.opens != b"[":
        entry = cursor.take(MAX_ENTRY_BYTES)
        return ([] if entry is None else [entry]), 0
    last: deque[Any] = deque(maxlen=MAX_RECORDS)
    count = 0
    for _ in cursor.items():
        last.append(cursor.take(MAX_ENTRY_BYTES))
        count += 1
    return list(last), count - len(last)


def _decisions(agent: _Agent, place: int) -> tuple[list[Decision], int]:
    """Return the decisions of one agent, and how many entries are no records of ours."""
    number = agent.number
    is_number = type(number) is int and 0 <= number <= MAX_AGENT_NUMBER
    records = [_record(entry) for entry in agent.entries]
    found = [Decision(number if is_number else place, record) for record in records if record]
    if records and records[-1]:  # the stored observation is that of the very last entry
        found[-1] = found[-1]._replace(observation=_observation(agent.observation))
    return found, agent.others + len(records) - len(found)


# The form in which `records` keeps things


def _one_of(*words: str) -> Test:
    return lambda value: isinstance(value, str) and value in words


def _matches(pattern: str) -> Test:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _untrusted(characters: int) -> Test:
    return _matches(f"{re.escape(MARK)}[ !#-~]{{0,{characters}}}")  # ASCII, no quotation mark


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(test(item) for item in value)


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_OTHER_CHECKS


def _is_age(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 10**9  # NaN is neither


def _is_check(value: Any) -> bool:
    return _fields(value, _CHECK) is not None


_TIME: Final = _matches(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_ORIGIN: Final = _matches(r"https?://[!-~]{1,300}")
_CHECK: Final[Mapping[str, Test]] = {
    "check": _one_of(*Check),
    "status": _one_of(*Status),
    "detail": _untrusted(MAX_DETAIL_CHARACTERS),
}
_RECORD: Final[Mapping[str, Test]] = {
    "at": _TIME,
    "decision": _one_of("allowed", "refused"),
    "reason": _or_none(_one_of(*Reason)),
    "sub_reason": _or_none(_one_of(*SubReason)),
    "next_step": _or_none(_matches(r"operator|retry_later|retry_after [0-9]{1,9} s")),
    "refused_by": _or_none(_one_of(*Source)),
    "server": _or_none(_matches(r"\w{1,400}")),  # a normalised name
    "tool": _untrusted(MAX_TOOL_CHARACTERS),
    "endpoint": _or_none(_ORIGIN),
    "verdict": _or_none(_one_of(*Verdict)),
    "observed_at": _or_none(_TIME),
    "cached": _is_boolean,
    "age_seconds": _or_none(_is_age),
    "tolerated": _list_of(_one_of(*Check, *Verdict, *SubReason)),
    "unforeseen": _or_none(_matches(r"[\x21-\x7e]{1,64}(?: in [a-z_.]{1,80}, line [0-9]{1,6})?")),
    "id": _matches(r"[0-9a-f]{32}"),
}
_OBSERVATION: Final[Mapping[str, Test]] = {
    "guild_origin": _or_none(_ORIGIN),
    "error": _or_none(_one_of(*SubReason)),
    "verdict": _or_none(_one_of(*Verdict)),
    "failed": _or_none(_list_of(_one_of(*Check))),
    "unknowns": _or_none(_list_of(_one_of(*Check))),
    "scored": _or_none(_list_of(_one_of(*Check))),
    "other_checks": _or_none(_is_count),
    "other_failed": _or_none(_is_count),
    "requested_at": _or_none(_TIME),
    "observed_at": _or_none(_TIME),
    "cached": _or_none(_is_boolean),
    "age_seconds": _or_none(_is_age),
    "checks": _or_none(_list_of(_is_check)),
    "method": _or_none(_untrusted(MAX_CHARACTERS)),
    "limits": _or_none(_untrusted(MAX_CHARACTERS)),
}
_FAMILIES: Final = {sub_reason.value: sub_reason.reason.value for sub_reason in SubReason}
_WITHOUT_ANSWER: Final = ("guild_origin", "error")  # of an observation that was not obtained


def _fields(found: object, tests: Mapping[str, Test]) -> Fields | None:
    """Return an object's fields, without any others, if each is what it must be."""
    if not isinstance(found, dict):
        return None
    fields = {name: found.get(name) for name in tests}
    return fields if all(test(fields[name]) for name, test in tests.items()) else None


def _record(entry: object) -> Fields | None:
    record = _fields(entry, _RECORD)
    if record is None or (record["decision"] == "refused") != (record["reason"] is not None):
        return None
    if record["unforeseen"] is None:  # as every decision but `internal_error` is kept
        del record["unforeseen"]
    belongs_to = _FAMILIES.get(record["sub_reason"], record["reason"])
    return record if belongs_to == record["reason"] else None


def _observation(found: object) -> Fields | None:
    """Return an observation; one that was not obtained has two fields only."""
    observation = _fields(found, _OBSERVATION)
    if observation is None or observation["verdict"] is not None:
        return observation
    obtained = [name for name, value in observation.items() if value is not None]
    if not set(obtained) <= set(_WITHOUT_ANSWER):
        return None
    return {name: observation[name] for name in _WITHOUT_ANSWER}
