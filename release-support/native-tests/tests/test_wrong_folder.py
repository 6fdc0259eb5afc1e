"""A hook whose gate cannot be had: MCP tools are refused in one line, local tools go on."""

import shutil
import sys

import pytest
from stage.boot import CHECKOUT, PLUGIN

ROOMS = f"usr.plugins.{PLUGIN}.helpers"
LINE = (
    "Agent Guild preflight refused this call: {}. Next step: operator. "
    "Do not repeat this call; only the operator can change this. Tell the user. "
    "Local tools are not concerned."
)
HARM = {
    "agent-guild-preflight": "folder_name",
    "agent_guild_preflight-main": "folder_name",
    "agent_guild_preflight-0.1.0": "folder_name",
    "package": "package_missing (httpx)",
    "room": "plugin_incomplete",
    "syntax": "plugin_broken",
}


@pytest.fixture
def harmed(scene, request, monkeypatch):
    """A scene whose plugin is a copy that has come to harm; the real one is back at the end."""
    scene.use_mcp(tools=scene.url)
    scene.tap.reset()
    plugins, harm = scene.operator.root / "usr" / "plugins", request.param
    kept = scene.operator.root / "kept"
    (plugins / PLUGIN).rename(kept)
    folder = plugins / (harm if harm.startswith("agent") else PLUGIN)
    for name in ("helpers", "extensions"):
        shutil.copytree(CHECKOUT / name, folder / name)
    shutil.copy(CHECKOUT / "plugin.yaml", folder)
    if harm == "room":
        (folder / "helpers" / "seam.py").unlink()
    if harm == "syntax":
        (folder / "helpers" / "seam.py").write_text("def")
    for name in [name for name in sys.modules if name.startswith(ROOMS)]:
        monkeypatch.delitem(sys.modules, name)
    if harm == "package":
        monkeypatch.setitem(sys.modules, "httpx", None)
    scene.operator.forget_extensions()
    yield scene, HARM[harm]
    shutil.rmtree(folder)
    kept.rename(plugins / PLUGIN)
    for name in [name for name in sys.modules if name.startswith(ROOMS)]:
        del sys.modules[name]
    scene.operator.forget_extensions()


@pytest.mark.parametrize("harmed", HARM, indirect=True)
def test_only_mcp_tools_are_refused(harmed):
    scene, wrong = harmed
    scene.call("note")
    assert "noted" in scene.chat.shown[-1]
    scene.call("response")
    assert "refused" not in scene.chat.shown[-1]
    scene.call("tools.echo")
    assert scene.told() == LINE.format(wrong)
    assert scene.tap.connections == 0
