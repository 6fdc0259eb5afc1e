"""What is worth a warning in the settings themselves, valid as they may be.

Rules of this module:

1. A default may be overridden from the environment, under the two spellings that the framework
   looks for, while the default file is in force. A default that is null cannot. A variable's
   value is not shown.
2. A file that is not in force here is held to the same rules, for it may be in force for others.

The module imports nothing of the framework. Sources: the framework's `get_plugin_config`,
`_apply_defaults_from_env` and `get_default_value`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ...product import NAME as PLUGIN_NAME
from ...requirements import OnUnavailable
from ...settings.configuration import Configuration
from ...settings.files import read_text
from ...settings.in_force import Layer, layers_in_force
from ...settings.locations import PROFILE, ConfigFile, Locations, Scope, normalize_name
from ...settings.problems import InvalidConfiguration
from ...settings.reader import local_origin, parse
from ...untrusted import visible
from ..shared.findings import Finding, Found
from .json_text import repeated_keys

MAX_ENVIRONMENT_DEPTH: Final = 4  # an anchor of YAML can lead back to itself

_GLOBAL: Final = (Scope.GLOBAL, Scope.BUILT_IN, Scope.DEFAULT)
_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?['\"]?([^\s='\"#]+)['\"]?[ \t]*=", re.M)


def found_in_settings(locations: Locations, layers: Sequence[Layer]) -> list[Found]:
    """Look at the settings.

    Args:
        locations: where they are, and for whom.
        layers: those in force.

    Returns:
        What was found, in the order of `Finding`.
    """
    files = [locations.file_of(layer.source) for layer in layers]
    return [
        *_found_in_profile(locations),
        *_found_in_other_files(locations, files),
        *_found_unprotected(locations, layers),
        *_found_repeated(locations),
        *_found_floor(locations),
        *_found_disclosure(locations),
        *_found_unavailable(locations, layers, files),
        *_found_environment(locations, files),
    ]


def _found_in_profile(locations: Locations) -> list[Found]:
    folders = [folder for scope, folder in locations.folders() if scope is not Scope.PROJECT]
    # The framework's own profile is there, also where only the folder usr is.
    if locations.profile in ("", PROFILE) or any(os.path.isdir(folder) for folder in folders):
        return []
    return [Found(Finding.PROFILE_UNKNOWN, visible(locations.profile))]


def _found_in_other_files(locations: Locations, files: Sequence[ConfigFile]) -> list[Found]:
    found = []
    for file in [*locations.config_files(), *locations.foreign_files()]:
        if not file.exists or file in files:
            continue
        try:
            parse(file.read(), normalize_name=normalize_name, is_global=file.scope in _GLOBAL)
        except InvalidConfiguration as invalid:
            found += [
                Found(
                    Finding.OTHER_FILE_INVALID,
                    locations.shown(file.path),
                    f"{path or 'The file'} {problem.value}.",
                )
                for path, problem in invalid.problems
            ]
    return found


def _found_unprotected(locations: Locations, layers: Sequence[Layer]) -> list[Found]:
    """Find what the global file protects and, without a floor, nothing here does."""
    everywhere = locations.everywhere().read()
    (globally,) = layers_in_force(everywhere, everywhere, normalize_name=normalize_name)
    if any(layer.protected is None for layer in layers):  # then everything is refused
        return []
    here = [each for layer in layers for each in (layer.protected or {}).values()]
    names, urls = {each.name for each in here}, {each.url for each in here}
    return [
        Found(Finding.NOT_PROTECTED_HERE, visible(each.name))
        for each in (globally.protected or {}).values()
        if each.name not in names and each.url not in urls
    ]


def _found_repeated(locations: Locations) -> list[Found]:
    return [
        Found(Finding.KEY_REPEATED, locations.shown(file.path), path)
        for file in [*locations.config_files(), *locations.foreign_files()]
        if file.exists and file.scope is not Scope.DEFAULT
        for path in repeated_keys(file.path)
    ]


def _found_floor(locations: Locations) -> list[Found]:
    found = []
    for file in locations.config_files():
        raw = file.read() if file.scope in (Scope.BUILT_IN, Scope.DEFAULT) else None
        if isinstance(raw, dict) and raw.get("floor") is True:
            found.append(Found(Finding.FLOOR_GIVES_WAY, locations.shown(file.path)))
    return found


def _found_disclosure(locations: Locations) -> list[Found]:
    """Find what the file in force says of who is told, and the global one does not."""
    selected, everywhere = locations.selected(), locations.everywhere()
    raw, globally = selected.read(), everywhere.read()
    found, file = [], locations.shown(selected.path)
    origin = local_origin(raw)
    if origin is not None and origin != local_origin(globally):
        found.append(Found(Finding.FIXTURE_IGNORED, file, f"It names {origin}."))
    if _permits_private(raw) and not _permits_private(globally):
        found.append(Found(Finding.PRIVATE_HOSTS_IGNORED, file))
    return found


def _permits_private(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("allow_private_hosts") is True


def _found_unavailable(
    locations: Locations, layers: Sequence[Layer], files: Sequence[ConfigFile]
) -> list[Found]:
    """Find the policies of files, and of entries whose file has another one."""
    found = []
    for layer, file in zip(layers, files, strict=True):
        if not isinstance(layer.settings, Configuration):
            continue
        if layer.settings.policy.on_unavailable is OnUnavailable.ALLOW:
            found.append(Found(Finding.UNAVAILABLE_ALLOWED, locations.shown(file.path)))
            continue
        found += [
            Found(
                Finding.UNAVAILABLE_ALLOWED,
                locations.shown(file.path),
                f"In the entry of {visible(approval.name)}.",
            )
            for approval in layer.settings.protected_servers.values()
            if approval.requirements is not None
            and approval.requirements.policy.on_unavailable is OnUnavailable.ALLOW
        ]
    return found


def _found_environment(locations: Locations, files: Sequence[ConfigFile]) -> list[Found]:
    defaults = [file.read() for file in files if file.scope is Scope.DEFAULT]
    dotenv = locations.root / "usr" / ".env"
    try:
        written = set(_VARIABLE.findall(read_text(dotenv)))
    except ValueError:
        written = set()
    sources = ((os.environ, "In the environment."), (written, f"In {locations.shown(dotenv)}."))
    return [
        Found(Finding.ENVIRONMENT_OVERRIDES, visible(variable), where)
        for raw in defaults
        for name in _variables(PLUGIN_NAME, raw)
        for variable in (f"A0_SET_{name}", f"A0_SET_{name.upper()}")
        for known, where in sources
        if variable in known
    ]


def _variables(prefix: str, raw: object, depth: int = 1) -> Iterator[str]:
    """Return the name of every default that can be overridden."""
    for key, value in raw.items() if isinstance(raw, Mapping) else ():
        if value is not None:
            yield f"{prefix}__{key}"
            if depth < MAX_ENVIRONMENT_DEPTH:
                yield from _variables(f"{prefix}__{key}", value, depth + 1)
