"""Mutation testing looks at every room of the gate's way, and counts what it says it counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stage import mutate
from stage.boot import CHECKOUT, SUPPORT
from stage.mutation_rooms import ROOMS

HELPERS = CHECKOUT / "helpers"


def rooms() -> Iterator[str]:
    """Return every room there is, save the operator's commands."""
    for file in HELPERS.rglob("*.py"):
        room = file.relative_to(HELPERS).with_suffix("").as_posix()
        if not room.startswith(("commands/", "__main__")):
            yield room


def test_every_room_of_the_gates_way_is_in_it() -> None:
    assert sorted(ROOMS) == sorted(rooms())


@pytest.mark.parametrize("room", ROOMS)
def test_every_test_that_should_notice_is_there(room: str) -> None:
    unit, native = ROOMS[room]
    files = [SUPPORT / "unit-tests" / f"test_{name}.py" for name in unit]
    files += [SUPPORT / "native-tests" / "tests" / f"test_{name}.py" for name in native]
    assert files
    assert [file for file in files if not file.is_file()] == []


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["killed"] * 100, 0),
        (["killed"] * 96 + ["timeout"] + ["survived"] * 3, 0),
        (["killed"] * 96 + ["survived"] * 4, 1),
        (["killed"] * 96 + ["not run"] * 4, 1),
    ],
)
def test_97_of_100_must_be_killed(
    capsys: pytest.CaptureFixture[str], outcomes: list[str], code: int
) -> None:
    found = {"a": {str(number): outcome for number, outcome in enumerate(outcomes)}, "b": {}}
    assert mutate.report(found) == code
    noticed = len(outcomes) - outcomes.count("survived") - outcomes.count("not run")
    said = capsys.readouterr().out
    assert f" {noticed} of  100 killed   {noticed}.0%" in said
    assert ("1 of them by the time" in said) is ("timeout" in outcomes)


def test_what_a_mutant_changes_is_shown() -> None:
    before = ["def f(a):", "    b = a", "    return a + b"]
    after = ["def f(a):", "    b = a", "    return a - b"]
    assert mutate.difference(before, after).split("\n") == [
        "    -     return a + b",
        "    +     return a - b",
    ]


@pytest.mark.parametrize(
    ("before", "after", "is_left_out"),
    [
        ('a.encode("utf-8", "x")', 'a.encode("UTF-8", "x")', True),
        ('a.decode("ascii")', 'a.decode("ASCII")', True),
        ('a.encode("utf-8", "x")', 'a.encode("utf-8", "X")', False),
        ('a.encode("utf-8")', 'a.encode("XXutf-8XX")', False),
        ('a.encode("utf-8")', "a.encode()", False),
        ('f("utf-8")', 'f("UTF-8")', False),
    ],
)
def test_a_mutant_that_changes_nothing_is_left_out(
    before: str, after: str, is_left_out: bool
) -> None:
    """Python knows an encoding by its name in capitals, too."""
    change = mutate.difference([f"    {before}"], [f"    {after}"])
    assert mutate.is_other_spelling(change) is is_left_out


@pytest.mark.parametrize(
    ("code", "first", "expected"),
    [
        (0, "", "survived"),
        (1, "test_a", "killed"),
        (None, "", "timeout"),
        # Tests that are not found, a session that fails, no test at all.
        (4, "", "not run"),
        (3, "test_a", "not run"),
        (1, "", "not run"),
        (5, "", "not run"),
        (-9, "", "not run"),
    ],
)
def test_a_mutant_is_killed_only_by_a_test_that_fails(
    code: int | None, first: str, expected: str
) -> None:
    assert mutate.outcome(code, first) == expected
