"""Aliases: what the framework makes of "server.tool" where a model's provider allows no dot."""

from __future__ import annotations

import itertools
import re

import pytest
from helpers import responses_tools
from helpers.mcp_handler import normalize_name
from hypothesis import example, given
from hypothesis import strategies as st
from usr.plugins.agent_guild_preflight.helpers.binding.alias import alias_of, is_alias, may_be_of

native_name = getattr(responses_tools, "_native_tool_name", None) or responses_tools._native_name

LETTERS = st.sampled_from("ab_-ö.é 漢\n") | st.characters(exclude_categories=["Cs"])
SERVERS = st.text(LETTERS, min_size=1, max_size=60).map(normalize_name)
TOOLS = st.text(LETTERS, min_size=1, max_size=60)
DIGEST = "_0123abcd"


@given(SERVERS, TOOLS)
@example("s" * 60, "echo")
@example("s" * 51, "_echo")
@example("öö", "ö")
def test_it_is_what_the_framework_makes(server, tool):
    name = f"{server}.{tool}"
    assert alias_of(name) == native_name(name)


@given(SERVERS, TOOLS)
def test_every_alias_may_be_of_its_server(server, tool):
    alias = native_name(f"{server}.{tool}")
    assert is_alias(alias)
    assert may_be_of(alias, server)


def stems_of(server: str, letters: str, most: int) -> set[str]:
    """Return what stands before the digest in the aliases of all tools with short names."""
    tools = (
        "".join(chosen)
        for length in range(1, most + 1)
        for chosen in itertools.product(letters, repeat=length)
    )
    return {native_name(f"{server}.{tool}")[:-9] for tool in tools}


@pytest.mark.parametrize("server", ["a", "aa", "a_", "_a", "_a_", "aö", "öa", "ö", "_", "aöa", "-"])
def test_exactly_those_that_a_tool_could_have(server):
    """Every short stem, against the aliases of all tools with short names."""
    made = stems_of(server, "a_-ö", 5)
    for length in (1, 2, 3, 4):
        for chosen in itertools.product("a_-", repeat=length):
            stem = "".join(chosen)
            assert may_be_of(stem + DIGEST, server) == (stem in made), stem


@pytest.mark.parametrize("length", [49, 50, 51, 52, 53, 60])
@pytest.mark.parametrize("end", ["", "_", "ö", "__"])
def test_exactly_those_of_a_server_with_a_long_name(length, end):
    """52 characters stay, wherever that cuts."""
    server = "s" * length + end
    made = stems_of(server, "sa_ö", 4)
    begun = ("s" * length)[: 52 - 4]
    for rest in range(5):
        for chosen in itertools.product("sa_", repeat=rest):
            stem = begun + "".join(chosen)
            if is_alias(stem + DIGEST) and len(stem) > 48:
                assert may_be_of(stem + DIGEST, server) == (stem in made), stem


@pytest.mark.parametrize(
    ("name", "server", "expected"),
    [
        ("tools_echo_ec255789", "tools", True),
        ("tools_ec255789", "tools", True),
        ("tools__ec255789", "tools", False),
        ("toolsecho_ec255789", "tools", False),
        ("other_tools_echo_ec255789", "tools", False),
        ("tools_echo_ec255789", "tools_echo_more", False),
        ("wetter__sterreich_now_ec255789", "wetter_österreich", True),
        ("now_ec255789", "öö", True),
        ("a0_tool_ec255789", "öö", True),
        ("a0_tool_ec255789", "tools", False),
    ],
)
def test_which_server_a_name_may_be_of(name, server, expected):
    assert is_alias(name)
    assert may_be_of(name, server) is expected


@pytest.mark.parametrize(
    "name",
    [
        *("note", "tools.echo", "tools_echo_ec25578", "tools_echo_EC255789", "_ec255789"),
        *("tools_2.get_0a1b2c3d", "tools_echo_ec255789\n", " tools_ec255789", "ö_ec255789"),
        f"{'s' * 53}_ec255789",
    ],
)
def test_a_name_that_is_no_alias(name):
    assert not is_alias(name)
    assert not re.fullmatch(r"[A-Za-z0-9_-]{1,52}_[0-9a-f]{8}", name)
