"""Smoke tests of the reference host: that its seams behave as the plugin's own tests take for
granted."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HOST = Path(__file__).parents[1] / "reference_host"

if str(HOST) not in sys.path:
    sys.path.insert(0, str(HOST))

from agent import Agent, AgentConfig, AgentContext, AgentContextType, LoopData  # noqa: E402
from helpers import (  # noqa: E402
    errors,
    extension,
    files,
    mcp_handler,
    parallel_tools,
    persist_chat,
    plugins,
    responses_tools,
    settings,
)
from helpers.llm_result import LLMResult, ResponseItem  # noqa: E402
from helpers.mcp_handler import MCPConfig  # noqa: E402

# streamablehttp_client is the SDK's older name for its client, and the one the framework calls.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Use `streamable_http_client` instead:DeprecationWarning"
)

TOOL_SERVER = """
    import socket, sys
    import uvicorn
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("tools")

    @server.tool()
    def echo(text: str) -> str:
        return "echo " + text

    @server.tool(name="dotted.name")
    def dotted() -> str:
        return "dotted"

    @server.tool()
    def broken() -> str:
        raise ValueError("no luck")

    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)  # it already listens: nobody has to wait
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
"""


@pytest.fixture(scope="module")
def server_script(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "tool_server.py"
    path.write_text(textwrap.dedent(TOOL_SERVER))
    return str(path)


@pytest.fixture(scope="module")
def urls(server_script):
    """The URLs of one real server per transport, each in a process of its own."""
    command = [sys.executable, server_script]
    processes = {
        kind: subprocess.Popen([*command, kind], stdout=subprocess.PIPE, text=True)
        for kind in ("streamable-http", "sse")
    }
    ports = {kind: int(process.stdout.readline()) for kind, process in processes.items()}
    yield {
        "streamable-http": f"http://127.0.0.1:{ports['streamable-http']}/mcp",
        "sse": f"http://127.0.0.1:{ports['sse']}/sse",
    }
    for process in processes.values():
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(files.ROOT_VARIABLE, str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in modules_of_usr():  # they come back: who imported them before holds on to them
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(settings, "_settings", None)
    known = set(AgentContext._contexts)
    extension.clear_caches()
    MCPConfig.update("")
    yield tmp_path
    extension.clear_caches()
    MCPConfig.update("")
    for id in set(AgentContext._contexts) - known:
        AgentContext.remove(id)
    for name in modules_of_usr():
        del sys.modules[name]


def modules_of_usr():
    return [name for name in sys.modules if name == "usr" or name.startswith("usr.")]


def write(root, path, text=""):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))


def make_agent(project=None, profile="agent0"):
    context = AgentContext(config=AgentConfig(mcp_servers="", profile=profile))
    if project:
        context.set_data("project", project)
    context.agent0.loop_data = LoopData()
    return context.agent0


def use_servers(urls, kind="streamable-http", **more):
    MCPConfig.update(json.dumps({"mcpServers": {"Srv": {"url": urls[kind], "type": kind, **more}}}))


def native(*calls):
    items = [
        ResponseItem(
            "function_call",
            {"type": "function_call", "name": name, "arguments": arguments, "call_id": f"c{n}"},
        )
        for n, (name, arguments) in enumerate(calls)
    ]
    return LLMResult(output_items=items)


def tool_results(agent):
    return [
        m["content"]["tool_result"] for m in agent.history.output() if "tool_result" in m["content"]
    ]


def warnings(agent):
    return [
        m["content"]["system_warning"]
        for m in agent.history.output()
        if "system_warning" in m["content"]
    ]


def add_hook(root, folder, file, body, point="tool_execute_before"):
    write(
        root,
        f"{folder}/extensions/python/{point}/{file}",
        "from helpers.extension import Extension\n"
        "from helpers.errors import RepairableException\n"
        "class Hook(Extension):\n"
        "    async def execute(self, **kwargs):\n"
        f"        {body}\n",
    )


NOTE_NAMES = (
    "tool = self.agent.loop_data.current_tool; "
    "seen = (kwargs['tool_name'], tool.name, tool.args, kwargs['tool_args']); "
    "self.agent.data.setdefault('seen', []).append(seen)"
)


# Extensions


def test_extensions_run_in_the_order_of_file_names_and_the_first_folder_wins(root):
    note = "self.agent.data.setdefault('ran', []).append({!r})"
    write(root, "usr/plugins/one/plugin.yaml", "name: one")
    add_hook(root, "usr/plugins/one", "_20_a.py", note.format("plugin 20"), "point")
    add_hook(root, "usr/plugins/one", "_10_b.py", note.format("plugin 10"), "point")
    add_hook(root, "usr", "_10_b.py", note.format("user 10"), "point")
    add_hook(root, "usr/agents/agent0", "_30_c.py", note.format("profile 30"), "point")
    add_hook(root, "usr/projects/p/.a0proj", "_30_c.py", note.format("project 30"), "point")
    add_hook(
        root, "usr/projects/p/.a0proj/agents/agent0", "_40_d.py", note.format("both 40"), "point"
    )
    plain, in_project = make_agent(), make_agent(project="p")
    for agent in (plain, in_project):
        asyncio.run(extension.call_extensions_async("point", agent))
    assert plain.data["ran"] == ["user 10", "plugin 20", "profile 30"]
    assert in_project.data["ran"] == ["user 10", "plugin 20", "project 30", "both 40"]


def test_an_extension_that_does_not_import_fails_every_tool(root):
    write(
        root, "usr/extensions/python/tool_execute_before/_10_x.py", "import no_such_module_anywhere"
    )
    with pytest.raises(ModuleNotFoundError):
        asyncio.run(make_agent().process_llm_result_tools(native(("response", {"text": "x"}))))


def test_a_plugins_own_modules_import_below_usr(root):
    write(root, "usr/plugins/one/helpers/room.py", "DOOR = 1")
    importlib.invalidate_caches()
    assert importlib.import_module("usr.plugins.one.helpers.room").DOOR == 1


# Plugin configuration


def test_the_most_specific_config_wins_whole_and_is_read_on_every_call(root):
    agent = make_agent(project="p")
    assert plugins.get_plugin_config("one", agent) is None
    write(root, "usr/plugins/one/plugin.yaml")
    assert plugins.get_plugin_config("one", agent) is None
    write(root, "usr/plugins/one/default_config.yaml", "a: default\nb: 2")
    assert plugins.get_plugin_config("one", agent) == {"a": "default", "b": 2}
    for folder in (
        "usr",
        "usr/agents/agent0",
        "usr/projects/p/.a0proj",
        "usr/projects/p/.a0proj/agents/agent0",
    ):
        write(root, f"{folder}/plugins/one/config.json", json.dumps({"a": folder}))
        assert plugins.get_plugin_config("one", agent) == {"a": folder}
    assert plugins.get_plugin_config("one") == {"a": "usr"}
    assert plugins.get_plugin_config("one", project_name="p") == {"a": "usr/projects/p/.a0proj"}


@pytest.mark.parametrize(
    "text, value", [("null", None), ("[]", []), ('"text"', "text"), ('{"a": 1, "a": 2}', {"a": 2})]
)
def test_odd_config_comes_back_as_it_is(root, text, value):
    write(root, "usr/plugins/one/config.json", text)
    assert plugins.get_plugin_config("one") == value


def test_nan_is_accepted_and_malformed_config_raises(root):
    write(root, "usr/plugins/one/config.json", "NaN")
    assert plugins.get_plugin_config("one") != plugins.get_plugin_config("one")
    write(root, "usr/plugins/one/config.json", "{")
    with pytest.raises(ValueError):
        plugins.get_plugin_config("one")


def test_the_environment_overrides_defaults_in_their_type(root, monkeypatch):
    write(
        root,
        "usr/plugins/one/default_config.yaml",
        "n: 5\nflag: false\nmap: {}\ndeep: {f: 1.5}\nnone: null\nbad: 1",
    )
    sets = {
        "n": "7",
        "flag": "true",
        "map": '{"k": 1}',
        "deep__f": "2.5",
        "none": "text",
        "bad": "x",
    }
    for key, value in sets.items():
        monkeypatch.setenv(f"A0_SET_one__{key}", value)
    expected = {"n": 7, "flag": True, "map": {"k": 1}, "deep": {"f": 2.5}, "none": "text", "bad": 1}
    assert plugins.get_plugin_config("one") == expected


def test_toggles_the_more_specific_folder_decides(root):
    write(root, "usr/plugins/one/plugin.yaml")
    write(root, "usr/plugins/not_a_plugin/readme")
    agent = make_agent(project="p")
    assert plugins.get_enabled_plugins(agent) == ["one"]
    write(root, "usr/plugins/one/.toggle-0")
    assert plugins.get_enabled_plugins(agent) == []
    write(root, "usr/projects/p/.a0proj/plugins/one/.toggle-1")
    assert plugins.get_enabled_plugins(agent) == ["one"]
    assert plugins.get_enabled_plugins(None) == []


# Dispatch


@pytest.mark.parametrize("kind", ["streamable-http", "sse"])
def test_both_dispatchers_reach_a_real_server(root, urls, kind):
    use_servers(urls, kind)
    add_hook(root, "usr", "_10_note.py", NOTE_NAMES)
    agent = make_agent()
    _, name_map = responses_tools.build_responses_function_tools(agent)
    agent.set_data(Agent.DATA_NAME_RESPONSES_TOOL_NAME_MAP, name_map)
    alias = next(native for native, name in name_map.items() if name == "srv.echo")

    async def dispatch():
        assert await agent.process_llm_result_tools(native((alias, '{"text": "native"}'))) is None
        text = json.dumps({"tool_name": alias, "tool_args": {"text": "legacy"}})
        assert await agent.process_llm_result_tools(LLMResult(text)) is None

    asyncio.run(dispatch())
    assert tool_results(agent) == ["echo native", "echo legacy"]
    assert agent.get_data("seen") == [
        ("srv.echo", "srv.echo", {}, {"text": "native"}),
        (alias, "srv.echo", {"text": "legacy"}, {"text": "legacy"}),
    ]
    assert agent.loop_data.current_tool is None
    assert agent.history.messages[0].responses_item == {
        "type": "function_call_output",
        "call_id": "c0",
        "output": "echo native",
    }


def test_the_tool_part_of_a_name_may_hold_dots(root, urls):
    use_servers(urls)
    agent = make_agent()
    asyncio.run(agent.process_tools('{"tool": "srv.dotted.name", "args": {}}'))
    assert tool_results(agent) == ["dotted"]


def test_failures_of_a_tool_become_text_and_a_warning(root, urls):
    use_servers(urls)
    agent = make_agent()

    async def dispatch():
        await agent.process_llm_result_tools(native(("srv.broken", {})))
        MCPConfig.get_instance().servers[
            0
        ].url = "http://127.0.0.1:9/mcp"  # read only when the call connects
        await agent.process_llm_result_tools(native(("srv.echo", {"text": "x"})))

    asyncio.run(dispatch())
    answered, unreachable = tool_results(agent)
    assert answered.startswith("ERROR: ") and "no luck" in answered
    assert unreachable.startswith("ERROR: ")
    assert [item.type for item in agent.context.log.logs].count("warning") == 2


def test_a_refused_native_call_skips_the_later_ones(root, urls):
    use_servers(urls)
    add_hook(root, "usr", "_10_refuse.py", "raise RepairableException('no')")
    add_hook(root, "usr", "_10_note.py", "self.agent.data['after'] = True", "tool_execute_after")
    agent = make_agent()
    calls = native(("srv.echo", {"text": "1"}), ("srv.echo", {"text": "2"}))
    with pytest.raises(errors.RepairableException) as caught:
        asyncio.run(agent.process_llm_result_tools(calls))
    assert agent.history.output() == [] and agent.get_data("after") is None
    assert agent.loop_data.current_tool is None
    asyncio.run(agent.handle_exception("message_loop", caught.value))
    assert warnings(agent)[0].startswith("Traceback")
    assert agent.context.log.logs[-1].type == "warning"
    with pytest.raises(KeyError):
        asyncio.run(agent.handle_exception("message_loop", KeyError("x")))


def test_local_unknown_and_misformatted_requests(root):
    write(
        root,
        "usr/tools/greet.py",
        """
        from helpers.tool import Response, Tool

        class Greet(Tool):
            async def execute(self, action="", **kwargs):
                return Response(message=f"{self.name} {action}", break_loop=False)
        """,
    )
    agent = make_agent()
    asyncio.run(agent.process_tools('{"tool_name": "greet:wave:twice", "tool_args": {}}'))
    asyncio.run(agent.process_tools('{"tool_name": "../greet", "tool_args": {}}'))
    asyncio.run(agent.process_tools('see {"tool_name": "greet", "tool_args": {}}'))
    assert tool_results(agent) == ["greet wave:twice", "Tool '../greet' does not exist."]
    assert len(warnings(agent)) == 1
    assert (
        asyncio.run(agent.process_tools('{"tool_name": "response", "tool_args": {"text": "bye"}}'))
        == "bye"
    )
    assert asyncio.run(agent.process_llm_result_tools(LLMResult("just text"))) == "just text"


def test_monologue_goes_on_after_a_repairable_error(root):
    add_hook(
        root,
        "usr",
        "_10_once.py",
        "if not self.agent.history.output(): raise RepairableException('not yet')",
    )
    agent = make_agent()
    agent.context.data["_model"] = lambda agent: native(("response", {"text": "done"}))
    assert asyncio.run(agent.monologue()) == "done"
    assert len(warnings(agent)) == 1


class BareError(errors.RepairableException):
    __module__ = "some.module"
    __traceback__ = property(lambda self: None)


def test_what_a_model_is_shown_of_a_repairable_error():
    try:
        raise BareError("one line")
    except BareError as error:
        shown = errors.format_error(error)
    assert shown == "some.module.BareError: one line\n\nTraceback (most recent call last):"
    try:
        raise ValueError("x")
    except ValueError as error:
        first, blank, header, *rest = errors.format_error(error).split("\n")
    assert (first, blank, header) == ("ValueError: x", "", "Traceback (most recent call last):")
    assert rest and "Traceback (most recent call last):" not in rest


# MCP configuration


def test_a_stdio_server_is_local(root, server_script):
    MCPConfig.update(
        json.dumps(
            {
                "mcpServers": [
                    {"name": "loc", "command": sys.executable, "args": [server_script, "stdio"]}
                ]
            }
        )
    )
    assert isinstance(MCPConfig.get_instance().servers[0], mcp_handler.MCPServerLocal)
    assert MCPConfig.get_instance().has_tool("loc.dotted.name")


def test_names_exposure_and_dead_servers(root, urls):
    dead = {"url": "http://127.0.0.1:9/mcp", "type": "streamable-http"}
    live = {"url": urls["streamable-http"], "type": "streamable-http"}
    instance = MCPConfig.get_instance()
    MCPConfig.update(
        json.dumps(
            {
                "mcpServers": {
                    "My Srv": dead,
                    "my_srv": live | {"disabled_tools": ["echo"]},
                    "off": dead | {"disabled": True},
                }
            }
        )
    )
    assert instance is MCPConfig.get_instance()
    assert [server.name for server in instance.servers] == ["my_srv", "my_srv"]
    assert instance.servers[0].error and not instance.servers[0].get_tools()
    assert [server["name"] for server in instance.disconnected_servers] == ["off"]
    assert instance.has_tool("my_srv.broken") and not instance.has_tool("my_srv.echo")


def test_a_project_merges_its_servers_over_the_global_settings(root, urls):
    use_servers(urls)
    live = {"url": urls["streamable-http"], "type": "streamable-http"}
    saved = {"mcp_servers": json.dumps({"mcpServers": {"srv": live, "other": live}})}
    write(root, "usr/settings.json", json.dumps(saved))
    settings.reload_settings()
    project_file = "usr/projects/p/.a0proj/mcp_servers.json"
    write(root, project_file, json.dumps({"mcpServers": {"SRV": {"url": urls["sse"]}}}))
    agent = make_agent(project="p")

    async def look_up_inside_a_running_loop():
        return MCPConfig.get_for_agent(agent)

    config = asyncio.run(look_up_inside_a_running_loop())
    assert [(s.name, s.type, s.scope) for s in config.servers] == [
        ("srv", "sse", "project"),
        ("other", "streamable-http", "global"),
    ]
    assert MCPConfig.get_for_agent(agent) is config
    asyncio.run(
        agent.process_tools('{"tool_name": "other.echo", "tool_args": {"text": "project"}}')
    )
    assert tool_results(agent) == ["echo project"]
    write(root, "usr/settings.json", "{}")
    assert MCPConfig.get_for_agent(agent) is config, "settings are kept until they are reloaded"
    write(root, project_file, json.dumps({"mcpServers": {"SRV": live}}))
    edited = MCPConfig.get_for_agent(agent)
    assert [server.type for server in edited.servers] == ["streamable-http"] * 2
    assert [server.type for server in config.servers] == ["sse", "streamable-http"]
    write(root, project_file, "{ broken")
    assert MCPConfig.get_for_agent(agent) is MCPConfig.get_instance()


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("srv.echo", "srv_echo"),
        ("wört_.écho", "w_rt__cho"),
        ("öö.ö", "a0_tool"),
        (f"{'s' * 60}.echo", "s" * 52),
    ],
)
def test_an_alias_is_a_cut_name_and_a_digest(name, slug):
    assert re.fullmatch(f"{slug}_[0-9a-f]{{8}}", responses_tools._native_name(name))


# Parallel


def test_parallel_children_work_in_contexts_of_their_own(root, urls):
    live = {"url": urls["streamable-http"], "type": "streamable-http"}
    write(
        root,
        "usr/settings.json",
        json.dumps({"mcp_servers": json.dumps({"mcpServers": {"srv": live}})}),
    )
    settings.reload_settings()
    add_hook(
        root,
        "usr",
        "_10_check.py",
        "if kwargs['tool_args'].get('text') == 'bad': raise RepairableException('refused')",
    )
    agent = make_agent(project="p")
    agent.context.data["_model"] = lambda child: native(
        (
            "response",
            {
                "text": f"{child.context.type.value} {child.config.profile} {child.context.get_data('project')}"
            },
        )
    )
    before = set(AgentContext._contexts)
    calls = [
        {"tool_name": "srv.echo", "tool_args": {"text": "good"}},
        {"tool_name": "srv.echo", "tool_args": {"text": "bad"}},
        {"tool_name": "call_subordinate", "tool_args": {"message": "hi", "profile": "helper"}},
    ]

    async def run():
        ids = [job.id for job in await parallel_tools.start_parallel_jobs(agent, calls)]
        return await parallel_tools.await_parallel_jobs(agent, ids)

    good, bad, subordinate = asyncio.run(run())
    assert (good["state"], good["result"]) == ("success", "echo good")
    assert (bad["state"], bad["error"]) == ("error", "refused")
    assert subordinate["result"] == "user helper p"
    (left,) = set(AgentContext._contexts) - before
    child = AgentContext.get(left)
    assert child.type is AgentContextType.USER
    assert child.get_data("_parallel_parent_context_id") == agent.context.id
    assert persist_chat.load_tmp_chats() == [left]
    with pytest.raises(ValueError):
        parallel_tools.normalize_parallel_tool_calls([calls[0]] * 9)


# Persistence


def test_what_survives_the_saving_of_a_chat(root):
    agent = make_agent()
    agent.data.update(kept=("a", object(), "\ud800"), _private=1)
    agent.context.log.log(
        type="info", heading="h" * 200, content="c" * 20_000, kvps={"k": "v" * 6_000}
    )
    persist_chat.save_tmp_chat(agent.context)
    AgentContext.remove(agent.context.id)
    assert persist_chat.load_tmp_chats() == [agent.context.id]
    restored = AgentContext.get(agent.context.id)
    assert restored.agent0.data == {"kept": ["a", None, "?"]}
    item = restored.log.logs[0]
    assert (len(item.heading), len(item.content), len(item.kvps["k"])) == (120, 15_000, 5_000)


def test_a_background_chat_is_not_saved(root):
    context = AgentContext(config=AgentConfig(mcp_servers=""), type=AgentContextType.BACKGROUND)
    persist_chat.save_tmp_chat(context)
    assert persist_chat.load_tmp_chats() == []


def test_deleting_a_chat_hands_over_the_ids_that_stored_strings_name(root, monkeypatch):
    handed_over = []
    monkeypatch.setattr(persist_chat, "delete_stored_response_ids", handed_over.extend)
    agent = make_agent()
    agent.data["text"] = json.dumps(
        {"responses_state": {"response_id": "one", "response_ids": ["two"]}}
    )
    agent.data["more"] = [json.dumps([{"metadata": {"responses": {"response_id": "three"}}}])]
    agent.data["harmless"] = 'not JSON: "response_id"'
    persist_chat.save_tmp_chat(agent.context)
    persist_chat.remove_chat(agent.context.id)
    assert handed_over == ["one", "three", "two"]
    assert not (root / "usr/chats" / agent.context.id).exists()
