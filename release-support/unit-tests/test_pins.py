"""Pins: the canonical form of a definition, byte for byte, and the digest of it."""

import json
import unicodedata
from hashlib import sha256
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.binding import pins

NAN = float("nan")
INFINITY = float("inf")

TOOL = {
    "name": "forecast",
    "description": "Weather by city.",
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1},
            "days": {"type": "integer", "enum": [1, 3, 7], "default": 1},
        },
        "required": ["city"],
    },
}

# The escapes that JSON has a letter for; other control characters are written by number.
LETTERS = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}


def text_of(value: Any) -> str:
    """Write the canonical form of a JSON value, without the library that the room uses."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{"".join(map(character_of, value))}"'
    if isinstance(value, list):
        return f"[{','.join(map(text_of, value))}]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: [ord(character) for character in key])
        return f"{{{','.join(f'{text_of(key)}:{text_of(value[key])}' for key in keys)}}}"
    return repr(value)


def character_of(character: str) -> str:
    if character in LETTERS:
        return "\\" + LETTERS[character]
    return character if ord(character) >= 0x20 else f"\\u{ord(character):04x}"


def digest_of(tool: dict[str, Any]) -> str:
    """Return a definition's digest, computed once more."""
    exposed = {key: tool.get(key) for key in ("description", "input_schema", "name")}
    return "sha256:" + sha256(text_of(exposed).encode("utf-8")).digest().hex()


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are written alike: equal, and of equal types throughout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)  # 0.0 and -0.0 are equal, and two numbers


def with_schema(schema: Any) -> dict[str, Any]:
    return {"name": "t", "description": "d", "input_schema": schema}


def with_description(description: Any) -> dict[str, Any]:
    return {"name": "t", "description": description, "input_schema": {}}


# The canonical form

CANONICAL = {
    "nested schema": (
        TOOL,
        b'{"description":"Weather by city.","input_schema":{"properties":{"city":{"minLength":1,'
        b'"type":"string"},"days":{"default":1,"enum":[1,3,7],"type":"integer"}},"required":'
        b'["city"],"type":"object"},"name":"forecast"}',
    ),
    "nothing there": ({}, b'{"description":null,"input_schema":null,"name":null}'),
    "empty texts": (
        {"name": "", "description": "", "input_schema": {}},
        b'{"description":"","input_schema":{},"name":""}',
    ),
    "missing description": (
        {"name": "t", "input_schema": {}},
        b'{"description":null,"input_schema":{},"name":"t"}',
    ),
    "null description": (
        with_description(None),
        b'{"description":null,"input_schema":{},"name":"t"}',
    ),
    "missing schema": (
        {"name": "t", "description": "d"},
        b'{"description":"d","input_schema":null,"name":"t"}',
    ),
    "what is not exposed": (
        {
            "title": "T",
            "name": "t",
            "outputSchema": {},
            "input_schema": {},
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True},
            "description": "d",
            "_meta": {"x": 1},
            "server": "weather",
        },
        b'{"description":"d","input_schema":{},"name":"t"}',
    ),
    "spaces": (
        {"name": " t ", "description": "a  b ", "input_schema": {" ": [" ", []]}},
        b'{"description":"a  b ","input_schema":{" ":[" ",[]]},"name":" t "}',
    ),
    "unicode": (
        with_description("Gr\xf6\xdfe \u2603 \U0001f600 e\u0301 \u202e \ufeff"),
        b'{"description":"Gr\xc3\xb6\xc3\x9fe \xe2\x98\x83 \xf0\x9f\x98\x80 e\xcc\x81 '
        b'\xe2\x80\xae \xef\xbb\xbf","input_schema":{},"name":"t"}',
    ),
    "control characters": (
        with_description("\x00\x07\b\t\n\x0b\f\r\x0e\x1f \x7f\x80\x85\u2028\u2029"),
        rb'{"description":"\u0000\u0007\b\t\n\u000b\f\r\u000e\u001f '
        b"\x7f\xc2\x80\xc2\x85\xe2\x80\xa8\xe2\x80\xa9"
        b'","input_schema":{},"name":"t"}',
    ),
    "quotes": (
        with_description("say \"hi\" 'ho' \\ \\n / </a> & `"),
        rb'{"description":"say \"hi\" ' + rb"'ho' \\ \\n / </a> & `" + b'","input_schema":{},'
        b'"name":"t"}',
    ),
    "numbers": (
        with_schema([0, -0.0, 0.0, 1, 1.0, -1, 10**30, 0.1, 1e15, 1e16, 1e22, 1e-5, 5e-324]),
        b'{"description":"d","input_schema":[0,-0.0,0.0,1,1.0,-1,1000000000000000000000000000000,'
        b'0.1,1000000000000000.0,1e+16,1e+22,1e-05,5e-324],"name":"t"}',
    ),
    "words and empty values": (
        with_schema([True, False, None, "", [], {}, "true", "null"]),
        b'{"description":"d","input_schema":[true,false,null,"",[],{},"true","null"],"name":"t"}',
    ),
    "keys by code point": (
        # By the letters of their escapes, or in UTF-16, or by case, they would stand otherwise.
        with_schema(
            {
                "\U00010000": 1,
                "\uffff": 2,
                "\xfc": 3,
                "z": 4,
                "a": 5,
                "Z": 6,
                "10": 7,
                "9": 8,
                "#": 9,
                '"': 10,
                "!": 11,
                "\n": 12,
                "": 13,
                "aa": {"b": 1, "a": {"d": 1, "c": 2}},
            }
        ),
        b'{"description":"d","input_schema":{"":13,"\\n":12,"!":11,"\\"":10,"#":9,"10":7,"9":8,'
        b'"Z":6,"a":5,"aa":{"a":{"c":2,"d":1},"b":1},"z":4,"\xc3\xbc":3,"\xef\xbf\xbf":2,'
        b'"\xf0\x90\x80\x80":1},"name":"t"}',
    ),
}


@pytest.mark.parametrize("case", CANONICAL)
def test_the_canonical_form_byte_for_byte(case: str) -> None:
    tool, expected = CANONICAL[case]

    assert pins.canonical(tool) == expected
    assert pins.digest(tool) == "sha256:" + sha256(expected).hexdigest()
    assert digest_of(tool) == pins.digest(tool)


def test_a_digest_that_another_program_computed() -> None:
    """By `printf %s '...' | sha256sum`, with the text of the first row and of the second."""
    assert pins.digest(TOOL) == (
        "sha256:91ce4a6a61d8fa71b495af0e7b212157ef16af4ee6baa3db7453462f293ae105"
    )
    assert pins.digest({}) == (
        "sha256:4f9460d04ed35d3c01eb18e76c9e88289987dae7e393cfaaeca4c518029ac706"
    )


def test_the_order_of_the_keys_is_no_matter() -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return value

    assert list(turned(TOOL)) != list(TOOL)
    assert pins.digest(turned(TOOL)) == pins.digest(TOOL)


@pytest.mark.parametrize(
    "extra",
    [
        {"title": "Forecast"},
        {"title": NAN},
        {"annotations": {"destructiveHint": True}},
        {"output_schema": object()},
        {"inputSchema": {}},
        {"Name": "other"},
        {"": "\ud800"},
    ],
)
def test_what_is_not_exposed_is_no_part_of_a_definition(extra: dict[str, Any]) -> None:
    assert pins.digest({**TOOL, **extra}) == pins.digest(TOOL)
    assert pins.digest({**extra, **TOOL}) == pins.digest(TOOL)


SCHEMAS = [
    TOOL["input_schema"],
    None,
    {},
    [],
    "",
    False,
    0,
    0.0,
    -0.0,
    True,
    1,
    1.0,
    "1",
    [1],
    [1.0],
    [True],
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": "1"},
    {"a": None},
    {"a": {}},
    {"a": []},
    {"b": 1},
    {"A": 1},
    {"a": 1, "b": 2},
    {"a": 2, "b": 1},
    {"a": [1, 2]},
    {"a": [2, 1]},
    {"a": [[1], 2]},
    {"a": [1, 2, 2]},
    {"a": 2**53},
    {"a": 2**53 + 1},
    {"a": float(2**53)},
    {"a": 0.1},
    {"a": 0.1 + 2**-56},
]
TEXTS = [
    None,
    "",
    " ",
    "forecast",
    "Forecast",
    "forecast ",
    "forecast\n",
    "forecast\r\n",
    "forecast\\n",
    "forecast\u200b",
    "for\u0435cast",
    "null",
    "\xe9",
    unicodedata.normalize("NFD", "\xe9"),
    "\\u00e9",
    '","name":"',
]


def test_every_change_is_another_digest() -> None:
    tools = [
        {"name": name, "description": description, "input_schema": {}}
        for name in TEXTS
        for description in TEXTS
    ]
    tools += [{"name": "t", "description": "d", "input_schema": schema} for schema in SCHEMAS]

    digests = [pins.digest(tool) for tool in tools]

    assert len(set(digests)) == len(digests) == len(TEXTS) ** 2 + len(SCHEMAS)
    assert all(map(pins.is_digest, digests))


def test_python_holds_some_of_those_for_equal() -> None:
    """So that equal digests would not have been found by comparing what was digested."""
    assert any(one == other for one, other in combinations(SCHEMAS, 2))


# What is no JSON


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


NO_JSON = {
    "nan": NAN,
    "infinity": INFINITY,
    "minus infinity": -INFINITY,
    "1e400": json.loads("1e400"),
    "-1e400": json.loads("-1e400"),
    "NaN": json.loads("NaN"),
    "lone surrogate": "\ud800",
    "lone low surrogate": "a\udfffb",
    "surrogates the wrong way round": "\ude00\ud83d",
    "two halves of one character": "\ud83d\ude00",
    "bytes": b"text",
    "a set": {1},
    "an object": object(),
    "a class": dict,
    "a complex number": 1j,
    "circular": circular(),
    "nested without end": nested(100_000),
    "keys that are no texts": {("a",): 1},
    "keys of two kinds": {"a": 1, 2: 1},
    "a key with a lone surrogate": {"\ud800": 1},
}


@pytest.mark.parametrize("where", ["name", "description", "input_schema", "deep", "in a list"])
@pytest.mark.parametrize("kind", NO_JSON)
def test_what_is_no_json_has_no_digest(kind: str, where: str) -> None:
    value = NO_JSON[kind]
    places = {
        "deep": {"input_schema": {"properties": {"city": {"default": value}}}},
        "in a list": {"input_schema": [1, value, 2]},
    }
    tool = {**TOOL, **places.get(where, {where: value})}

    assert pins.digest(tool) == ""
    with pytest.raises((TypeError, ValueError, RecursionError)):
        pins.canonical(tool)


def test_no_digest_is_no_pin() -> None:
    assert not pins.is_digest(pins.digest({"name": NAN}))


# The form of a digest

GOOD = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD, True),
        ("sha256:" + "0" * 64, True),
        ("sha256:" + "9" * 64, True),
        ("sha256:" + "a" * 64, True),
        ("sha256:" + "f" * 64, True),
        ("", False),
        ("sha256:", False),
        (GOOD.removeprefix("sha256:"), False),
        (GOOD.replace("sha256:", "SHA256:"), False),
        (GOOD.replace("sha256:", "sha512:"), False),
        (GOOD.replace("sha256:", "sha1:"), False),
        (GOOD.replace("sha256:", "sha-256:"), False),
        (GOOD.replace("sha256:", "sha256-"), False),
        (GOOD.replace("sha256:", "sha256: "), False),
        (GOOD.replace("sha256:", "sha256::"), False),
        (GOOD.replace("sha256:", "sha256"), False),
        ("sha256:" + GOOD, False),
        (GOOD.upper(), False),
        (GOOD.replace("a", "A"), False),
        (GOOD[:-1] + "F", False),
        (GOOD[:-1] + "g", False),
        (GOOD[:-1] + "`", False),
        (GOOD[:-1] + ":", False),
        (GOOD[:-1] + "/", False),
        (GOOD[:-1], False),
        (GOOD[:-1] + " ", False),
        (GOOD[:-1] + "\n", False),
        (GOOD[:-1] + "\uff10", False),
        (GOOD[:-1] + "\u0660", False),
        (GOOD + "0", False),
        (GOOD + "\n", False),
        (GOOD + "\r\n", False),
        (GOOD + " ", False),
        (GOOD + "\x00", False),
        ("\n" + GOOD, False),
        (" " + GOOD, False),
        ("\ufeff" + GOOD, False),
        (GOOD + "\n" + GOOD, False),
        (GOOD[:39] + "\n" + GOOD[39:], False),
        ("sha256:" + "0x" + "0" * 62, False),
        ("sha256:" + "-" + "0" * 63, False),
    ],
)
def test_the_form_of_a_digest(text: str, expected: bool) -> None:
    assert pins.is_digest(text) is expected


# Any definition

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
# Few values, some of which Python holds for equal, so that two drawn alone are often alike.
few_leaves = st.sampled_from([None, False, True, 0, 1, 0.0, -0.0, 1.0, "", "1", "a"])
few_keys = st.sampled_from(["", "1", "a", "b"])


def nests(values: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        values,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


any_tools = st.dictionaries(
    st.sampled_from(["name", "description", "input_schema", "title"]),
    nests(leaves, st.text(max_size=6)),
)
few_tools = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "1"]),
        "description": st.sampled_from([None, "", "a"]),
        "input_schema": nests(few_leaves, few_keys),
    }
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two definitions: drawn alone, or the second made from the first."""
    one = draw(few_tools)
    if draw(st.booleans()):
        return one, draw(few_tools)

    def remade(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: remade(value[key]) for key in draw(st.permutations(list(value)))}
        if isinstance(value, list):
            return [remade(item) for item in value]
        alike = [leaf for leaf in (False, True, 0, 1, 0.0, -0.0, 1.0) if leaf == value]
        return draw(st.sampled_from(alike)) if alike and draw(st.booleans()) else value

    return one, remade(one)


@settings(max_examples=600)
@given(pairs())
def test_two_digests_are_equal_if_and_only_if_the_definitions_are(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Equal with their types: 1, 1.0 and true are three values."""
    one, other = pair

    assert (pins.digest(one) == pins.digest(other)) is same(one, other)


@settings(max_examples=300)
@given(any_tools)
def test_the_digest_of_any_definition_is_the_one_computed_once_more(tool: dict[str, Any]) -> None:
    assert pins.digest(tool) == digest_of(tool)
    text = pins.canonical(tool).decode("utf-8")
    exposed = {key: tool.get(key) for key in ("name", "description", "input_schema")}
    assert same(json.loads(text), exposed)
    assert pins.is_digest(pins.digest(tool))


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        ({"a": "x" * 9}, 11),
        ({"a": [[], {}, None, 1.5, True, "xy"]}, 13),
        ({"abc": {"d": 1}}, 7),
        (["x"] * 5, 10),
    ],
)
def test_a_definition_that_is_too_large_has_no_digest(
    monkeypatch: pytest.MonkeyPatch, schema: Any, size: int
) -> None:
    """Every value counts as one at least, texts and keys by their characters."""
    tool = {"name": "n", "description": "", "input_schema": schema}
    monkeypatch.setattr(pins, "MAX_CHARACTERS", size + 4)
    assert pins.is_digest(pins.digest(tool))
    monkeypatch.setattr(pins, "MAX_CHARACTERS", size + 3)
    assert pins.digest(tool) == ""


def test_the_largest_definition_with_a_digest() -> None:
    description = "d" * (1024 * 1024 - 5)
    assert pins.is_digest(pins.digest({"name": "n", "description": description}))
    assert pins.digest({"name": "n", "description": f"{description}d"}) == ""
