"""A place where settings may be holds something that cannot be read: it is not taken for empty.

The framework takes a link to nothing for no file, and goes on to the next one, or to none.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest
from stage.boot import PLUGIN
from stage.chats import PROFILE
from usr.plugins.agent_guild_preflight.helpers import host

PROJECT = "harbour"
CONFIG = f"plugins/{PLUGIN}/config.json"
OTHER = "usr/plugins/aaa_team"

# From the most specific to the least.
PLACES = {
    "project-and-profile": f"usr/projects/{PROJECT}/.a0proj/agents/{PROFILE}/{CONFIG}",
    "project": f"usr/projects/{PROJECT}/.a0proj/{CONFIG}",
    "profile": f"usr/agents/{PROFILE}/{CONFIG}",
    "profile of another plugin": f"{OTHER}/agents/{PROFILE}/{CONFIG}",
    "profile of this plugin": f"usr/plugins/{PLUGIN}/agents/{PROFILE}/{CONFIG}",
    "global": f"usr/{CONFIG}",
}


@pytest.fixture
def at(scene):
    """Return the path of a place, in a project's chat with nothing configured anywhere."""
    scene.protect()
    scene.operator.unconfigure()
    scene.open_project({})
    root = scene.operator.root
    (root / OTHER).mkdir()
    (root / OTHER / "plugin.yaml").write_text("name: aaa_team\n")
    scene.operator.forget_extensions()

    def at(place):
        path = root / PLACES[place]
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    yield at
    shutil.rmtree(root / OTHER)
    shutil.rmtree(root / "usr" / "plugins" / PLUGIN / "agents", ignore_errors=True)
    take_away(root / "usr" / CONFIG)
    scene.operator.forget_extensions()


def take_away(path):
    """Remove whatever stands at a place, or on the last step to it."""
    if path.parent.is_symlink():
        path.parent.unlink()
    elif path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def link_to_nothing(path):
    path.symlink_to(path.parent / "gone.json")


def link_in_a_circle(path):
    path.symlink_to(path)


def folder_that_is_a_link_to_nothing(path):
    """As one on a volume that is not mounted."""
    path.parent.rmdir()
    path.parent.symlink_to(path.parent.parent / "gone")


def pipe(path):
    """Whoever opens it waits for ever."""
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def device(path):
    path.symlink_to("/dev/null")


KINDS = [link_to_nothing, link_in_a_circle, folder_that_is_a_link_to_nothing, pipe, folder, device]


def expect_all_refused(scene):
    """Nobody can tell what is protected; nothing is asked or called."""
    line = scene.line("invalid_configuration", "operator", server=None, endpoint=None)
    assert scene.told() == line
    assert (scene.tap.connections, scene.preflights) == (0, 0)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
@pytest.mark.parametrize("place", PLACES)
def test_what_stands_at_a_place_and_cannot_be_read(scene, at, place, kind):
    """Refused like an unreadable file, though the framework would find none."""
    path = at(place)
    if kind is folder_that_is_a_link_to_nothing and place == "global":
        kind = link_to_nothing  # its folder is the plugin's own
    kind(path)
    scene.call()
    expect_all_refused(scene)
    said = json.dumps(scene.chat.log_lines)
    assert "the file: cannot be read as plain JSON, or is gone" in said
    scene.chat = scene.new_chat(project=PROJECT)
    take_away(path)
    scene.call()
    scene.expect_untouched()


@pytest.mark.parametrize("place", list(PLACES)[1:])
def test_what_is_less_specific_than_the_file_in_force(scene, at, place):
    """It counts for nothing; of the global file nobody can tell whether it is a floor."""
    scene.operator.configure({}, *(PROJECT, PROFILE))
    link_to_nothing(at(place))
    scene.call()
    if place == "global":
        expect_all_refused(scene)
    else:
        scene.expect_untouched()


@pytest.mark.parametrize("place", PLACES)
def test_a_link_to_a_file_is_that_file(scene, at, place):
    """The settings may be kept elsewhere."""
    scene.operator.configure({"protected_servers": {"tools": "https://other.example/mcp"}})
    path = at(place)
    kept = scene.operator.root / "usr" / "kept.json"
    scene.operator.config_path().replace(kept)
    path.symlink_to(kept)
    scene.call()
    scene.expect_refused("url_mismatch", endpoint="https://other.example")
    kept.unlink()


# While the settings are read


@pytest.fixture
def between_readings(scene, monkeypatch):
    """Have something done after each reading of a file of our settings."""

    def between_readings(work):
        original = host.plugins.get_plugin_config

        def get_plugin_config(name, *arguments, **named):
            found = original(name, *arguments, **named)
            if name == PLUGIN:
                work()
            return found

        monkeypatch.setattr(host.plugins, "get_plugin_config", get_plugin_config)

    return between_readings


@pytest.mark.parametrize("calls_before", [0, 1])
@pytest.mark.parametrize("place", PLACES)
def test_a_file_that_appears_between_two_readings(scene, at, place, calls_before, between_readings):
    """The first would see no file, and the second one that says who is protected."""
    path = at(place)
    for _ in range(calls_before):
        scene.call()
        assert not scene.chat.records
        scene.tap.reset()
    appears = [lambda: scene.operator.root.joinpath(path).write_text(text)]
    text = '{"protected_servers": {"tools": "https://other.example/mcp"}}'
    between_readings(lambda: appears.pop()() if appears else None)
    scene.call()
    scene.expect_refused("url_mismatch", endpoint="https://other.example")


def test_a_file_that_changes_between_two_readings(scene, at, between_readings):
    """The global file is the one in force too: once without the server, once with it."""
    scene.operator.configure({"protected_servers": {}})
    changes = ['{"protected_servers": {"tools": "https://other.example/mcp"}}']
    between_readings(lambda: scene.operator.configure(changes.pop()) if changes else None)
    scene.call()
    scene.expect_refused("url_mismatch", endpoint="https://other.example")


def test_settings_that_change_with_every_reading(scene, at, between_readings):
    """Nobody waits until they settle."""
    number = iter(range(1_000))
    between_readings(lambda: scene.operator.configure({"timeout_seconds": 1 + next(number) / 100}))
    scene.call()
    expect_all_refused(scene)
    assert next(number) == 2 * host.MAX_READINGS


# A plugin's folder


@pytest.mark.parametrize("name", ["team[1]", "team*", "te?m"])
def test_a_plugin_whose_folder_is_taken_for_a_pattern(scene, name):
    """The framework does not find what stands there, and takes the next file."""
    scene.protect()
    scene.operator.unconfigure()
    folder = scene.operator.root / "usr" / "plugins" / name
    place = folder / "agents" / PROFILE / CONFIG
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    (folder / "plugin.yaml").write_text("name: team\n")
    try:
        scene.operator.forget_extensions()
        scene.chat = scene.new_chat()
        scene.call()
        expect_all_refused(scene)
    finally:
        shutil.rmtree(folder)
        scene.operator.forget_extensions()
