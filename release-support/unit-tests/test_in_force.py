"""Demands: which files a call must satisfy, and that what was read is not read into another."""

import copy
import json
import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.binding.approval import Approval
from usr.plugins.agent_guild_preflight.helpers.requirements import (
    OnCaution,
    Policy,
)
from usr.plugins.agent_guild_preflight.helpers.settings import in_force as room
from usr.plugins.agent_guild_preflight.helpers.settings import reader
from usr.plugins.agent_guild_preflight.helpers.settings.configuration import Configuration
from usr.plugins.agent_guild_preflight.helpers.settings.files import UNREADABLE
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import Layer, Source
from usr.plugins.agent_guild_preflight.helpers.settings.problems import (
    InvalidConfiguration,
    Problem,
)

URL = "https://mcp.example.com/mcp"
DIGEST = "sha256:" + "0123456789abcdef" * 4
ORIGIN = "http://127.0.0.1:8080"
OTHER_ORIGIN = "http://[::1]:8080"
NAN = float("nan")

Problems = tuple[tuple[str, Problem], ...]


def normalize_name(name: str) -> str:
    """Normalise as the framework does."""
    return re.sub(r"\W", "_", name.strip().lower())


def layers_in_force(selected: object, everywhere: object) -> tuple[Layer, ...]:
    return room.layers_in_force(selected, everywhere, normalize_name=normalize_name)


def said(selected: object, everywhere: object) -> list[tuple[str, Configuration | Problems]]:
    """Return each demand as its source, and its settings or what is wrong with them."""
    return [
        (
            layer.source.value,
            layer.settings.problems
            if isinstance(layer.settings, InvalidConfiguration)
            else layer.settings,
        )
        for layer in layers_in_force(selected, everywhere)
    ]


def approved(url: str = URL) -> dict[str, Approval]:
    return {"weather": Approval("weather", url)}


# One file


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, Configuration()),
        ({"floor": None}, Configuration()),
        ({"floor": False}, Configuration(floor=False)),
        ({"floor": True}, Configuration(floor=True)),
        ({"floor": True, "timeout_seconds": 1}, Configuration(floor=True, timeout_seconds=1.0)),
        ({"protected_servers": {"Weather": URL}}, Configuration(protected_servers=approved())),
        ({"fixture_guild_origin": ORIGIN}, Configuration(fixture_guild_origin=ORIGIN)),
        (
            {"fixture_guild_origin": ORIGIN, "floor": True},
            Configuration(fixture_guild_origin=ORIGIN, floor=True),
        ),
        (None, (("", Problem.NOT_AN_OBJECT),)),
        ([], (("", Problem.NOT_AN_OBJECT),)),
        ("text", (("", Problem.NOT_AN_OBJECT),)),
        ({"floor": "x"}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": 0}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"typo": 1, "floor": True}, (("typo", Problem.UNKNOWN_KEY),)),
        ({"timeout_seconds": NAN, "floor": True}, (("timeout_seconds", Problem.NOT_A_NUMBER),)),
    ],
)
def test_the_global_file_alone_makes_one_demand(raw: object, expected: object) -> None:
    assert said(raw, copy.deepcopy(raw)) == [("selected", expected)]


def test_the_global_file_is_the_same_file_however_often_it_is_read() -> None:
    """One text held twice, or two that are equal: it is what a file holds that counts."""
    url = "/".join(["https:", "", "mcp.example.com", "mcp"])
    held_twice = {"protected_servers": {"a": url, "b": url}, "floor": True}
    read_anew = json.loads(json.dumps(held_twice))
    servers = {name: Approval(name, url) for name in ("a", "b")}
    expected = [("selected", Configuration(protected_servers=servers, floor=True))]

    assert said(held_twice, read_anew) == expected
    assert said(read_anew, held_twice) == expected


# Two files, no floor


@pytest.mark.parametrize(
    "everywhere",
    [
        {},
        {"floor": None},
        {"floor": False},
        {"timeout_seconds": 2},
        {"timeout_seconds": 2, "floor": False},
        {"protected_servers": {"maps": "https://maps.example/"}},
    ],
)
def test_without_a_floor_the_selected_file_alone_is_in_force(everywhere: object) -> None:
    selected = {"protected_servers": {"weather": URL}, "timeout_seconds": 1}

    assert said(selected, everywhere) == [
        ("selected", Configuration(protected_servers=approved(), timeout_seconds=1.0))
    ]
    assert said({"typo": 1}, everywhere) == [("selected", (("typo", Problem.UNKNOWN_KEY),))]
    assert said(None, everywhere) == [("selected", (("", Problem.NOT_AN_OBJECT),))]


@pytest.mark.parametrize("typo", ["Floor", "flor", "typo"])
def test_a_misspelled_key_may_have_been_the_floor(typo: str) -> None:
    """A typo must not lower anything; `floor: false` beside it says that none was meant."""
    selected = {"protected_servers": {"weather": URL}}
    everywhere = {"protected_servers": {"weather": URL}, typo: True}

    assert said(selected, everywhere) == [
        ("selected", Configuration(protected_servers=approved())),
        ("floor", ((typo, Problem.UNKNOWN_KEY),)),
    ]
    assert layers_in_force(selected, everywhere)[1].protected == approved()
    assert len(layers_in_force({}, {**everywhere, "floor": False})) == 1


# Two files and a floor


def test_with_a_floor_both_files_are_in_force_each_whole() -> None:
    """The selected file comes first, and neither lends the other anything."""
    selected = {
        "protected_servers": {"weather": "https://other.example/"},
        "policy": {"on_caution": "allow"},
        "cache_ttl_seconds": 60,
    }
    everywhere = {
        "protected_servers": {"weather": {"url": URL, "tools": {"t": DIGEST}}},
        "policy": {"required_proven": []},
        "timeout_seconds": 2,
        "allow_private_hosts": True,
        "floor": True,
    }

    assert said(selected, everywhere) == [
        (
            "selected",
            Configuration(
                protected_servers=approved("https://other.example/"),
                policy=Policy(on_caution=OnCaution.ALLOW),
                cache_ttl_seconds=60.0,
            ),
        ),
        (
            "floor",
            Configuration(
                protected_servers={"weather": Approval("weather", URL, {"t": DIGEST})},
                policy=Policy(required_proven=()),
                timeout_seconds=2.0,
                allow_private_hosts=True,
                floor=True,
            ),
        ),
    ]
    assert [layer.source for layer in layers_in_force(selected, everywhere)] == [
        Source.SELECTED,
        Source.FLOOR,
    ]


@pytest.mark.parametrize("selected", [{}, {"floor": None}, {"policy": None}])
def test_a_file_of_defaults_does_not_lift_the_floor(selected: object) -> None:
    everywhere = {"protected_servers": {"weather": URL}, "floor": True}

    assert said(selected, everywhere) == [
        ("selected", Configuration()),
        ("floor", Configuration(protected_servers=approved(), floor=True)),
    ]


@pytest.mark.parametrize(
    ("selected", "found"),
    [
        (None, (("", Problem.NOT_AN_OBJECT),)),
        ([], (("", Problem.NOT_AN_OBJECT),)),
        ("text", (("", Problem.NOT_AN_OBJECT),)),
        (UNREADABLE, (("", Problem.UNREADABLE),)),
        ({"typo": 1}, (("typo", Problem.UNKNOWN_KEY),)),
        ({"timeout_seconds": 0}, (("timeout_seconds", Problem.OUT_OF_RANGE),)),
    ],
)
def test_a_broken_selected_file_does_not_lift_the_floor(selected: object, found: Problems) -> None:
    assert said(selected, {"floor": True}) == [
        ("selected", found),
        ("floor", Configuration(floor=True)),
    ]


@pytest.mark.parametrize(
    ("everywhere", "found"),
    [
        (UNREADABLE, (("", Problem.UNREADABLE),)),
        (None, (("", Problem.NOT_AN_OBJECT),)),
        ([], (("", Problem.NOT_AN_OBJECT),)),
        ([{"floor": False}], (("", Problem.NOT_AN_OBJECT),)),
        ("", (("", Problem.NOT_AN_OBJECT),)),
        ("floor: false", (("", Problem.NOT_AN_OBJECT),)),
        (0, (("", Problem.NOT_AN_OBJECT),)),
        (False, (("", Problem.NOT_AN_OBJECT),)),
        ({"floor": 0}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": 0.0}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": 1}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": ""}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": "x"}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": "true"}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": "false"}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": []}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": {}}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": NAN}, (("floor", Problem.NOT_BOOLEAN),)),
        ({"floor": True, "typo": 1}, (("typo", Problem.UNKNOWN_KEY),)),
        (
            {"floor": "x", "typo": 1},
            (("typo", Problem.UNKNOWN_KEY), ("floor", Problem.NOT_BOOLEAN)),
        ),
    ],
)
def test_where_nobody_can_tell_the_floor_is_an_invalid_configuration(
    everywhere: object, found: Problems
) -> None:
    selected = {"protected_servers": {"weather": URL}}

    assert said(selected, everywhere) == [
        ("selected", Configuration(protected_servers=approved())),
        ("floor", found),
    ]
    assert layers_in_force(selected, everywhere)[1].protected is None


@pytest.mark.parametrize("floor", [0, 1, "true", [], True])
def test_an_invalid_floor_still_says_what_it_protects(floor: object) -> None:
    everywhere = {"protected_servers": {"weather": URL}, "floor": floor, "typo": 1}

    assert layers_in_force({}, everywhere)[1].protected == approved()


# A floor in the specific file


@pytest.mark.parametrize("value", [True, False, "x", "", 0, 1, [], {}])
@pytest.mark.parametrize(
    ("everywhere", "more"),
    [
        ({}, []),
        ({"floor": None, "timeout_seconds": 1}, []),
        ({"floor": False, "timeout_seconds": 1}, []),
        (
            {"floor": True, "timeout_seconds": 1},
            [("floor", Configuration(floor=True, timeout_seconds=1.0))],
        ),
        (UNREADABLE, [("floor", (("", Problem.UNREADABLE),))]),
        ([], [("floor", (("", Problem.NOT_AN_OBJECT),))]),
    ],
)
def test_a_floor_in_the_specific_file_is_a_problem_of_that_file(
    value: object, everywhere: object, more: list[object]
) -> None:
    selected = {"floor": value, "protected_servers": {"weather": URL}}

    assert said(selected, everywhere) == [
        ("selected", (("floor", Problem.FLOOR_ELSEWHERE),)),
        *more,
    ]
    assert layers_in_force(selected, everywhere)[0].protected == approved()


def test_a_specific_file_that_differs_by_its_floor_alone_is_another_file() -> None:
    everywhere = {"floor": True, "protected_servers": {"weather": URL}}

    assert [source for source, _ in said({**everywhere, "floor": None}, everywhere)] == [
        "selected",
        "floor",
    ]
    assert said({**everywhere, "floor": False}, everywhere)[0] == (
        "selected",
        (("floor", Problem.FLOOR_ELSEWHERE),),
    )


# Who is told


@pytest.mark.parametrize("floor", [None, False, True])
@pytest.mark.parametrize("everywhere", [None, ORIGIN, OTHER_ORIGIN])
@pytest.mark.parametrize("selected", [None, ORIGIN, OTHER_ORIGIN, "left out"])
def test_the_service_is_the_one_that_the_global_file_names(
    selected: str | None, everywhere: str | None, floor: bool | None
) -> None:
    raw = {"protected_servers": {"weather": URL}, "timeout_seconds": 1}
    if selected != "left out":
        raw["fixture_guild_origin"] = selected

    found = said(raw, {"fixture_guild_origin": everywhere, "floor": floor})

    assert found[0] == (
        "selected",
        Configuration(
            protected_servers=approved(), timeout_seconds=1.0, fixture_guild_origin=everywhere
        ),
    )
    assert all(settings.fixture_guild_origin == everywhere for _, settings in found)


@pytest.mark.parametrize("floor", [None, False, True])
@pytest.mark.parametrize("everywhere", [None, False, True])
@pytest.mark.parametrize("selected", [None, False, True])
def test_a_private_host_is_told_where_both_files_permit_it(
    selected: bool | None, everywhere: bool | None, floor: bool | None
) -> None:
    found = said(
        {"allow_private_hosts": selected}, {"allow_private_hosts": everywhere, "floor": floor}
    )

    assert found[0][1] == Configuration(allow_private_hosts=selected is True and everywhere is True)


# A global file that is not valid, and whether it may have a floor.
INVALID_GLOBAL: list[tuple[object, bool]] = [
    ({"fixture_guild_origin": ORIGIN + "/"}, False),
    ({"fixture_guild_origin": "https://example.com"}, False),
    ({"fixture_guild_origin": [ORIGIN]}, False),
    ({"Fixture_guild_origin": ORIGIN, "floor": False}, False),
    ({"fixture_guild_origin": ORIGIN, "timeout_seconds": 0}, False),
    ({"allow_private_hosts": "false"}, False),
    ({"policy": []}, False),
    ({"protected_servers": []}, False),
    ({"Fixture_guild_origin": ORIGIN}, True),
    ({"floor": "x"}, True),
    (UNREADABLE, True),
    (None, True),
    ([ORIGIN], True),
    (ORIGIN, True),
]


OTHER_URL = "https://other.example/"


@pytest.mark.parametrize("everywhere", [raw for raw, _ in INVALID_GLOBAL])
def test_while_the_global_file_is_not_valid_nobody_is_told(everywhere: object) -> None:
    """Whatever a specific file protects is refused, and the global file is what has to be mended."""
    selected = {"protected_servers": {"weather": URL}}
    ((_, problems),) = said(everywhere, everywhere)

    assert said(selected, everywhere) == [
        ("selected", Configuration(protected_servers=approved())),
        ("floor", problems),
    ]
    protected = layers_in_force(selected, everywhere)[1].protected
    assert protected is None or protected == approved()


@pytest.mark.parametrize("floor", [None, False, True])
def test_an_invalid_global_file_protects_every_url_of_the_specific_one(floor: bool | None) -> None:
    """By one name they may approve two; the global file's own only where it may be a floor."""
    everywhere = {
        "protected_servers": {"weather": OTHER_URL, "maps": OTHER_URL},
        "timeout_seconds": 0,
        "floor": floor,
    }
    selected = {"protected_servers": {"weather": URL, "tides": URL}}
    found = layers_in_force(selected, everywhere)[1].protected

    assert found is not None
    urls = {(approval.name, approval.url) for approval in found.values()}
    below = {("weather", OTHER_URL), ("maps", OTHER_URL)} if floor else set()
    assert urls == {("weather", URL), ("tides", URL)} | below
    assert all(name in found for name, _ in urls)


@pytest.mark.parametrize(("everywhere", "may_have_floor"), INVALID_GLOBAL)
@pytest.mark.parametrize("selected", [{}, {"protected_servers": {}}, {"timeout_seconds": 1}])
def test_a_specific_file_that_protects_nothing_tells_nobody(
    selected: object, everywhere: object, may_have_floor: bool
) -> None:
    layers = layers_in_force(selected, everywhere)

    assert isinstance(layers[0].settings, Configuration)
    assert len(layers) == 1 + may_have_floor


# What a demand protects


@pytest.mark.parametrize(
    ("raw", "protected"),
    [
        ({}, {}),
        ({"protected_servers": {"Weather": URL}}, approved()),
        ({"protected_servers": {"Weather": URL}, "typo": 1}, approved()),
        ({"protected_servers": {}, "typo": 1}, {}),
        ({"typo": 1}, None),
        (None, None),
        (UNREADABLE, None),
    ],
)
def test_a_demand_says_what_it_protects(raw: object, protected: object) -> None:
    layer = layers_in_force(raw, {})[0]

    assert layer.protected == protected
    assert (layer.protected is None) is (protected is None)


# What was read before


class Normalizer:
    """Normalises as the framework does, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, name: str) -> str:
        self.asked += 1
        return normalize_name(name)


def test_what_was_read_before_is_not_read_again() -> None:
    """Though the framework hands over other objects each time."""
    normalizer = Normalizer()
    files = ({"protected_servers": {"weather": URL}}, {"floor": False})

    first = room.layers_in_force(*copy.deepcopy(files), normalize_name=normalizer)

    assert normalizer.asked == 1
    assert room.layers_in_force(*copy.deepcopy(files), normalize_name=normalizer) == first
    assert normalizer.asked == 1
    files[0]["protected_servers"]["weather"] += "/"
    assert room.layers_in_force(*files, normalize_name=normalizer) != first
    assert normalizer.asked == 2


def test_only_the_last_pairs_of_files_are_remembered() -> None:
    normalizer = Normalizer()

    def read(number: int) -> None:
        file = {"protected_servers": {"weather": f"{URL}/{number}"}}
        room.layers_in_force(file, file, normalize_name=normalizer)

    for number in range(room.MAX_REMEMBERED + 1):
        read(number)
    before = normalizer.asked
    read(room.MAX_REMEMBERED)
    assert normalizer.asked == before
    read(0)
    assert normalizer.asked == before + 1


def test_large_files_are_not_remembered() -> None:
    """What is read of them takes many times their size, and there may be 32 editions."""
    for size, again in ((room.MAX_REMEMBERED_BYTES // 2, 0), (room.MAX_REMEMBERED_BYTES, 1)):
        normalizer = Normalizer()
        file = {"protected_servers": {"weather": URL}, "x" * size: 0}
        for _ in range(2):
            room.layers_in_force(file, {}, normalize_name=normalizer)
        assert normalizer.asked == 1 + again


def test_what_one_normaliser_made_of_a_file_is_not_another_s() -> None:
    file = {"protected_servers": {"Weather": URL}}

    for normalize, name in ((str.lower, "weather"), (str.upper, "WEATHER"), (str.lower, "weather")):
        (layer,) = room.layers_in_force(file, file, normalize_name=normalize)
        assert layer.protected == {name: Approval(name, URL)}


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"timeout_seconds": 1}, {"timeout_seconds": True}),
        ({"cache_ttl_seconds": 0}, {"cache_ttl_seconds": False}),
        ({"cache_ttl_seconds": 0.0}, {"cache_ttl_seconds": False}),
        ({"allow_private_hosts": True}, {"allow_private_hosts": 1}),
        ({"floor": True}, {"floor": 1}),
        ({"floor": True}, {"floor": 1.0}),
        ({"floor": False}, {"floor": 0}),
        (
            {"policy": {"tolerate_unknown_required": False}},
            {"policy": {"tolerate_unknown_required": 0}},
        ),
    ],
)
def test_what_was_read_before_is_not_taken_for_its_equal(
    good: dict[str, object], bad: dict[str, object]
) -> None:
    """Python holds 1, 1.0 and true for equal; the settings do not, in whatever order they come."""
    assert good == bad
    for _ in range(2):
        for first, second in ((good, bad), (bad, good)):
            ((_, found),) = said(first, first)
            assert isinstance(found, Configuration) is (first is good)
            # Equal in Python, and yet not the global file: a floor stands where it must not.
            assert said(first, second)[0][0] == "selected"
            if "floor" in good:
                assert said(first, second)[0][1] == (("floor", Problem.FLOOR_ELSEWHERE),)


@pytest.mark.parametrize(("yes", "no"), [(True, 1), (True, 1.0), (False, 0), (False, 0.0)])
def test_a_floor_that_was_read_before_is_not_taken_for_its_equal(yes: bool, no: float) -> None:
    for _ in range(2):
        assert said({}, {"floor": no})[1:] == [("floor", (("floor", Problem.NOT_BOOLEAN),))]
        assert said({}, {"floor": yes})[1:] == (
            [("floor", Configuration(floor=True))] if yes else []
        )


def test_two_files_are_not_taken_for_the_same_two_the_other_way_round() -> None:
    one, other = {"timeout_seconds": 1}, {"timeout_seconds": 2, "floor": None}

    for _ in range(2):
        assert said(one, other) == [("selected", Configuration(timeout_seconds=1.0))]
        assert said(other, one) == [("selected", Configuration(timeout_seconds=2.0))]


def test_problems_stand_in_the_order_of_the_file_whatever_was_read_before() -> None:
    for _ in range(2):
        for keys in (["x", "y"], ["y", "x"]):
            assert said(dict.fromkeys(keys, 1), {}) == [
                ("selected", tuple((key, Problem.UNKNOWN_KEY) for key in keys))
            ]


def test_what_was_read_before_cannot_be_changed() -> None:
    def file() -> dict[str, Any]:
        return {"protected_servers": {"weather": {"url": URL, "tools": {"t": DIGEST}}}}

    expected = {"weather": Approval("weather", URL, {"t": DIGEST})}
    handed = file()
    (layer,) = layers_in_force(handed, handed)

    with pytest.raises(TypeError):
        layer.protected["weather"] = Approval("weather", "y")
    with pytest.raises(TypeError):
        layer.protected["weather"].pins["t"] = "y"
    with pytest.raises(AttributeError):
        layer.settings.timeout_seconds = 1.0
    handed["protected_servers"]["weather"]["tools"]["t"] = "y"
    handed["protected_servers"]["maps"] = URL
    assert layer.protected == expected
    assert layers_in_force(file(), file())[0].protected == expected


def test_a_kept_refusal_keeps_nothing_of_the_stack() -> None:
    for _ in range(2):
        for layer in layers_in_force({"typo": 1}, {"floor": "x"}):
            assert isinstance(layer.settings, InvalidConfiguration)
            assert layer.settings.__traceback__ is None
            assert layer.settings.__cause__ is None


# Values that no file of the framework's holds


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Text(str):
    """A text that is not of the plain kind."""

    __slots__ = ()


ODD = {
    "endless": endless,
    "nested": lambda: nested(50_000),
    "object": object,
    "set": lambda: {1},
    "date": lambda: date(2026, 11, 30),
    "text": lambda: Text("5"),
    "complex": lambda: 1j,
    "bytes": lambda: b"5",
}


@pytest.mark.parametrize("kind", ODD)
def test_values_of_no_plain_kind(kind: str) -> None:
    """YAML has dates and sets, and a plugin may hand anything over; none is a setting."""
    value = ODD[kind]()
    wrong = {"protected_servers": {}, "timeout_seconds": value, "policy": value}
    found = (("policy", Problem.NOT_AN_OBJECT), ("timeout_seconds", Problem.NOT_A_NUMBER))

    for _ in range(2):
        assert said(wrong, {}) == [("selected", found)]
        assert said({}, wrong) == [("selected", Configuration())]
        assert said({}, {**wrong, "floor": True}) == [
            ("selected", Configuration()),
            ("floor", found),
        ]
        assert said(wrong, wrong)[0] == ("selected", found)


@pytest.mark.parametrize("kind", ODD)
def test_a_floor_of_no_plain_kind(kind: str) -> None:
    value = ODD[kind]()

    assert said({}, {"floor": value})[1:] == [("floor", (("floor", Problem.NOT_BOOLEAN),))]
    assert said({"floor": value}, {}) == [("selected", (("floor", Problem.FLOOR_ELSEWHERE),))]


@pytest.mark.parametrize("kind", ODD)
def test_a_file_of_no_plain_kind(kind: str) -> None:
    value = ODD[kind]()
    found = (("", Problem.NOT_AN_OBJECT),)

    assert said(value, {}) == [("selected", found)]
    assert said({}, value) == [("selected", Configuration()), ("floor", found)]


def test_the_only_file_may_be_one_that_cannot_be_read() -> None:
    assert said(UNREADABLE, UNREADABLE)[0] == ("selected", (("", Problem.UNREADABLE),))


# Any two files

values = st.sampled_from(
    [None, False, True, 0, 1, 1.0, 0.0, "", "x", [], {}, NAN, ORIGIN, {"weather": URL}, {"w": 1}]
)
any_files = (
    st.dictionaries(
        st.sampled_from([*Configuration.__dataclass_fields__, "typo"]), values, max_size=3
    )
    | values
)


def expected_of(selected: Any, everywhere: Any) -> list[tuple[str, Configuration | Problems]]:
    """Say in other words what a call must satisfy."""

    def read(raw: object, **where: bool) -> Configuration | Problems:
        try:
            return reader.parse(raw, normalize_name=normalize_name, **where)
        except InvalidConfiguration as invalid:
            return invalid.problems

    if json.dumps(selected) == json.dumps(everywhere):
        return [("selected", read(selected))]
    here, globally = read(selected, is_global=False), read(everywhere)
    if isinstance(here, Configuration) and isinstance(globally, Configuration):
        both = {**selected, "fixture_guild_origin": everywhere.get("fixture_guild_origin")}
        if not everywhere.get("allow_private_hosts"):
            both["allow_private_hosts"] = False
        here = read(both)
    first = ("selected", here)
    if isinstance(everywhere, dict):
        says_no = any(everywhere.get("floor", ...) is nothing for nothing in (None, False))
        known = {*Configuration.__dataclass_fields__} - {"floor"}
        protects = "protected_servers" in selected if isinstance(selected, dict) else False
        is_told = protects and isinstance(selected["protected_servers"], dict)
        tells = (
            is_told and selected["protected_servers"] and not isinstance(globally, Configuration)
        )
        if (says_no or set(everywhere) <= known) and not tells:
            return [first]
    return [first, ("floor", globally)]


@settings(max_examples=400)
@given(any_files, any_files, st.booleans())
def test_any_two_files(selected: Any, everywhere: Any, alike: bool) -> None:
    """The second time it is what was read before."""
    everywhere = copy.deepcopy(selected) if alike else everywhere

    for _ in range(2):
        assert said(selected, everywhere) == expected_of(selected, everywhere)


def test_one_unreadable_global_file_makes_one_demand() -> None:
    (layer,) = layers_in_force(UNREADABLE, UNREADABLE)

    assert layer.source is Source.SELECTED
    assert layer.protected is None


@pytest.mark.parametrize("raw", [{"typo": 1}, {"typo": date(2026, 11, 30)}], ids=["kept", "not"])
def test_what_is_kept_of_a_problem_holds_nothing_of_the_stack(raw: object) -> None:
    """Settings may be read while another exception, with any text, is on its way."""
    try:
        raise KeyError("secret")
    except KeyError:
        (layer,) = layers_in_force(raw, raw)

    invalid = layer.settings
    assert isinstance(invalid, InvalidConfiguration)
    assert (invalid.__traceback__, invalid.__context__, invalid.__cause__) == (None, None, None)
