"""Where nothing is configured, the settings are known without the host's reading: and only there.

Each change is compared with what the host itself reads, at once, and again when it is undone.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
import yaml
from helpers import plugins
from stage.boot import PLUGIN
from usr.plugins.agent_guild_preflight.helpers import defaults, host
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import layers_in_force
from usr.plugins.agent_guild_preflight.helpers.settings.problems import InvalidConfiguration

PROJECT = "harbour"
PROFILE = "agent0"
NEIGHBOUR = "zz_neighbour"
BELOW = f"plugins/{PLUGIN}"
HOOK = """
from helpers.extension import Extension

class Forge(Extension):
    def execute(self, data=None, **kwargs):
        data["result"] = {"protected_servers": {"forged": "https://forged.example.com/mcp"}}
"""
IS_EXTENSIBLE = hasattr(plugins.get_plugin_config, "__wrapped__")


def plain(layers):
    """Return layers as values that can be compared."""
    return [
        (layer.source, layer.settings.problems, layer.settings.protected_servers)
        if isinstance(layer.settings, InvalidConfiguration)
        else layer
        for layer in layers
    ]


def as_the_host_reads(agent):
    """Return the layers by the host's own reading alone."""
    return plain(
        layers_in_force(
            host._read(agent=agent),
            host._read(project_name="", agent_profile=""),
            normalize_name=host.normalize_name,
        )
    )


def is_sure(agent):
    """Whether the host's reading is not asked."""
    read = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name == "get_plugin_config":
            read.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        host.layers_for(agent)
    finally:
        sys.setprofile(None)
    return read == []


@pytest.fixture
def unset(scene):
    """Nothing is configured, and the agent works in a project."""
    scene.open_project({}, PROJECT)
    for name in [name for name in os.environ if name.startswith("A0_SET_")]:
        scene.patch.delenv(name)
    return scene


@pytest.fixture
def write(unset):
    """Write a file below the state root, until the end."""
    made = []

    def write(path, text="{}"):
        file = unset.operator.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        made.append((file, file.read_bytes() if file.is_file() else None))
        file.write_text(text)
        return file

    yield write
    for file, before in reversed(made):
        if before is None:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(before)
    unset.operator.forget_extensions()


@pytest.fixture
def own_defaults(unset):
    """Put a file of the tests' own in the place of the linked defaults."""
    path = unset.operator.config_path().with_name("default_config.yaml")
    shipped = os.readlink(path)
    text = path.read_text()
    path.unlink()
    path.write_text(text)
    yield path
    path.unlink(missing_ok=True)
    path.symlink_to(shipped)


def test_it_is_sure_where_nothing_is_configured(unset):
    """The host's own reading is not asked, and would say the same."""
    agent = unset.chat.agent
    expected = as_the_host_reads(agent)
    found = host.layers_for(agent)
    assert plain(found) == expected
    assert found[0].settings.protected_servers == {}
    assert is_sure(agent)


FILES = {
    "global": f"usr/{BELOW}/config.json",
    "project": f"usr/projects/{PROJECT}/.a0proj/{BELOW}/config.json",
    "project and profile": f"usr/projects/{PROJECT}/.a0proj/agents/{PROFILE}/{BELOW}/config.json",
    "profile": f"usr/agents/{PROFILE}/{BELOW}/config.json",
    "profile in a plugin": f"usr/plugins/{NEIGHBOUR}/agents/{PROFILE}/{BELOW}/config.json",
}
TEXTS = {
    "an object": "{}",
    "settings": '{"protected_servers": {"tools": "https://tools.example.com/mcp"}}',
    "null": "null",
    "malformed": "{",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_a_file_that_appears_and_goes(unset, write, path, text):
    """At once, wherever it is."""
    agent = unset.chat.agent
    write(f"usr/plugins/{NEIGHBOUR}/plugin.yaml", f"name: {NEIGHBOUR}\n")
    unset.operator.forget_extensions()
    before = plain(host.layers_for(agent))
    file = write(path, text)
    assert not is_sure(agent)
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)
    file.unlink()
    assert plain(host.layers_for(agent)) == before == as_the_host_reads(agent)
    assert is_sure(agent)  # from the next call on: that one has found that something has changed


DEFAULTS = {
    "another number": ("timeout_seconds: 5", "timeout_seconds: 6"),
    "no number": ("timeout_seconds: 5", "timeout_seconds: x"),
    "malformed": ("timeout_seconds:", "timeout_seconds: ]"),
    "a number for a name": ("timeout_seconds:", "5:"),
}


@pytest.mark.parametrize(("old", "new"), DEFAULTS.values(), ids=DEFAULTS)
def test_an_edit_of_the_defaults(unset, own_defaults, old, new):
    """Of the same size and at the same time as before, too: the text is read at every call."""
    agent = unset.chat.agent
    text = own_defaults.read_text()
    assert old in text
    times = own_defaults.stat()
    before = plain(host.layers_for(agent))
    own_defaults.write_text(text.replace(old, new))
    os.utime(own_defaults, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = plain(host.layers_for(agent))
    assert after == as_the_host_reads(agent)
    assert after != before
    own_defaults.write_text(text)
    assert plain(host.layers_for(agent)) == before


@pytest.mark.parametrize("text", ["", "null", "[]", "text", "7"])
def test_defaults_that_are_no_object(unset, own_defaults, text):
    own_defaults.write_text(text)
    agent = unset.chat.agent
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)


def test_defaults_that_have_gone(unset, own_defaults):
    own_defaults.unlink()
    agent = unset.chat.agent
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)


def test_a_plugin_without_its_description(unset):
    """The framework takes it for none."""
    agent = unset.chat.agent
    path = unset.operator.config_path().with_name("plugin.yaml")
    aside = path.with_suffix(".aside")
    path.rename(aside)
    try:
        assert plain(host.layers_for(agent)) == as_the_host_reads(agent)
    finally:
        aside.rename(path)


@pytest.mark.parametrize("prefix", [f"A0_SET_{PLUGIN}", f"A0_SET_{PLUGIN}".upper()])
@pytest.mark.parametrize(
    ("key", "value"),
    [("timeout_seconds", "6"), ("policy__on_caution", "allow"), ("timeout_seconds", "x")],
)
def test_a_variable_of_the_environment(unset, prefix, key, value):
    """It changes a default as long as it is there."""
    agent = unset.chat.agent
    before = plain(host.layers_for(agent))
    unset.patch.setenv(f"{prefix}__{key.upper() if prefix.isupper() else key}", value)
    assert not is_sure(agent)
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)
    unset.patch.undo()
    assert plain(host.layers_for(agent)) == before


def test_a_project_that_is_taken_for_a_pattern(unset, write):
    """The host finds the file of another project."""
    write(f"usr/projects/shop/.a0proj/{BELOW}/config.json", TEXTS["settings"])
    chat = unset.new_chat(project="sh*p")
    assert plain(host.layers_for(chat.agent)) == as_the_host_reads(chat.agent)
    (layer,) = host.layers_for(chat.agent)
    assert "tools" in layer.protected


def test_a_function_of_the_plugins_own(unset, write):
    """A hooks.py beside the plugin's files may change what is read."""
    text = (
        'def get_plugin_config(default=None, **_):\n    return {**default, "timeout_seconds": 7}\n'
    )
    write(f"usr/{BELOW}/hooks.py", text)
    unset.operator.forget_extensions()
    agent = unset.chat.agent
    assert not is_sure(agent)
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)
    (unset.operator.root / f"usr/{BELOW}/hooks.py").unlink()
    # The host keeps what it has loaded, and so does the answer.
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)


@pytest.mark.parametrize("when", ["start", "end"])
@pytest.mark.parametrize("where", ["usr", f"usr/projects/{PROJECT}/.a0proj"])
def test_a_hook_on_the_reading(unset, write, where, when):
    """Whoever hooks it is heard, where the host lets anybody."""
    point = f"{where}/extensions/python/_functions/helpers/plugins/get_plugin_config/{when}"
    write(f"{point}/_10_forge.py", HOOK)
    unset.operator.forget_extensions()
    agent = unset.chat.agent
    layers = host.layers_for(agent)
    assert plain(layers) == as_the_host_reads(agent)
    forged = layers[0].protected is not None and "forged" in layers[0].protected
    assert forged == IS_EXTENSIBLE


def test_a_reading_that_somebody_has_wrapped(unset):
    forged = yaml.safe_load(TEXTS["settings"])
    unset.patch.setattr(plugins, "get_plugin_config", lambda *_, **__: forged)
    (layer,) = host.layers_for(unset.chat.agent)
    assert "tools" in layer.protected


def test_a_host_of_another_version(unset):
    """What it does not have cannot be asked: it reads by itself."""
    agent = unset.chat.agent
    unset.patch.setattr(defaults, "plugins", SimpleNamespace())
    assert not is_sure(agent)
    assert plain(host.layers_for(agent)) == as_the_host_reads(agent)
