"""What may be told of an exception: its class, and the line of ours where it was raised."""

from pathlib import Path

import pytest
from usr.plugins.agent_guild_preflight.helpers.exceptions import (
    MAX_CLASS_CHARACTERS,
    Unforeseen,
    UnforeseenError,
    chain,
    unforeseen,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight import contract

SECRET = "/home/operator/secret"


def raised(error: BaseException) -> BaseException:
    """Return an exception with the traceback of a raise outside of the plugin."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_it_tells_the_innermost_line_of_ours() -> None:
    with pytest.raises(AttributeError) as caught:
        contract.parse(None, target="")  # type: ignore[arg-type]
    told = unforeseen(caught.value)
    assert (told.exception, told.module) == ("AttributeError", "guild_preflight.contract")
    line = Path(contract.__file__).read_text(encoding="utf-8").split("\n")[told.line - 1]
    assert "body.startswith" in line


def test_without_a_line_of_ours_it_tells_the_class_alone() -> None:
    told = unforeseen(raised(LookupError(SECRET)))
    assert str(told) == "LookupError"
    assert told == Unforeseen("LookupError", module="", line=0)


def test_it_tells_nothing_of_the_text() -> None:
    assert SECRET not in repr(unforeseen(raised(LookupError(SECRET))))


def test_what_another_thread_met_is_told_as_it_was_there() -> None:
    origin = Unforeseen("KeyError", "guild_preflight.observe", 7)
    assert unforeseen(raised(UnforeseenError(origin))) == origin
    assert str(origin) == "KeyError in guild_preflight.observe, line 7"
    assert str(UnforeseenError(origin)) == str(origin)


def test_the_name_of_a_class_is_plain_and_cut_to_size() -> None:
    strange = type("É" * 200, (Exception,), {})
    told = unforeseen(raised(strange()))
    assert told.exception.isascii()
    assert len(told.exception) == MAX_CLASS_CHARACTERS


def test_a_chain_ends_even_where_it_leads_back() -> None:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__context__ = other, one
    assert list(chain(one)) == [one, other]
