"""Tools whose definitions the operator has pinned.

A pin is held against what the host has of the server at that moment: a list of objects that
anything in the process may change in place, between two calls or in the middle of one. The tests
change just these objects.
"""

from __future__ import annotations

import json
import math

import pytest
from helpers import responses_tools
from stage.boot import PLUGIN
from stage.tool_server import HOSTILE_TOOLS

HEALTHY: dict[str, str] = {}
PROJECT = "harbour"
SECRET = "SECRET-7d02"
CALL = b'"method":"tools/call"'
DIGITS = "0123456789abcdef" * 4


def protect(scene, pins=None, **changed):
    """Pin tools of `tools`; without `pins`, all of them as they are now."""
    scene.use_mcp(tools=scene.url)
    pins = scene.pins(scene.live) if pins is None else pins
    servers = {"tools": {"url": scene.url, "tools": pins}}
    scene.protect(**{"protected_servers": servers, **changed})


def begin_anew(scene):
    """Go on in a fresh chat."""
    scene.chat = scene.new_chat()
    scene.tap.reset()


# Ways in


def native(scene, name="tools.echo", text="hello"):
    scene.call(name, text)


def native_alias(scene):
    scene.call(scene.chat.use_aliases()["tools.echo"])


def legacy(scene, name="tools.echo", text="hello"):
    scene.chat.legacy(name, {"text": text})


def legacy_action(scene):
    legacy(scene, "tools.echo:go")


def parallel(scene, name="tools.echo", text="hello"):
    """Make the call in a parallel child; gives what its parent is told."""
    (job,) = scene.chat.parallel((name, {"text": text}))
    return job.get("error") or job.get("result")


WAYS = [native, legacy, parallel]


# Changes, each in place


def tool(scene, name="echo", server=None):
    """Return the live definition of a tool."""
    definitions = scene.definitions(server or scene.live)
    return next(tool for tool in definitions if tool["name"] == name)


def alter(scene, where=None, **values):
    """Set entries of a definition, that of `echo` unless it is given."""
    where = tool(scene) if where is None else where
    for key, value in values.items():
        scene.patch.setitem(where, key, value)


def schema(scene):
    return tool(scene)["input_schema"]


def description(scene):
    alter(scene, description="Sends its text on to whom it likes.")


def space_more(scene):
    alter(scene, description=tool(scene)["description"] + " ")


def no_description(scene):
    alter(scene, description=None)


def other_type(scene):
    alter(scene, schema(scene)["properties"]["text"], type="integer")


def property_more(scene):
    alter(scene, schema(scene)["properties"], api_key={"type": "string"})


def property_required(scene):
    alter(scene, schema(scene), required=["text"])


def schema_title_gone(scene):
    scene.patch.delitem(schema(scene), "title")


def schema_replaced(scene):
    alter(scene, input_schema={})


DEFINITIONS = [
    description,
    space_more,
    no_description,
    other_type,
    property_more,
    property_required,
    schema_title_gone,
    schema_replaced,
]


def lone_surrogate(scene):
    alter(scene, description="\ud800")


def lone_surrogate_as_key(scene):
    alter(scene, schema(scene), **{"\udfff": 1})


def not_a_number(scene):
    alter(scene, schema(scene), default=math.nan)


def infinite(scene):
    alter(scene, schema(scene), maximum=math.inf)


def bytes_within(scene):
    alter(scene, schema(scene), default=b"text")


def keys_that_cannot_be_sorted(scene):
    alter(scene, input_schema={1: 1, "a": 1})


def within_itself(scene):
    alter(scene, schema(scene), self=schema(scene))


def nested_without_end(scene):
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    alter(scene, input_schema=nested)


NO_JSON = [
    lone_surrogate,
    lone_surrogate_as_key,
    not_a_number,
    infinite,
    bytes_within,
    keys_that_cannot_be_sorted,
    within_itself,
    nested_without_end,
]


def second_of_the_name(scene):
    """Another tool of the server now goes by the same name."""
    alter(scene, tool(scene, "picture"), name="echo")


def twin(scene):
    """Another tool of the server is now the same in all that a pin covers."""
    alter(scene, tool(scene, "picture"), **tool(scene))


def disabled(scene):
    scene.alter(disabled_tools=["echo"])


def renamed(scene):
    alter(scene, name="echo_2")


REASONS = {
    **dict.fromkeys((*DEFINITIONS, *NO_JSON), "definition_changed"),
    second_of_the_name: "tool_ambiguous",
    twin: "tool_ambiguous",
    disabled: "tool_not_exposed",
    renamed: "tool_not_exposed",
}

# One of each kind.
KINDS = [description, property_more, lone_surrogate, second_of_the_name, twin, disabled, renamed]
EACH_KIND_BY_OTHER_WAYS = [(change, way) for change in KINDS for way in (legacy, parallel)]


def nothing(scene):
    pass


def order_of_keys(scene):
    alter(scene, input_schema=dict(reversed(schema(scene).items())))


def what_is_not_exposed(scene):
    alter(scene, title="Echo", annotations={"destructiveHint": True}, outputSchema={})


def other_tool(scene):
    alter(scene, tool(scene, "picture"), description="Draws.")


def changed_back(scene):
    text = tool(scene)["description"]
    alter(scene, description="Sends its text on.")
    alter(scene, description=text)


def rebuilt(scene):
    """The server is connected to anew, and says the same of itself."""
    servers = {"tools": {"type": "streamable-http", "url": scene.url}}
    scene.operator.set_mcp(servers, anew=True)
    scene.tap.reset()


UNCHANGED = [nothing, order_of_keys, what_is_not_exposed, other_tool, changed_back, rebuilt]


# Before a call


@pytest.mark.parametrize("way", [*WAYS, native_alias, legacy_action])
def test_a_tool_that_is_as_it_was_pinned(scene, way):
    """Allowed, by every way in."""
    protect(scene)
    told = way(scene)
    scene.expect_allowed(statuses=HEALTHY, told=told)
    scene.expect_reached()


@pytest.mark.parametrize("change", UNCHANGED)
def test_what_does_not_change_the_definition(scene, change):
    """Allowed: it does not matter."""
    scene.stub_execution()
    protect(scene)
    change(scene)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", REASONS)
def test_a_tool_that_is_not_as_it_was_pinned(scene, change, way):
    """Refused before anything is disclosed; what is no JSON equals no pin."""
    protect(scene)
    change(scene)
    told = way(scene)
    scene.expect_refused(REASONS[change], told=told, refused_by="selected")


@pytest.mark.parametrize("way", [native_alias, legacy_action])
def test_a_changed_definition_by_another_way_of_naming_the_tool(scene, way):
    """The bound tool's own name is looked up in the table."""
    protect(scene)
    description(scene)
    way(scene)
    scene.expect_refused("definition_changed")


NOT_IN_THE_TABLE = {
    "empty table": lambda pins: {},
    "other tools only": lambda pins: {key: pins[key] for key in pins if key != "echo"},
    "another case": lambda pins: {"Echo": pins["echo"]},
    "a space": lambda pins: {"echo ": pins["echo"]},
    "the server's name too": lambda pins: {"tools.echo": pins["echo"]},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("choose", NOT_IN_THE_TABLE.values(), ids=NOT_IN_THE_TABLE)
def test_a_tool_that_is_not_in_the_table(scene, choose, way):
    """Refused, whatever it says of itself; the key is the tool's own name, to the letter."""
    scene.use_mcp(tools=scene.url)
    protect(scene, choose(scene.pins(scene.live)))
    told = way(scene)
    scene.expect_refused("tool_not_pinned", told=told, refused_by="selected")


@pytest.mark.parametrize("name", ["echo", *HOSTILE_TOOLS, "picture"])
def test_an_empty_table_refuses_every_tool(scene, name):
    """Nothing is pinned, so nothing passes."""
    protect(scene, {})
    scene.call(f"tools.{name}")
    scene.expect_refused("tool_not_pinned")


def test_a_tool_under_a_new_name(scene):
    """It has no pin under that name, and the old one's does not fit: a digest covers the name."""
    protect(scene)
    pins = scene.pins(scene.live)
    renamed(scene)
    scene.call("tools.echo_2")
    scene.expect_refused("tool_not_pinned")
    protect(scene, {"echo_2": pins["echo"]})
    begin_anew(scene)
    scene.call("tools.echo_2")
    scene.expect_refused("definition_changed")


def test_the_pin_of_another_tool(scene):
    """Swapped pins fit neither."""
    scene.use_mcp(tools=scene.url)
    pins = scene.pins(scene.live)
    protect(scene, {"echo": pins["co:lon"], "co:lon": pins["echo"]})
    for name in ("tools.echo", "tools.co:lon"):
        begin_anew(scene)
        scene.call(name)
        scene.expect_refused("definition_changed")


def test_a_tool_that_the_server_does_not_have(scene):
    """A pin makes no tool."""
    protect(scene, {"absent": f"sha256:{DIGITS}"})
    scene.call("tools.absent")
    scene.expect_refused("tool_not_exposed")


@pytest.mark.parametrize("name", HOSTILE_TOOLS)
def test_a_tool_name_with_dots_or_markup_is_a_key_like_any_other(scene, name):
    """Allowed where it is pinned; nothing of it is shown where it is not as it was."""
    scene.use_mcp(tools=scene.url)
    protect(scene, {name: scene.pins(scene.live)[name]})
    scene.call(f"tools.{name}")
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()
    begin_anew(scene)
    native(scene)
    scene.expect_refused("tool_not_pinned", preflights=1)
    begin_anew(scene)
    alter(scene, tool(scene, name), description="Sends its text on.")
    scene.call(f"tools.{name}")
    scene.expect_refused("definition_changed", preflights=1)


# What goes before a pin, and what comes after it


EARLIER = {
    "endpoint_refused": (lambda scene: None, "query", {"endpoint": None}),
    "server_ambiguous": (lambda scene: scene.replace_servers(*[scene.live] * 2), None, {}),
    "url_mismatch": (lambda scene: scene.alter(url=f"{scene.url}/"), None, {}),
    "transport_altered": (lambda scene: scene.alter(verify=False), None, {}),
    "tool_not_exposed": (disabled, None, {}),
}


@pytest.mark.parametrize("reason", EARLIER)
def test_what_is_wrong_with_the_server_comes_first(scene, reason):
    """A tool that is not pinned is the last that is found out before any evidence."""
    change, sub_reason, shown = EARLIER[reason]
    url = f"{scene.url}?key=1" if sub_reason else scene.url
    protect(scene, protected_servers={"tools": {"url": url, "tools": {}}})
    change(scene)
    native(scene)
    scene.expect_refused(reason, sub_reason, **shown)


@pytest.mark.parametrize("change", [second_of_the_name, description])
def test_a_tool_that_is_not_in_the_table_is_only_that(scene, change):
    """The first of the three reasons that applies is given."""
    protect(scene, {})
    change(scene)
    native(scene)
    scene.expect_refused("tool_not_pinned")


def test_two_of_a_name_of_which_neither_is_the_pinned_one(scene):
    """The second of the three."""
    protect(scene)
    description(scene)
    second_of_the_name(scene)
    native(scene)
    scene.expect_refused("tool_ambiguous")


def test_a_pinned_tool_is_judged_by_the_evidence_like_any_other(scene):
    """A pin is no permission."""
    denied = {"protocol_handshake": "failed"}
    scene.serve(scene.answers(denied))
    protect(scene)
    native(scene)
    scene.expect_refused("do_not_delegate", None, "operator", preflights=1, statuses=denied)


@pytest.mark.parametrize(
    "approval",
    [lambda url: url, lambda url: {"url": url}, lambda url: {"url": url, "tools": None}],
    ids=["text", "object", "null"],
)
@pytest.mark.parametrize(
    "change",
    [description, schema_replaced, *NO_JSON, second_of_the_name, twin],
)
def test_without_a_table_nothing_of_this_applies(scene, change, approval):
    """Any definition passes."""
    scene.stub_execution()
    protect(scene, {}, protected_servers={"tools": approval(scene.url)})
    change(scene)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)


def test_without_a_table_a_definition_may_change_at_any_time(scene):
    """While the service is asked, in a later hook, and while the call runs."""
    scene.serve(scene.answers(before=lambda: description(scene)))
    protect(scene, {}, protected_servers={"tools": scene.url})
    scene.add_hook("tool_execute_before", lambda agent, **_: property_more(scene))
    scene.tap.once(CALL, lambda: twin(scene))
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


# The table itself


NO_DIGESTS = {
    "empty": "",
    "no digits": "sha256:",
    "bare": DIGITS,
    "a digit short": f"sha256:{DIGITS[1:]}",
    "a digit long": f"sha256:{DIGITS}0",
    "upper case": f"sha256:{DIGITS.upper()}",
    "upper-case word": f"SHA256:{DIGITS}",
    "another word": f"sha512:{DIGITS}",
    "space before": f" sha256:{DIGITS}",
    "line break after": f"sha256:{DIGITS}\n",
    "no hexadecimal": f"sha256:{'g' * 64}",
    "other digits": f"sha256:{'٣' * 64}",
    "null": None,
    "number": 7,
    "true": True,
    "list": [f"sha256:{DIGITS}"],
    "object": {"sha256": DIGITS},
}
NOT_A_DIGEST = "must be sha256: and 64 hexadecimal digits in lower case"
TABLES = {
    **{name: ({"echo": value}, f"echo: {NOT_A_DIGEST}") for name, value in NO_DIGESTS.items()},
    "of another tool": ({"co:lon": ""}, f"co:lon: {NOT_A_DIGEST}"),
    "under a name with a line break": (
        {"MARKER line\nbreak": ""},
        f"MARKER line\\nbreak: {NOT_A_DIGEST}",
    ),
    "under a long name": ({"n" * 99: ""}, f"{'n' * 47}...: {NOT_A_DIGEST}"),
}


@pytest.mark.parametrize(("table", "problem"), TABLES.values(), ids=TABLES)
def test_a_malformed_digest(scene, table, problem):
    """An invalid configuration, told with its key, even where another tool is called."""
    scene.use_mcp(tools=scene.url)
    protect(scene, {**scene.pins(scene.live), **table})
    native(scene)
    scene.expect_invalid(f"protected_servers.tools.tools.{problem}")


def test_a_malformed_digest_of_one_server_is_none_of_another(scene, other_url):
    """Which servers are protected can be told: the others are left alone."""
    scene.stub_execution()
    protect(scene, {"echo": ""})
    scene.use_mcp(tools=scene.url, others=other_url)
    native(scene, "others.echo")
    assert "echo: stub" in scene.chat.shown[-1]
    scene.expect_untouched()


ENTRIES = {
    "table is a list": ({"tools": []}, "tools.tools: must be an object, {...}"),
    "table is a text": ({"tools": "echo"}, "tools.tools: must be an object, {...}"),
    "table is true": ({"tools": True}, "tools.tools: must be an object, {...}"),
    "unknown key": ({"pins": {}}, "tools.pins: is not a setting"),
    "no URL": ({"url": None}, "tools.url: must be a text"),
}


@pytest.mark.parametrize(("changed", "problem"), ENTRIES.values(), ids=ENTRIES)
def test_a_malformed_entry(scene, changed, problem):
    """It is no entry without pins: a typo must not widen what is allowed."""
    scene.use_mcp(tools=scene.url)
    entry = {"url": scene.url, "tools": scene.pins(scene.live), **changed}
    protect(scene, protected_servers={"tools": entry})
    native(scene)
    scene.expect_invalid(f"protected_servers.{problem}")


# The canonical form, stated as the very text


CANONICAL = {
    "order, white space and escapes": (
        {
            "name": "echo",
            "description": 'É ☃ \U0001f600 "q" \\ / \n\t\b\f\r\x1f\x7f\u2028 <b>',
            "input_schema": {
                "é": [1, {"b": True, "a": None}],
                "z": "",
                "\uff5e": 0,
                "\U0001f600": {},
                "Z": [],
            },
        },
        '{"description":"É ☃ \U0001f600 \\"q\\" \\\\ / \\n\\t\\b\\f\\r\\u001f\x7f\u2028 <b>",'
        '"input_schema":{"Z":[],"z":"","é":[1,{"a":null,"b":true}],"\uff5e":0,"\U0001f600":{}},'
        '"name":"echo"}',
    ),
    "whole numbers": (
        {"name": "echo", "description": "", "input_schema": [1, -0, 10**30]},
        '{"description":"","input_schema":[1,0,1000000000000000000000000000000],"name":"echo"}',
    ),
    "other numbers": (
        {"name": "echo", "description": "", "input_schema": [1.0, -0.0, 0.1, 1e30]},
        '{"description":"","input_schema":[1.0,-0.0,0.1,1e+30],"name":"echo"}',
    ),
    "no description": (
        {"name": "echo", "description": None, "input_schema": {}},
        '{"description":null,"input_schema":{},"name":"echo"}',
    ),
}


@pytest.mark.parametrize(("definition", "text"), CANONICAL.values(), ids=CANONICAL)
def test_the_canonical_form(scene, definition, text):
    """The digest is that of this text in UTF-8, and of no other."""
    scene.stub_execution()
    protect(scene, {"echo": scene.digest(text)})
    alter(scene, **definition)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    protect(scene, {"echo": scene.digest(f"{text}\n")})
    begin_anew(scene)
    native(scene)
    scene.expect_refused("definition_changed", preflights=1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_json_equals_no_text(scene, value):
    """Some software writes such a number all the same, as this text: it is no JSON."""
    text = json.dumps({"description": None, "input_schema": value, "name": "echo"})
    protect(scene, {"echo": scene.digest(text.replace(" ", ""))})
    alter(scene, description=None, input_schema=value)
    native(scene)
    scene.expect_refused("definition_changed")


def test_a_description_that_is_not_there_is_null(scene):
    """Some server software leaves it out, and some says null."""
    protect(scene, {"echo": scene.digest('{"description":null,"input_schema":{},"name":"echo"}')})
    alter(scene, input_schema={})
    scene.patch.delitem(tool(scene), "description")
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)


# Between two calls


@pytest.mark.parametrize(
    ("change", "way"), [*((change, native) for change in REASONS), *EACH_KIND_BY_OTHER_WAYS]
)
def test_a_change_between_two_calls(scene, clock, change, way):
    """The next call is refused although the evidence is kept, and none is asked for."""
    executed = scene.stub_execution()
    protect(scene, cache_ttl_seconds=300)
    told = way(scene)
    scene.expect_allowed(statuses=HEALTHY, told=told)
    begin_anew(scene)
    change(scene)
    told = way(scene)
    scene.expect_refused(REASONS[change], told=told, preflights=1)
    assert executed == ["tools.echo"]


def test_a_change_that_is_taken_back_before_the_next_call(scene, clock):
    """Refused in between; afterwards allowed, on the same evidence."""
    scene.stub_execution()
    protect(scene, cache_ttl_seconds=300)
    text = tool(scene)["description"]
    native(scene)
    alter(scene, description="Sends its text on.")
    native(scene)
    alter(scene, description=text)
    native(scene)
    reasons = [record["reason"] for record in scene.chat.records]
    assert reasons == [None, "definition_changed", None]
    assert scene.chat.records[2]["cached"] is True
    assert scene.preflights == 1


# While a call is on its way


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", KINDS)
def test_a_change_while_the_service_is_asked(scene, change, way):
    """What was checked is not what would be called; the evidence stays in the record."""
    scene.serve(scene.answers(before=lambda: change(scene)))
    protect(scene)
    told = way(scene)
    record = scene.expect_refused(
        "binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY, told=told
    )
    assert record["refused_by"] is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", KINDS)
def test_a_later_hook_that_changes_the_definition(scene, change, way):
    """The call was allowed, and is refused as it begins: the same record, and not one byte sent."""
    allowed = []

    def hook(agent, **_):
        allowed.extend(record["id"] for record in agent.get_data(f"{PLUGIN}.decisions"))
        change(scene)

    protect(scene)
    scene.add_hook("tool_execute_before", hook)
    told = way(scene)
    record = scene.expect_superseded(told)
    assert [record["id"]] == allowed
    assert record["refused_by"] is None


def test_a_later_hook_that_names_another_pinned_tool(scene):
    """Its definition is the pinned one, and still it is not what was checked."""
    protect(scene)

    def hook(agent, **_):
        agent.loop_data.current_tool.name = "tools.dotted.na.me"

    scene.add_hook("tool_execute_before", hook)
    native(scene)
    scene.expect_refused(
        "binding_changed", None, "retry_later", preflights=1, statuses=HEALTHY, superseded=True
    )


@pytest.mark.parametrize(
    ("change", "way"),
    [*((change, native) for change in KINDS), (description, legacy), (description, parallel)],
)
def test_a_change_while_the_call_runs(scene, change, way):
    """The call is made and its result withheld: nothing that a model reads or we keep has it."""
    protect(scene)
    scene.tap.once(CALL, lambda: change(scene))
    told = way(scene, text=SECRET)
    record = scene.expect_refused(
        "binding_changed_during_call",
        preflights=1,
        statuses=HEALTHY,
        superseded=True,
        told=told,
        was_called=True,
    )
    assert record["refused_by"] is None
    kept = [scene.chat.records, scene.chat.last_observation, scene.chat.log_lines]
    assert SECRET not in json.dumps([*kept, scene.chat.shown, told])


@pytest.mark.parametrize("change", [order_of_keys, what_is_not_exposed, other_tool, changed_back])
def test_what_is_no_change_of_the_definition(scene, change):
    """While the service is asked, in a later hook, and while the call runs: allowed each time."""
    scene.serve(scene.answers(before=lambda: change(scene)))
    protect(scene)
    scene.add_hook("tool_execute_before", lambda agent, **_: change(scene))
    scene.tap.once(CALL, lambda: change(scene))
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


@pytest.mark.parametrize("project", [False, True], ids=["no_project", "project"])
def test_pins_cost_no_look_up(scene, look_ups, clock, project):
    """Two with kept evidence, as without pins."""
    protect(scene, cache_ttl_seconds=300)
    if project:
        scene.open_project({})
    executed = scene.stub_execution()
    native(scene)
    look_ups.clear()
    native(scene)
    assert len(look_ups) == 2
    assert executed == ["tools.echo"] * 2


# Which table


@pytest.mark.parametrize("reason", [None, "tool_not_pinned", "definition_changed"])
def test_a_server_under_another_name_at_the_approved_url(scene, reason):
    """It is judged by the pins of the entry that approves its URL."""
    scene.use_mcp(second=scene.url)
    server = scene.operator.live_server("second")
    pins = {} if reason == "tool_not_pinned" else scene.pins(server)
    servers = {"tools": {"url": scene.url, "tools": pins}}
    scene.serve()
    scene.operator.configure(scene.settings(protected_servers=servers))
    scene.tap.reset()
    if reason == "definition_changed":
        alter(scene, tool(scene, server=server), description="Sends its text on.")
    native(scene, "second.echo")
    if reason is None:
        scene.expect_allowed(statuses=HEALTHY)
        scene.expect_reached()
    else:
        scene.expect_refused(reason)


@pytest.mark.parametrize("pinned", ["tools", "second"])
def test_two_entries_for_one_url(scene, pinned):
    """The entry of the server's own name comes before another with its URL."""
    scene.stub_execution()
    servers = {name: {"url": scene.url} for name in ("tools", "second")}
    servers[pinned]["tools"] = {}
    protect(scene, protected_servers=servers)
    scene.use_mcp(tools=scene.url, second=scene.url)
    scene.tap.reset()
    native(scene, "second.echo")
    if pinned == "second":
        scene.expect_refused("tool_not_pinned", server="second")
    else:
        scene.expect_allowed(statuses=HEALTHY, server="second")


def test_pins_in_the_file_of_a_project(scene):
    """They count in the project, and nowhere else."""
    protect(scene, protected_servers={"tools": scene.url})
    servers = {"tools": {"url": scene.url, "tools": scene.pins(scene.live)}}
    scene.operator.configure(scene.settings(protected_servers=servers), PROJECT)
    scene.open_project({})
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    begin_anew(scene)
    description(scene)
    native(scene)
    scene.expect_allowed(statuses=HEALTHY, preflights=2)


@pytest.mark.parametrize("where", ["in the project", "elsewhere"])
def test_each_chat_has_the_definitions_of_its_own_servers(scene, where):
    """A project's own server object is told of its tools itself."""
    protect(scene)
    scene.open_project({"tools": {"type": "streamable-http", "url": scene.url}})
    (server,) = scene.servers_of(scene.chat)
    assert server is not scene.live
    changed, other = (server, scene.live) if where == "in the project" else (scene.live, server)
    inside, outside = scene.chat, scene.new_chat()
    refused, allowed = (inside, outside) if changed is server else (outside, inside)
    alter(scene, tool(scene, server=changed), description="Sends its text on.")
    assert tool(scene, server=other)["description"] != "Sends its text on."
    scene.chat = refused
    native(scene)
    scene.expect_refused("definition_changed")
    scene.chat = allowed
    native(scene)
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached()


def test_limit_what_native_calling_shows_in_a_project(scene):
    """A model is told the definitions of the global connection; the pins are of the project's."""
    scene.protect()
    scene.open_project({"tools": {"type": "streamable-http", "url": scene.url, "init_timeout": 9}})
    pins = scene.pins(next(each for each in scene.servers_of(scene.chat) if each.name == "tools"))
    scene.operator.configure(
        scene.settings(protected_servers={"tools": {"url": scene.url, "tools": pins}})
    )
    echo = next(tool for tool in scene.definitions(scene.live) if tool["name"] == "echo")
    scene.patch.setitem(echo, "description", "Not what was pinned.")
    scene.chat.use_aliases()
    told, _ = responses_tools.build_responses_function_tools(scene.chat.agent)
    assert "Not what was pinned." in [tool["description"] for tool in told]
    scene.call()
    scene.expect_allowed(statuses=HEALTHY)
    scene.expect_reached(1)
