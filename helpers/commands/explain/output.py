"""What `explain` has to say of a chat: lines for a person, data for a program.

Remote text is shown in quotation marks and called untrusted, in the form in which it is kept:
escaped and cut to size.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...reasons import NextStep, Reason, SubReason
from ...untrusted import MARK, MAX_CHARACTERS, visible
from ..shared.output import MAX_NAME_CHARACTERS, quoted, table
from .saved_chats import Contents, Decision, Fields, SavedChat

MAX_CELL_CHARACTERS: Final = 32  # of a server's or a tool's name in the table

_SENTENCES: Final[Mapping[str, str]] = {
    **{reason.value: reason.sentence for reason in Reason},
    **{sub_reason.value: sub_reason.sentence for sub_reason in SubReason},
    **{next_step.value: next_step.sentence for next_step in NextStep},
}
_REMEDIES: Final[Mapping[str, str]] = {word.value: word.remedy for word in (*Reason, *SubReason)}
_OF_THE_VOCABULARY: Final = ("reason", "sub_reason", "next_step", "error")  # fields


# For a person


def all_decisions(chat: SavedChat, contents: Contents) -> list[str]:
    head = _head(chat, contents)
    return [*head, "", *_table(contents)] if contents.decisions else head


def latest(chat: SavedChat, contents: Contents) -> list[str]:
    """Return every field of the latest decision, and of what it rested on."""
    head = _head(chat, contents)
    if not contents.decisions:
        return head
    agent, record, observation = contents.decisions[-1]
    lines = [*head, "", "The latest decision", *_listed({"agent": agent, **record})]
    if record["reason"]:
        lines += ["", f"What to do: {_REMEDIES[record['sub_reason'] or record['reason']]}"]
    if observation is None:
        return [
            *lines,
            "",
            "What it rested on is not stored in the form that this plugin gives it.",
        ]
    title = "What it rested on" if "verdict" in observation else "It rested on no observation"
    return [*lines, "", title, *_listed(observation)]


def _head(chat: SavedChat, contents: Contents) -> list[str]:
    lines = [title(chat, contents.name)]
    if contents.left_out:
        lines.append(
            f"Entries left out, because they are no records of this plugin: {contents.left_out}."
        )
    if not contents.decisions:
        lines.append("No decision is stored in this chat.")
    return lines


def title(chat: SavedChat, name: str = "") -> str:
    saved = f"saved {chat.saved_at or 'at an unknown time'}"
    return f"Chat {visible(chat.id)}, {saved}{f', named {quoted(name)}' if name else ''}."


def _table(contents: Contents) -> list[str]:
    """Return a line for each decision, without the columns that would say nothing."""
    columns: dict[str, Callable[[Decision], object]] = {
        "time": lambda one: one.record["at"],
        "agent": lambda one: one.agent,
        "server": lambda one: _cut(one.record["server"] or "unknown", MAX_CELL_CHARACTERS),
        "tool, untrusted": lambda one: _remote(one.record["tool"], MAX_CELL_CHARACTERS),
        "decision": lambda one: one.record["decision"],
        "reason": lambda one: _cause(one.record),
        "refused by": lambda one: one.record["refused_by"] or "-",
        "verdict": lambda one: one.record["verdict"] or "-",
        "evidence": lambda one: _evidence(one.record),
    }
    if contents.agents == 1:
        del columns["agent"]
    if all(one.record["refused_by"] is None for one in contents.decisions):
        del columns["refused by"]
    return table(
        list(columns),
        [[show(one) for show in columns.values()] for one in contents.decisions],
    )


def _listed(fields: Fields) -> list[str]:
    """Return a line for each field, and further ones for the checks."""
    width = max(len(name) for name in fields)
    lines = []
    for name, value in fields.items():
        first, *others = _checks(value) if name == "checks" else [_shown(name, value)]
        lines.append(f"  {name.ljust(width)}  {first}")
        lines += [f"  {' ' * width}  {other}" for other in others]
    return lines


def _shown(name: str, value: Any) -> str:
    if value is None or value == []:
        return "none"
    if name in _OF_THE_VOCABULARY:
        return f"{value}: {_SENTENCES[value.split()[0]]}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, str) and value.startswith(MARK):
        return f"untrusted: {_remote(value)}"
    return str(value)


def _checks(checks: Sequence[Fields] | None) -> list[str]:
    rows = [(one["check"], one["status"], _remote(one["detail"])) for one in checks or ()]
    return table(("check", "status", "detail, untrusted"), rows)


def _cause(record: Fields) -> str:
    """Return the reason, with the sub-reason where there is one, as the chat log does."""
    if record["reason"] is None:
        return "-"
    sub_reason = f" ({record['sub_reason']})" if record["sub_reason"] else ""
    return f"{record['reason']}{sub_reason}"


def _evidence(record: Fields) -> str:
    """Return how old the evidence was when the decision was made, as the chat log does."""
    if record["age_seconds"] is None:
        return "none"
    return f"cached, age {int(record['age_seconds'])} s" if record["cached"] else "fresh"


def _remote(text: str, characters: int = MAX_CHARACTERS) -> str:
    return f'"{_cut(text.removeprefix(MARK), characters)}"'


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."


# For a program


def data(chat: SavedChat | None, contents: Contents | None, *, last_only: bool) -> Fields:
    decisions = contents.decisions if contents else []
    decisions = decisions[-1:] if last_only else decisions
    data: Fields = {
        "chat": chat and _data_of_chat(chat, contents),
        "left_out": contents.left_out if contents else 0,
        "decisions": [{"agent": one.agent, **one.record} for one in decisions],
    }
    if last_only:
        data["observation"] = decisions[0].observation if decisions else None
    return data


def _data_of_chat(chat: SavedChat, contents: Contents | None) -> Fields:
    name = _cut(contents.name, MAX_NAME_CHARACTERS) if contents else None
    return {"id": chat.id, "saved_at": chat.saved_at, "name": name or None}
