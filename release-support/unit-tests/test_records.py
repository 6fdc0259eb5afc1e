"""The records on an agent: what is kept of many decisions, and of two at the same time.

What a record holds is held by the tests that go through a host.
"""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import Mock

import pytest
from usr.plugins.agent_guild_preflight.helpers import records
from usr.plugins.agent_guild_preflight.helpers.judgement import Judgement
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import Source
from usr.plugins.agent_guild_preflight.helpers.settings.problems import (
    InvalidConfiguration,
    Problem,
)

PATIENCE_SECONDS = 30.0
MOMENT_SECONDS = 0.3


class Agent:
    """Keeps data as the framework's agents do; `reading` runs while one of them reads."""

    def __init__(self, kept: object = None) -> None:
        self.data: dict[str, Any] = {records.DECISIONS_KEY: kept}
        self.reading = lambda: None

    def get_data(self, key: str) -> Any:
        found = self.data.get(key)
        self.reading()
        return found

    def set_data(self, key: str, value: Any) -> None:
        self.data[key] = value

    @property
    def ids(self) -> list[str]:
        return [record["id"] for record in self.data[records.DECISIONS_KEY]]


def test_two_decisions_at_the_same_time_leave_a_record_each() -> None:
    """Parallel children of one chat keep theirs with its agent, each in a thread of its own."""
    agent = Agent()
    other = threading.Thread(target=lambda: records.keep(agent, Judgement(), "the other"))

    def interfere() -> None:
        agent.reading = lambda: None
        other.start()
        other.join(MOMENT_SECONDS)  # as long as it is kept out, in vain

    agent.reading = interfere
    records.keep(agent, Judgement(), "the one")
    other.join(PATIENCE_SECONDS)
    assert agent.ids == ["the one", "the other"]


def test_the_last_twenty_stay() -> None:
    agent = Agent()
    for number in range(23):
        records.keep(agent, Judgement(), str(number))
    assert agent.ids == [str(number) for number in range(3, 23)]


def test_a_later_refusal_of_a_call_takes_the_place_of_its_record() -> None:
    agent = Agent()
    for call in ("a", "b"):
        records.keep(agent, Judgement(), call)
    records.keep(agent, Judgement(), "a", replace=True)
    assert agent.ids == ["b", "a"]


def test_only_records_are_kept_of_what_a_saved_chat_holds() -> None:
    for kept in ("text", {"id": "x"}, 5):
        agent = Agent(kept)
        records.keep(agent, Judgement(), "new")
        assert agent.ids == ["new"]
    agent = Agent([1, {"id": "old"}, None, "text", {"note": "no id"}])
    records.keep(agent, Judgement(), "new", replace=True)
    assert [record.get("id") for record in agent.data[records.DECISIONS_KEY]] == [
        *("old", None, "new")
    ]


@pytest.mark.parametrize(
    ("number", "last"), [(20, "key 19: "), (21, "and 1 more, which lint shows")]
)
def test_the_log_shows_the_first_problems_of_many(number: int, last: str) -> None:
    """A file may hold thousands, and each refused call would write them all."""
    problems = tuple((f"key {at}", Problem.UNKNOWN_KEY) for at in range(number))
    agent = Mock()
    records.write_configuration_log(agent, InvalidConfiguration(problems, {}), Source.SELECTED)
    lines = agent.context.log.log.call_args.kwargs["content"].splitlines()
    assert len(lines) == number
    assert lines[0].startswith("key 0: ")
    assert lines[-1].startswith(last)
