"""What stands at the places where settings may be, as files and links of every kind."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from usr.plugins.agent_guild_preflight.helpers.settings import presence as room
from usr.plugins.agent_guild_preflight.helpers.settings.locations import Locations, Scope
from usr.plugins.agent_guild_preflight.helpers.settings.presence import (
    BROKEN,
    GLOBAL_PLACES,
    is_broken,
    places,
    stamps_at,
    stands,
)

NAME = "plugins/agent_guild_preflight"
PLUGINS = ("usr/plugins/aaa", "plugins/bbb", "usr/plugins/agent_guild_preflight")


# The places


def listed(project: str, profile: str) -> list[str]:
    folders = tuple(f"/a0/{folder}" for folder in PLUGINS)
    return [place.path for place in places("/a0/", project, profile, folders)]


def test_the_places_stand_in_the_order_in_which_they_win() -> None:
    assert listed("shop", "cook") == [
        f"/a0/usr/projects/shop/.a0proj/agents/cook/{NAME}/config.json",
        f"/a0/usr/projects/shop/.a0proj/{NAME}/config.json",
        f"/a0/usr/agents/cook/{NAME}/config.json",
        f"/a0/usr/plugins/aaa/agents/cook/{NAME}/config.json",
        f"/a0/plugins/bbb/agents/cook/{NAME}/config.json",
        f"/a0/usr/plugins/agent_guild_preflight/agents/cook/{NAME}/config.json",
        f"/a0/agents/cook/{NAME}/config.json",
        f"/a0/usr/{NAME}/config.json",
        f"/a0/{NAME}/config.json",
    ]
    assert listed("shop", "") == [
        f"/a0/usr/projects/shop/.a0proj/{NAME}/config.json",
        *listed("", ""),
    ]
    assert listed("", "cook") == listed("shop", "cook")[2:]
    assert listed("", "") == listed("shop", "cook")[-GLOBAL_PLACES:]


@pytest.mark.parametrize("project", ["", "shop"])
@pytest.mark.parametrize("profile", ["", "cook"])
def test_the_commands_look_at_the_same_places(tmp_path: Path, project: str, profile: str) -> None:
    for folder in PLUGINS:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "plugin.yaml").touch()
    locations = Locations(tmp_path, project, profile)
    folders = tuple(str(folder) for folder in locations.plugins(for_agent=False))

    assert [place.path for place in places(str(tmp_path), project, profile, folders)] == [
        str(file.path) for file in locations.config_files() if file.scope is not Scope.DEFAULT
    ]


# What stands at one


def write(path: Path) -> None:
    path.write_text("{}")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("gone")


def link_in_a_circle(path: Path) -> None:
    path.symlink_to(path)


def links_in_a_circle(path: Path) -> None:
    path.symlink_to("other")
    (path.parent / "other").symlink_to(path)


def link_to_a_file(path: Path) -> None:
    (path.parent / "kept.json").write_text("{}")
    path.symlink_to("kept.json")


def link_through_a_file(path: Path) -> None:
    (path.parent / "kept.json").write_text("{}")
    path.symlink_to("kept.json/config.json")


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # such an address is short
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path.name)
    os.chdir(here)


def long_link(path: Path) -> None:
    path.symlink_to("a" * 300)


READABLE = [write, link_to_a_file]
UNREADABLE = [
    *(link_to_nothing, link_in_a_circle, links_in_a_circle, link_through_a_file, long_link),
    *(folder, pipe, unix_socket),
]


def stamp_after(make: Callable[[Path], None], root: Path, number: int = -1) -> object:
    """Make something of the last step to a place, or of another one, and look at the place."""
    place = places(str(root), "shop", "cook", (str(root / "usr/plugins/aaa"),))[3]
    steps = [Path(step) for step in place.steps]
    steps[number].parent.mkdir(parents=True, exist_ok=True)
    make(steps[number])
    return stamps_at([place])[0]


@pytest.mark.parametrize("make", READABLE)
def test_a_plain_file_has_a_stamp(tmp_path: Path, make: Callable[[Path], None]) -> None:
    assert stamp_after(make, tmp_path) not in (None, BROKEN)


@pytest.mark.parametrize("make", UNREADABLE)
def test_what_cannot_be_read_is_broken(tmp_path: Path, make: Callable[[Path], None]) -> None:
    assert stamp_after(make, tmp_path) == BROKEN


@pytest.mark.parametrize("number", range(-5, -1))
@pytest.mark.parametrize("make", [link_to_nothing, link_in_a_circle, long_link])
def test_a_folder_on_the_way_that_leads_nowhere_is_broken(
    tmp_path: Path, make: Callable[[Path], None], number: int
) -> None:
    assert stamp_after(make, tmp_path, number) == BROKEN


@pytest.mark.parametrize("number", range(-5, -1))
def test_below_a_plain_file_there_is_nothing(tmp_path: Path, number: int) -> None:
    """As where a plugin has a file called agents."""
    assert stamp_after(write, tmp_path, number) is None


@pytest.mark.parametrize("number", range(-5, 0))
def test_a_place_is_empty_when_any_step_is_missing(tmp_path: Path, number: int) -> None:
    assert stamp_after(lambda path: None, tmp_path, number) is None


@pytest.mark.parametrize("is_rare", [True, False])
def test_the_short_way_to_rare_places_tells_the_same(tmp_path: Path, is_rare: bool) -> None:
    steps = (str(tmp_path / "agents"), str(tmp_path / "agents" / "config.json"))
    place = room.Place(steps, str(tmp_path) if is_rare else "")

    assert stamps_at([place]) == (None,)
    Path(steps[0]).symlink_to("gone")
    assert stamps_at([place]) == (BROKEN,)
    Path(steps[0]).unlink()
    Path(steps[0]).mkdir()
    assert stamps_at([place]) == (None,)
    Path(steps[1]).touch()
    assert stamps_at([place]) not in ((None,), (BROKEN,))


def test_a_folder_that_is_gone_since_it_was_found(tmp_path: Path) -> None:
    """A plugin's, which the framework has in its list still."""
    folder = tmp_path / "usr" / "plugins" / "other"
    place = places(str(tmp_path), "", "agent0", (str(folder),))[1]
    folder.parent.mkdir(parents=True)
    assert stamps_at([place]) == (None,)
    folder.symlink_to("gone")
    assert stamps_at([place]) == (BROKEN,)
    folder.unlink()
    folder.touch()
    assert stamps_at([place]) == (BROKEN,)
    folder.unlink()
    folder.mkdir()
    assert stamps_at([place]) == (None,)


@pytest.mark.parametrize(
    ("name", "number"), [("team", 0), ("team[1]", 1), ("te?m", 1), ("team*", 1)]
)
def test_places_that_the_framework_takes_for_a_pattern(name: str, number: int) -> None:
    found = room.misread_places("/a0", "", "agent0", (f"/a0/usr/plugins/{name}",))
    assert len(found) == number
    assert all(f"/{name}/agents/" in place.path for place in found)
    assert len(room.misread_places("/a[0]", "", "", ())) == GLOBAL_PLACES


@pytest.mark.parametrize("name", ["a" * 300, "nul\0", "\ud800"])
def test_what_nobody_can_look_at_is_broken(tmp_path: Path, name: str) -> None:
    place = places(str(tmp_path), "", name, ())[0]
    (tmp_path / "usr" / "agents").mkdir(parents=True)

    assert stamps_at([place]) == (BROKEN,)


def test_a_file_that_is_too_large_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_FILE_BYTES", 2)
    assert stamp_after(write, tmp_path) not in (None, BROKEN)
    monkeypatch.setattr(room, "MAX_FILE_BYTES", 1)
    assert stamp_after(write, tmp_path) == BROKEN


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "usr" / NAME / "config.json"
    path.parent.mkdir(parents=True)
    at = places(str(tmp_path), "", "", ())
    other = tmp_path / "other.json"
    seen = {stamps_at(at)}
    for change in (
        lambda: path.write_text("{}"),
        lambda: path.write_text("[]"),
        lambda: path.write_text("null"),
        lambda: os.utime(path, ns=(0, 0)),
        lambda: (other.write_text("null"), os.utime(other, ns=(0, 0)), other.replace(path)),
        lambda: path.unlink(),
        lambda: path.symlink_to(other),
    ):
        time.sleep(0.02)  # the clock of a file system may be coarse
        change()
        assert stamps_at(at) == stamps_at(at)
        seen.add(stamps_at(at))
    assert len(seen) == 7  # once there is nothing again


def test_the_first_thing_that_stands_somewhere_counts() -> None:
    there = (1, 2, 3)

    assert not is_broken([])
    assert not is_broken([None, None])
    assert not is_broken([None, there, BROKEN])
    assert is_broken([BROKEN, there])
    assert is_broken([None, BROKEN, there])


@pytest.mark.parametrize("make", [*READABLE, *UNREADABLE])
def test_whatever_is_there_stands(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "config.json"

    assert not stands(path)
    make(path)
    assert stands(path)
    assert stands(path / "below") is (make not in (*READABLE, folder, pipe, unix_socket))
