"""The house: who imports whom, as `helpers/README.md` says, and nothing in a circle."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HELPERS = Path(__file__).resolve().parents[2] / "helpers"
PACKAGE = "usr.plugins.agent_guild_preflight.helpers"
MAP = (HELPERS / "README.md").read_text(encoding="utf-8")
FRAMEWORK = "the framework"
ROOMS = sorted(
    path.relative_to(HELPERS).with_suffix("").as_posix() for path in HELPERS.rglob("*.py")
)


def permitted() -> dict[str, set[str]]:
    """Return what each wing or room may import, from the table of the map."""
    table = MAP.partition("| wing or room | may import |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [re.fullmatch(r"\| `([^`]+)` \|(.*) \|", row) for row in table.splitlines()]
    assert all(rows)
    found = {}
    for name, cell in (row.groups() for row in rows if row):
        may = set(re.findall(r"`([^`]+)`", cell))
        found[name] = may | ({FRAMEWORK} if FRAMEWORK in cell else set())
    return found


PERMITTED = permitted()


def wing_of(room: str) -> str:
    """Return the wing that a room stands in, or the room itself where it stands alone."""
    folder = room.rpartition("/")[0]
    return folder or room


def imports_of(room: str) -> Iterator[str]:
    """Return every room that a room imports, wherever in it, and the framework."""
    tree = ast.parse((HELPERS / f"{room}.py").read_text(encoding="utf-8"))
    parts = room.split("/")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = [*parts[: len(parts) - node.level], *(node.module or "").split(".")]
            names = [
                ".".join([PACKAGE, *filter(None, [*base, alias.name])]) for alias in node.names
            ]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from filter(None, map(imported, names))


def imported(name: str) -> str | None:
    """Return the room, or the framework, that an imported name belongs to; None for any other."""
    if name.startswith(f"{PACKAGE}."):
        path = name.removeprefix(f"{PACKAGE}.").replace(".", "/")
        return path if path in ROOMS else path.rpartition("/")[0]
    return (
        FRAMEWORK if name.partition(".")[0] in ("agent", "helpers", "usr", "initialize") else None
    )


def test_the_map_lists_every_wing_and_no_other() -> None:
    assert set(PERMITTED) == {wing_of(room) for room in ROOMS}
    assert set().union(*PERMITTED.values()) <= {*PERMITTED, FRAMEWORK}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_its_wing_may(room: str) -> None:
    wing = wing_of(room)
    found = {
        name if name == FRAMEWORK else wing_of(name)
        for name in imports_of(room)
        if name == FRAMEWORK or wing_of(name) != wing
    }
    assert found <= PERMITTED[wing]


def test_what_a_wing_may_import_it_does() -> None:
    """A permission that nobody uses is a door that nobody watches."""
    used: dict[str, set[str]] = {wing: set() for wing in PERMITTED}
    for room in ROOMS:
        for name in imports_of(room):
            used[wing_of(room)].add(name if name == FRAMEWORK else wing_of(name))
    unused = {wing: PERMITTED[wing] - used[wing] for wing in PERMITTED}
    assert not {wing: names for wing, names in unused.items() if names}


def test_only_the_seam_and_the_exception_import_the_framework() -> None:
    seam = {"host", "look_up", "defaults", "denial"}
    assert {room for room in ROOMS if FRAMEWORK in imports_of(room)} == seam


def test_no_import_runs_in_a_circle() -> None:
    """Neither among the rooms nor among the wings; `static_order` raises on a circle."""
    rooms = {room: {name for name in imports_of(room) if name != FRAMEWORK} for room in ROOMS}
    list(TopologicalSorter(rooms).static_order())
    wings: dict[str, set[str]] = {wing: set() for wing in PERMITTED}
    for room, names in rooms.items():
        wings[wing_of(room)] |= {wing_of(name) for name in names} - {wing_of(room)}
    list(TopologicalSorter(wings).static_order())


def test_the_map_lists_every_room_of_a_wing() -> None:
    for room in ROOMS:
        wing, _, name = room.rpartition("/")
        if not wing.startswith("commands"):
            assert re.search(rf"`(?:{re.escape(name)}|{re.escape(name)}\.py)`", MAP), room


def test_there_is_no_package_file() -> None:
    """The framework's `helpers` is a namespace package of the same name."""
    assert not list(HELPERS.rglob("__init__.py"))
