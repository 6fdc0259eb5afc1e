"""Which tests should notice a fault in a room of the gate's way?

Rules of this module:

1. Every room of the gate's way has a line, also one in which there is nothing to mutate. The
   commands are none of them.
2. Unit tests come first; a mutant that they let pass meets the tests that go through a host.
3. A room names few test files, so that a mutant's run is short.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Tests(NamedTuple):
    """The test files of a room, without "test_" and ".py".

    Attributes:
        unit: of unit-tests.
        native: of native-tests, which need a host each.
    """

    unit: tuple[str, ...] = ()
    native: tuple[str, ...] = ()


_REFUSALS: Final = ("decisions", "evidence")
_SETTINGS: Final = ("settings", "unreadable_places", "floor")
_DISPATCH: Final = ("decisions", "untouched", "dispatch", "binding_changes", "pins")
_MOMENTS: Final = ("last_moment", "parallel_evidence", "evidence", "settings", "floor", "load")

ROOMS: Final = {
    "terms": Tests(("vocabulary",)),
    "product": Tests(("endpoint",)),
    "exceptions": Tests(("exceptions", "observe")),
    "untrusted": Tests(("untrusted",)),
    "denial": Tests(("vocabulary", "samples"), ("decisions", "dispatch")),
    "reasons": Tests(("reasons", "vocabulary")),
    "requirements": Tests(("configuration", "requirements")),
    "policy": Tests(("policy", "evaluation")),
    "judgement": Tests(("vocabulary", "samples", "explain"), _REFUSALS),
    "message": Tests(("vocabulary", "samples"), _REFUSALS),
    "records": Tests(("records", "explain", "samples"), ("parallel_evidence", *_REFUSALS, "floor")),
    "evaluation": Tests(("evaluation", "in_force", "floor_statement", "requirements"), _REFUSALS),
    "defaults": Tests((), ("defaults",)),
    "host": Tests((), (*_DISPATCH, *_MOMENTS, "unreadable_places", "aliases")),
    "gate": Tests((), (*_DISPATCH, *_MOMENTS, "aliases", "look_up")),
    "execution": Tests((), ("dispatch", "last_moment", "look_up")),
    "seam": Tests((), ("look_up", "last_moment")),
    "look_up": Tests((), ("look_up", "swaps", "last_moment", "binding_changes")),
    "binding/alias": Tests(("alias",), ("aliases",)),
    "binding/approval": Tests(("comparison",)),
    "binding/view": Tests(("comparison",)),
    "binding/comparison": Tests(("comparison", "evaluation")),
    "binding/headers": Tests(("headers", "comparison")),
    "binding/pins": Tests(("pins",)),
    "settings/configuration": Tests(("configuration",)),
    "settings/reader": Tests(("configuration", "in_force", "floor_statement")),
    "settings/in_force": Tests(("in_force", "evaluation", "floor_statement")),
    "settings/problems": Tests(("configuration", "in_force")),
    "settings/files": Tests(("files", "configuration", "in_force", "lint", "explain")),
    "settings/presence": Tests(("presence", "lint"), _SETTINGS),
    "settings/locations": Tests(("presence", "lint", "explain", "check"), _SETTINGS),
    "settings/toggles": Tests(("lint", "check"), _SETTINGS),
    "guild_preflight/verdicts": Tests(("contract",)),
    "guild_preflight/observation": Tests(("contract", "observe", "policy", "samples")),
    "guild_preflight/contract": Tests(("contract",)),
    "guild_preflight/endpoint": Tests(("endpoint",)),
    "guild_preflight/salvage": Tests(("salvage", "policy", "observe")),
    "guild_preflight/response_head": Tests(("response_head",)),
    "guild_preflight/cache_marks": Tests(("response_head",)),
    "guild_preflight/cache": Tests(("observe",)),
    "guild_preflight/single_flight": Tests(("observe",)),
    "guild_preflight/framing": Tests(("framing",)),
    "guild_preflight/checked_stream": Tests(("hostile_service",)),
    "guild_preflight/request": Tests(("observe", "hostile_service")),
    "guild_preflight/observe": Tests(("observe",)),
}
