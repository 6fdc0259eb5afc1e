"""Where Agent Zero keeps settings and plugins, and how it chooses among them.

Rules of this module:

1. The order is the framework's own: the first file that exists is in force, whole.
2. Files are read as data. Nothing of the framework is imported or started, and nothing is
   written.
3. A file that cannot be read is `UNREADABLE`, as it is for the gate. So is a link to nothing,
   which the framework takes for absent (see `presence`).
4. The framework takes a path that holds *, ? or [ for a pattern, and then finds another file
   or none. Settings under such a path are not in force, whatever they say.

Sources: the framework's `find_plugin_assets`, `get_plugin_config`, `get_enabled_plugins`,
`subagents.get_paths` and `normalize_name`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from glob import has_magic
from pathlib import Path
from typing import Final

from ..product import NAME as PLUGIN_NAME
from ..untrusted import visible
from .files import entries, read_json, read_yaml
from .in_force import MISREAD, Layer, Source, layers_in_force
from .presence import stands
from .toggles import Toggle, resolve

PROFILE: Final = "agent0"  # the framework's own default


class Scope(StrEnum):
    """For whom a configuration file is."""

    PROJECT_AND_PROFILE = "project and profile"
    PROJECT = "project"
    PROFILE = "profile"
    GLOBAL = "global"
    BUILT_IN = "built in"
    DEFAULT = "default"


# Names that the framework takes for the same.
_NAMELESS: Final = dict.fromkeys(("", "none"), ("", "none"))

# Where files for agents of one project or profile may be, besides the plugins.
AGENT_FOLDERS: Final = (
    (Scope.PROJECT_AND_PROFILE, "usr/projects/*/.a0proj/agents/*"),
    (Scope.PROJECT, "usr/projects/*/.a0proj"),
    (Scope.PROFILE, "usr/agents/*"),
    (Scope.PROFILE, "agents/*"),
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One place where settings may be.

    Attributes:
        scope: for whom.
        path: where, absolute.
    """

    scope: Scope
    path: Path

    @property
    def exists(self) -> bool:
        return stands(self.path)

    def read(self) -> object:
        """Return what the file holds as parsed JSON or YAML, or `UNREADABLE`."""
        return read_yaml(self.path) if self.scope is Scope.DEFAULT else read_json(self.path)


@dataclass(frozen=True, slots=True)
class Locations:
    """An Agent Zero folder, seen by an agent of one project and one profile.

    Attributes:
        root: the folder, absolute.
        project: the project's name; empty without one.
        profile: the agent's profile; empty for none.
    """

    root: Path
    project: str = ""
    profile: str = PROFILE

    @property
    def plugin(self) -> Path:
        """The plugin's folder."""
        return self.root / "usr" / "plugins" / PLUGIN_NAME

    @property
    def project_folder(self) -> Path:
        """Where the project keeps its settings; only with a project."""
        return self.root / "usr" / "projects" / self.project / ".a0proj"

    def shown(self, path: Path) -> str:
        """Return a path as it is shown: below the root, never above it, and made visible."""
        below = path.relative_to(self.root) if path.is_relative_to(self.root) else path.name
        return visible(str(below))

    def folders(self, *, for_agent: bool = False) -> list[tuple[Scope, Path]]:
        """Return the folders that count for this agent, the most specific first.

        Args:
            for_agent: leave out what lies in a plugin that this agent has switched off; the
                framework does so for extensions, and not for settings.
        """
        own = self._own_folders()
        if not self.profile:
            return own
        within = [
            (Scope.PROFILE, plugin / "agents" / self.profile)
            for plugin in self.plugins(for_agent=for_agent)
        ]
        return [*own[:-1], *within, *own[-1:]]

    def _own_folders(self) -> list[tuple[Scope, Path]]:
        """Return the same without those that lie in plugins."""
        found = []
        if self.project and self.profile:
            folder = self.project_folder / "agents" / self.profile
            found.append((Scope.PROJECT_AND_PROFILE, folder))
        if self.project:
            found.append((Scope.PROJECT, self.project_folder))
        if self.profile:
            found.append((Scope.PROFILE, self.root / "usr" / "agents" / self.profile))
            found.append((Scope.PROFILE, self.root / "agents" / self.profile))
        return found

    def sharing(self) -> list[Locations]:
        """Return the same for agents whom the framework does not tell from this one.

        It keeps what it has found under the names of profile and project, and takes "none" for
        a name that is not there.
        """
        projects, profiles = _NAMELESS.get(self.project), _NAMELESS.get(self.profile)
        return [
            Locations(self.root, project, profile)
            for project in projects or (self.project,)
            for profile in profiles or (self.profile,)
            if (project, profile) != (self.project, self.profile)
        ]

    def foreign_folders(self) -> list[tuple[Scope, Path]]:
        """Return the folders that count for agents of other projects or profiles only."""
        found = [
            (scope, folder)
            for scope, pattern in AGENT_FOLDERS
            for folder in sorted(self.root.glob(pattern))
        ]
        for plugin in self.plugins(for_agent=False):
            found += [(Scope.PROFILE, folder) for folder in sorted(plugin.glob("agents/*"))]
        counting = self.folders()
        return [each for each in found if each not in counting]

    def plugin_roots(self) -> tuple[Path, Path]:
        """Return the folders that plugins are in; of two of one name the first counts."""
        return self.root / "usr" / "plugins", self.root / "plugins"

    def plugins(self, *, for_agent: bool) -> list[Path]:
        """Return the folders of the plugins that are switched on, by name.

        Args:
            for_agent: switched on for this agent, not only by the plugin's own folder.
        """
        found: dict[str, Path] = {}
        for root in self.plugin_roots():
            for name in entries(root):
                if not name.startswith(".") and os.path.exists(root / name / "plugin.yaml"):
                    found.setdefault(name, root / name)
        return [
            folder
            for name, folder in sorted(found.items())
            if self.toggle(name, for_agent=for_agent).is_on
        ]

    def toggle(self, plugin: str, *, for_agent: bool) -> Toggle:
        """Whether a plugin is switched on.

        Args:
            plugin: its name.
            for_agent: for this agent, not only by the plugin's own folder.
        """
        folders = [root / plugin for root in self.plugin_roots()]
        if for_agent:
            own = [folder / "plugins" / plugin for _, folder in self._own_folders()]
            folders = own + folders
        return resolve(reversed(folders))

    def config_files(self) -> list[ConfigFile]:
        """Return every place where settings may be, in the order in which they win."""
        return _config_files(self.folders()) + self._global_files()

    def foreign_files(self) -> list[ConfigFile]:
        """Return every place where settings for agents of other projects or profiles may be."""
        return _config_files(self.foreign_folders())

    def _global_files(self) -> list[ConfigFile]:
        return [
            ConfigFile(Scope.GLOBAL, self.plugin / "config.json"),
            ConfigFile(Scope.BUILT_IN, self.root / "plugins" / PLUGIN_NAME / "config.json"),
            ConfigFile(Scope.DEFAULT, self.plugin / "default_config.yaml"),
        ]

    def selected(self) -> ConfigFile:
        """Return the file in force; the default one when there is none at all."""
        return _first(self.config_files())

    def file_of(self, source: Source) -> ConfigFile:
        """Return the file that makes a layer."""
        return self.selected() if source is Source.SELECTED else self.everywhere()

    def everywhere(self) -> ConfigFile:
        """Return the file that would be in force without project and profile."""
        return _first(self._global_files())

    @property
    def is_misread(self) -> bool:
        """Whether there are settings in a place that the framework takes for a pattern."""
        return any(
            has_magic(str(file.path)) and file.exists
            for file in self.config_files()
            if file.scope is not Scope.DEFAULT
        )

    def layers(self) -> tuple[Layer, ...]:
        """Return the settings that a call must satisfy, as the gate does.

        What the environment or a hook makes of them is not in it; `lint` warns of both.
        """
        if self.is_misread:
            return (MISREAD,)
        return layers_in_force(
            self.selected().read(), self.everywhere().read(), normalize_name=normalize_name
        )


def _config_files(folders: Iterable[tuple[Scope, Path]]) -> list[ConfigFile]:
    return [
        ConfigFile(scope, folder / "plugins" / PLUGIN_NAME / "config.json")
        for scope, folder in folders
    ]


def _first(files: list[ConfigFile]) -> ConfigFile:
    return next((file for file in files if file.exists), files[-1])


def normalize_name(name: str) -> str:
    """Normalise a server name as the framework does."""
    return re.sub(r"[^\w]", "_", name.strip().lower())
