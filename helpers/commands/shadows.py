"""What keeps the gate from running: a plugin that is not there, switches, files in its hook's place.

Rules of this module:

1. The framework takes the first file of a hook's name on its way through the folders that count
   for an agent, the folder usr, and the plugins that are switched on, by name.
2. A file has the hook's name when the framework sees it so: it drops every ".py" from a file's
   name and takes what follows the last dot.
3. Folders of other projects and profiles are looked at as well, but not followed through: what
   counts there is told by `lint` for that project or profile.

The module imports nothing of the framework. Sources: the framework's `subagents.get_paths`,
`extension._get_extension_classes` and `modules.import_module`.
"""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path
from typing import Final

from ..places import PLUGIN_NAME, Place, entries, read_text, read_yaml
from ..switches import OFF
from .findings import Finding, Found

HOOK_FOLDER: Final = Path("extensions", "python", "tool_execute_before")
HOOK: Final = "_45_agent_guild_preflight"


def found_shadows(place: Place) -> list[Found]:
    """Look for what keeps the gate from running.

    Args:
        place: the Agent Zero folder, with the agent's project and profile.

    Returns:
        What was found, in the order of `Finding`.
    """
    return [
        *_found_in_plugin(place),
        *_found_switches(place),
        *_found_hooks(place),
        *_found_elsewhere(place),
    ]


def _found_in_plugin(place: Place) -> list[Found]:
    found, hook = [], place.plugin / HOOK_FOLDER / f"{HOOK}.py"
    is_there = os.path.exists(place.plugin / "plugin.yaml")
    if not is_there:
        found.append(Found(Finding.PLUGIN_MISSING, place.shown(place.plugin)))
    found += [
        Found(Finding.PLUGIN_MISPLACED, place.shown(folder))
        for root in (*place.plugin_roots(), place.plugin)
        for folder in [root / name for name in entries(root)]
        if folder != place.plugin and _holds_plugin(folder)
    ]
    if is_there and not os.path.exists(hook):
        found.append(Found(Finding.HOOK_MISSING, place.shown(hook)))
    return found


def _holds_plugin(folder: Path) -> bool:
    file = folder / "plugin.yaml"
    try:
        if PLUGIN_NAME not in read_text(file):  # YAML takes its time
            return False
    except ValueError:
        return False
    content = read_yaml(file)
    return isinstance(content, dict) and content.get("name") == PLUGIN_NAME


def _found_switches(place: Place) -> list[Found]:
    switch = place.switch(PLUGIN_NAME, for_agent=True)
    return [
        *(Found(Finding.SWITCHED_OFF, place.shown(file)) for file in switch.off),
        *(
            Found(Finding.SWITCH_OVERRULED, place.shown(file), f"By {place.shown(by)}.")
            for file, by in switch.overruled
        ),
    ]


def _found_hooks(place: Place) -> list[Found]:
    """Find the files that the framework meets before the plugin's own hook."""
    plugins = place.plugins(for_agent=True)
    if place.plugin not in plugins:  # it is not there, or switched off
        return []
    folders = [folder for _, folder in place.folders(for_agent=True)]
    before = [*folders, place.root / "usr", *takewhile(lambda each: each != place.plugin, plugins)]
    return [
        Found(Finding.HOOK_REPLACED, place.shown(file))
        for folder in before
        for file in _hooks(folder)
    ]


def _hooks(folder: Path) -> list[Path]:
    """Give the files in a folder that the framework takes for one of the hook's name."""
    hooks = folder / HOOK_FOLDER
    return [
        hooks / name
        for name in entries(hooks)
        if name.endswith(".py") and name.replace(".py", "").rpartition(".")[2] == HOOK
    ]


def _found_elsewhere(place: Place) -> list[Found]:
    found = []
    for _, folder in place.foreign_folders():
        toggle = folder / "plugins" / PLUGIN_NAME / OFF
        # The framework looks for switches everywhere but in other plugins.
        is_switch = os.path.exists(toggle) and folder.parents[2] not in place.plugin_roots()
        files = [toggle] * is_switch + _hooks(folder)
        found += [Found(Finding.SHADOWED_ELSEWHERE, place.shown(file)) for file in files]
    return found
