"""What keeps the gate from running: a plugin that is not there, toggles, files in its hook's place.

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

from ...product import NAME as PLUGIN_NAME
from ...settings.files import entries, read_text, read_yaml
from ...settings.locations import Locations
from ...settings.toggles import OFF
from .findings import Finding, Found

HOOK_FOLDER: Final = Path("extensions", "python", "tool_execute_before")
HOOK: Final = "_45_agent_guild_preflight"


def found_obstacles(locations: Locations) -> list[Found]:
    """Look for what keeps the gate from running.

    Args:
        locations: the Agent Zero folder, with the agent's project and profile.

    Returns:
        What was found, in the order of `Finding`.
    """
    return [
        *_found_in_plugin(locations),
        *_found_toggles(locations),
        *_found_hooks(locations),
        *_found_elsewhere(locations),
    ]


def _found_in_plugin(locations: Locations) -> list[Found]:
    found, hook = [], locations.plugin / HOOK_FOLDER / f"{HOOK}.py"
    is_there = os.path.exists(locations.plugin / "plugin.yaml")
    if not is_there:
        found.append(Found(Finding.PLUGIN_MISSING, locations.shown(locations.plugin)))
    found += [
        Found(Finding.PLUGIN_MISPLACED, locations.shown(folder))
        for root in (*locations.plugin_roots(), locations.plugin)
        for folder in [root / name for name in entries(root)]
        if folder != locations.plugin and _holds_plugin(folder)
    ]
    if is_there and not os.path.exists(hook):
        found.append(Found(Finding.HOOK_MISSING, locations.shown(hook)))
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


def _found_toggles(locations: Locations) -> list[Found]:
    toggle = locations.toggle(PLUGIN_NAME, for_agent=True)
    return [
        *(Found(Finding.SWITCHED_OFF, locations.shown(file)) for file in toggle.off),
        *(
            Found(Finding.SWITCH_OVERRULED, locations.shown(file), f"By {locations.shown(by)}.")
            for file, by in toggle.overruled
        ),
    ]


def _found_hooks(locations: Locations) -> list[Found]:
    """Find the files that the framework meets before the plugin's own hook."""
    plugins = locations.plugins(for_agent=True)
    if locations.plugin not in plugins:  # it is not there, or switched off
        return []
    folders = [folder for _, folder in locations.folders(for_agent=True)]
    before = [
        *folders,
        locations.root / "usr",
        *takewhile(lambda each: each != locations.plugin, plugins),
    ]
    return [
        Found(Finding.HOOK_REPLACED, locations.shown(file))
        for folder in before
        for file in _hooks(folder)
    ]


def _hooks(folder: Path) -> list[Path]:
    """Return the files in a folder that the framework takes for one of the hook's name."""
    hooks = folder / HOOK_FOLDER
    return [
        hooks / name
        for name in entries(hooks)
        if name.endswith(".py") and name.replace(".py", "").rpartition(".")[2] == HOOK
    ]


def _found_elsewhere(locations: Locations) -> list[Found]:
    found = []
    for _, folder in locations.foreign_folders():
        toggle = folder / "plugins" / PLUGIN_NAME / OFF
        # The framework looks for toggles everywhere but in other plugins.
        is_toggle = os.path.exists(toggle) and folder.parents[2] not in locations.plugin_roots()
        files = [toggle] * is_toggle + _hooks(folder)
        found += [Found(Finding.SHADOWED_ELSEWHERE, locations.shown(file)) for file in files]
    return found
