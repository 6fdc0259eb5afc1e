"""What keeps the gate from running: a plugin that is not there, toggles, files in its hook's place.

Rules of this module:

1. The framework takes the first hook of a name on its way through the folders that count for an
   agent, the folder usr, and the plugins that are switched on, by name (see `hooks`).
2. It keeps what it has found for an agent under the names of profile and project, and takes
   "none" where there is no such name. So agents without a project share what was found for a
   project that is named none, and the other way round: whoever comes first decides for both.
3. Folders of other projects and profiles are looked at as well, but not followed through: what
   counts there is told by `lint` for that project or profile.

The module imports nothing of the framework. Sources: the framework's `subagents.get_paths` and
`cache.determine_cache_key`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path

from ...product import NAME as PLUGIN_NAME
from ...settings.files import entries, read_text, read_yaml
from ...settings.locations import Locations
from ...settings.toggles import OFF
from .findings import Finding, Found
from .hooks import HOOK, HOOK_FOLDER, imitations, namesakes, settings_hooks


def found_obstacles(locations: Locations) -> list[Found]:
    """Look for what keeps the gate from running.

    Args:
        locations: the Agent Zero folder, with the agent's project and profile.

    Returns:
        What was found, in the order of `Finding`.
    """
    own = [*_found_toggles(locations), *_found_hooks(locations)]
    shared = [
        found._replace(finding=Finding.SHARED_WITH_NONE)
        for other in locations.sharing()
        for found in (*_found_toggles(other), *_found_hooks(other))
        if found.finding is not Finding.SWITCH_OVERRULED
    ]
    told = {found.subject for found in own if found.is_problem}
    shared = [found for found in shared if found.subject not in told]
    told |= {found.subject for found in shared}
    return [
        *_found_in_plugin(locations),
        *own,
        *shared,
        *(found for found in _found_elsewhere(locations) if found.subject not in told),
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
    """Find the files that the framework meets before the plugin's own hook, and those that forge."""
    plugins = locations.plugins(for_agent=True)
    if locations.plugin not in plugins:  # it is not there, or switched off
        return []
    agents = [folder for _, folder in locations.folders(for_agent=True)]
    before = [
        *agents,
        locations.root / "usr",
        *takewhile(lambda each: each != locations.plugin, plugins),
    ]
    ours = locations.plugin / HOOK_FOLDER / f"{HOOK}.py"
    forging = [*agents, locations.root / "usr", *locations.plugins(for_agent=False)]
    return [
        *_found(locations, Finding.HOOK_REPLACED, _each(namesakes, before, locations.plugin), ours),
        *_found(locations, Finding.HOOK_IMITATED, _each(imitations, before, locations.plugin)),
        *_found(
            locations,
            Finding.SETTINGS_HOOKED,
            [*_each(settings_hooks, forging, locations.root), *_own_hooks(locations)],
        ),
    ]


def _each(
    files_in: Callable[[Path], list[Path]], folders: Iterable[Path], *more: Path
) -> list[Path]:
    return [file for folder in (*folders, *more) for file in files_in(folder)]


def _own_hooks(locations: Locations) -> list[Path]:
    """Return the plugin's own file of hooks; it has none."""
    file = locations.plugin / "hooks.py"
    return [file] if os.path.exists(file) else []


def _found(
    locations: Locations, finding: Finding, files: Iterable[Path], ours: Path | None = None
) -> list[Found]:
    return [Found(finding, locations.shown(file)) for file in files if file != ours]


def _found_elsewhere(locations: Locations) -> list[Found]:
    found = []
    for _, folder in locations.foreign_folders():
        toggle = folder / "plugins" / PLUGIN_NAME / OFF
        # The framework looks for toggles everywhere but in other plugins.
        is_toggle = os.path.exists(toggle) and folder.parents[2] not in locations.plugin_roots()
        hooks = (*namesakes(folder), *imitations(folder), *settings_hooks(folder))
        found += _found(locations, Finding.SHADOWED_ELSEWHERE, [*[toggle] * is_toggle, *hooks])
    return found
