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

from ..configuration import Configuration, local_origin, parse
from ..demands import Demand, in_force
from ..places import (
    PLUGIN_NAME,
    PROFILE,
    ConfigFile,
    Place,
    Scope,
    normalize_name,
    read_text,
)
from ..policy import OnUnavailable
from ..problems import InvalidConfiguration
from ..untrusted import visible
from .faults import repeated_keys
from .findings import Finding, Found

MAX_ENVIRONMENT_DEPTH: Final = 4  # an anchor of YAML can lead back to itself

_GLOBAL: Final = (Scope.GLOBAL, Scope.BUILT_IN, Scope.DEFAULT)
_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?['\"]?([^\s='\"#]+)['\"]?[ \t]*=", re.M)


def found_in_settings(place: Place, demands: Sequence[Demand]) -> list[Found]:
    """Look at the settings.

    Args:
        place: where they are, and for whom.
        demands: those in force.

    Returns:
        What was found, in the order of `Finding`.
    """
    files = [place.file_of(demand.source) for demand in demands]
    return [
        *_found_in_profile(place),
        *_found_in_other_files(place, files),
        *_found_unprotected(place, demands),
        *_found_repeated(place),
        *_found_floor(place),
        *_found_fixture(place),
        *_found_unavailable(place, demands, files),
        *_found_environment(place, files),
    ]


def _found_in_profile(place: Place) -> list[Found]:
    folders = [folder for scope, folder in place.folders() if scope is not Scope.PROJECT]
    # The framework's own profile is there, also where only the folder usr is.
    if place.profile in ("", PROFILE) or any(os.path.isdir(folder) for folder in folders):
        return []
    return [Found(Finding.PROFILE_UNKNOWN, visible(place.profile))]


def _found_in_other_files(place: Place, files: Sequence[ConfigFile]) -> list[Found]:
    found = []
    for file in [*place.config_files(), *place.foreign_files()]:
        if not file.exists or file in files:
            continue
        try:
            parse(file.read(), normalize_name=normalize_name, is_global=file.scope in _GLOBAL)
        except InvalidConfiguration as invalid:
            found += [
                Found(
                    Finding.OTHER_FILE_INVALID,
                    place.shown(file.path),
                    f"{path or 'The file'} {problem.value}.",
                )
                for path, problem in invalid.problems
            ]
    return found


def _found_unprotected(place: Place, demands: Sequence[Demand]) -> list[Found]:
    """Find what the global file protects and, without a floor, nothing here does."""
    everywhere = place.everywhere().read()
    (globally,) = in_force(everywhere, everywhere, normalize_name=normalize_name)
    if any(demand.protected is None for demand in demands):  # then everything is refused
        return []
    here = [each for demand in demands for each in (demand.protected or {}).values()]
    names, urls = {each.name for each in here}, {each.url for each in here}
    return [
        Found(Finding.NOT_PROTECTED_HERE, visible(each.name))
        for each in (globally.protected or {}).values()
        if each.name not in names and each.url not in urls
    ]


def _found_repeated(place: Place) -> list[Found]:
    return [
        Found(Finding.KEY_REPEATED, place.shown(file.path), path)
        for file in [*place.config_files(), *place.foreign_files()]
        if file.exists and file.scope is not Scope.DEFAULT
        for path in repeated_keys(file.path)
    ]


def _found_floor(place: Place) -> list[Found]:
    found = []
    for file in place.config_files():
        raw = file.read() if file.scope in (Scope.BUILT_IN, Scope.DEFAULT) else None
        if isinstance(raw, dict) and raw.get("floor") is True:
            found.append(Found(Finding.FLOOR_GIVES_WAY, place.shown(file.path)))
    return found


def _found_fixture(place: Place) -> list[Found]:
    selected = place.selected()
    origin = local_origin(selected.read())
    if origin is None or origin == local_origin(place.everywhere().read()):
        return []
    return [Found(Finding.FIXTURE_IGNORED, place.shown(selected.path), f"It names {origin}.")]


def _found_unavailable(
    place: Place, demands: Sequence[Demand], files: Sequence[ConfigFile]
) -> list[Found]:
    return [
        Found(Finding.UNAVAILABLE_ALLOWED, place.shown(file.path))
        for demand, file in zip(demands, files, strict=True)
        if isinstance(demand.settings, Configuration)
        and demand.settings.policy.on_unavailable is OnUnavailable.ALLOW
    ]


def _found_environment(place: Place, files: Sequence[ConfigFile]) -> list[Found]:
    defaults = [file.read() for file in files if file.scope is Scope.DEFAULT]
    dotenv = place.root / "usr" / ".env"
    try:
        written = set(_VARIABLE.findall(read_text(dotenv)))
    except ValueError:
        written = set()
    sources = ((os.environ, "In the environment."), (written, f"In {place.shown(dotenv)}."))
    return [
        Found(Finding.ENVIRONMENT_OVERRIDES, visible(variable), where)
        for raw in defaults
        for name in _variables(PLUGIN_NAME, raw)
        for variable in (f"A0_SET_{name}", f"A0_SET_{name.upper()}")
        for known, where in sources
        if variable in known
    ]


def _variables(prefix: str, raw: object, depth: int = 1) -> Iterator[str]:
    """Give the name of every default that can be overridden."""
    for key, value in raw.items() if isinstance(raw, Mapping) else ():
        if value is not None:
            yield f"{prefix}__{key}"
            if depth < MAX_ENVIRONMENT_DEPTH:
                yield from _variables(f"{prefix}__{key}", value, depth + 1)
