"""Two files together: the plugin agrees with an independent statement on pairs made up at random.

The long form of the comparison is a command of its own, see `floor_statement`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

import floor_statement
from floor_statement import LOCAL, PRIVATE_URL, PUBLIC, URLS, Answer, Call, File, Plugin

URL = URLS[0]
PROVEN = dict.fromkeys(floor_statement.CHECKS, "proven")
WARNING = Answer({**PROVEN, "protocol_handshake": "failed"}, "", 1.0, "", 0.0)
FINE = Answer(PROVEN, "", 1.0, "", 0.0)
LENIENT = {"required_proven": [], "on_caution": "allow", "on_unavailable": "allow"}


def test_the_plugin_agrees_with_the_statement() -> None:
    tally = floor_statement.compare(4000, seed=3)

    assert tally.disagreements == 0, tally.examples
    assert tally.pairs == 4000
    assert tally.allowed > 1500
    assert tally.refused > 4000
    assert tally.lowered > 400
    assert tally.unprotected > 400
    assert tally.told > 2000


def test_the_generator_makes_up_every_kind_of_pair() -> None:
    pairs = [floor_statement.pair(random.Random(seed)) for seed in range(2000)]
    kinds = {
        (here.is_valid, everywhere.is_valid, here.raw == everywhere.raw)
        for here, everywhere in pairs
    }

    assert kinds == {
        *((one, other, False) for one in (True, False) for other in (True, False)),
        *((one, one, True) for one in (True, False)),
    }


def both(here: Any, everywhere: Any, *calls: Call) -> list[tuple[bool, set[tuple[str, str]]]]:
    """Return for each call whether it goes on, and who is told of it, as both statements say."""
    plugin, found = Plugin(), []
    files = File(here), File(everywhere)
    for call in calls:
        plugin.now += call.later
        rest = call, dict(plugin.kept), plugin.now
        says, told = plugin.call(here, everywhere, call)
        assert says != "refused" or not floor_statement.goes_on(*files, *rest)
        assert says == "refused" or floor_statement.goes_on(*files, *rest)
        assert told == floor_statement.tells(*files, *rest)
        found.append((says != "refused", told))
    return found


SERVERS = {"protected_servers": {"tools": URL}}


def test_a_short_deadline_does_not_hide_a_warning_from_the_floor() -> None:
    """The floor tolerates a service that says nothing; it would have heard it."""
    impatient = {**SERVERS, "timeout_seconds": 0.1, "cache_ttl_seconds": 0, "policy": LENIENT}
    floor = {**SERVERS, "floor": True, "policy": LENIENT}
    call = Call("tools", URL, 0.0, WARNING)

    assert both(impatient, floor, call) == [(False, {(PUBLIC, URL)})]
    assert both(impatient, {**floor, "floor": False}, call) == [(True, {(PUBLIC, URL)})]


def test_a_short_lifetime_does_not_spare_the_floor_its_evidence() -> None:
    here = {**SERVERS, "cache_ttl_seconds": 0, "policy": LENIENT}
    floor = {**SERVERS, "floor": True}
    calls = [Call("tools", URL, 20.0, answer) for answer in (WARNING, FINE, FINE)]

    assert both(here, floor, *calls) == [(False, {(PUBLIC, URL)}), (False, set()), (False, set())]


@pytest.mark.parametrize("named", [{}, {"fixture_guild_origin": LOCAL[1]}])
@pytest.mark.parametrize("floor", [True, False])
def test_a_specific_file_has_no_say_in_who_is_told(named: dict[str, str], floor: bool) -> None:
    everywhere = {**SERVERS, "fixture_guild_origin": LOCAL[0], "floor": floor}

    assert both({**SERVERS, **named}, everywhere, Call("tools", URL, 0.0, FINE)) == [
        (True, {(LOCAL[0], URL)})
    ]


@pytest.mark.parametrize("permitted", [True, False])
def test_a_project_protects_a_private_server_of_its_own(permitted: bool) -> None:
    """The service that the global file names is told, where that file permits it."""
    everywhere = {"fixture_guild_origin": LOCAL[0], "allow_private_hosts": permitted}
    here = {"protected_servers": {"own": PRIVATE_URL}, "allow_private_hosts": True}

    assert both(here, everywhere, Call("own", PRIVATE_URL, 0.0, FINE)) == [
        (permitted, {(LOCAL[0], PRIVATE_URL)} if permitted else set())
    ]
