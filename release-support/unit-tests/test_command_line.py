"""The command line as it is called: from Agent Zero's folder, from a bare clone, by its script."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from local_guild.wire import Stall, WireServer
from stage.boot import CHECKOUT, SUPPORT, install_plugin
from usr.plugins.agent_guild_preflight.helpers.commands.main import COMMANDS, main

PACKAGE = "usr.plugins.agent_guild_preflight.helpers"
PROGRAM = f"python -m {PACKAGE}"
PATIENCE_SECONDS = 60
EXIT_CODES = (
    "exit codes: 0 fine, 2 usage, 10 refused, 11 no evidence, 12 configuration"  # each `Exit`
)
BARE_CLONE = "./release-support/preflight"
NO_ROOT = "error: --root must be the Agent Zero folder, the one that has the folder usr"
NO_CHAT = "There is no saved chat in usr/chats.\n"
URL_MISMATCH = """\
url_mismatch
  The MCP settings name another URL than the approved one.
  What to do: Find out who changed the URL; then make both files say the same, byte for byte.
  Next step: operator. Do not repeat this call; only the operator can change this. Tell the user.
"""


class Ended(NamedTuple):
    """How a process ended: its exit code, its output, its last line on standard error."""

    code: int
    output: str
    last_error: str = ""


def call(
    command: list[str], folder: Path, *arguments: str, stdout: int = subprocess.PIPE, **more: str
) -> Ended:
    """Call a command in a folder, in an environment of its own."""
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **more}
    process = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
    )
    output, errors = ((stream or b"").decode() for stream in (process.stdout, process.stderr))
    assert "Traceback" not in errors
    return Ended(process.returncode, output, (errors.splitlines() or [""])[-1])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder that is laid out like Agent Zero's, with the plugin."""
    folder = tmp_path / "agent zero"
    for name in ("helpers", "usr/plugins", "usr/chats", "tools", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "agent.py").write_text("raise AssertionError('the framework is started')\n")
    install_plugin(folder)
    return folder


def save_chat(root: Path, name: str) -> None:
    folder = root / "usr" / "chats" / "chat"
    folder.mkdir()
    (folder / "chat.json").write_text(json.dumps({"name": name, "agents": []}))
    os.utime(folder / "chat.json", (0, 0))


# Where it is called


INSTALLED = [sys.executable, "-m", PACKAGE]
CLONE = [sys.executable, str(CHECKOUT / "helpers")]


@pytest.mark.parametrize(
    ("command", "program"),
    [(INSTALLED, PROGRAM), (CLONE, BARE_CLONE)],
    ids=["installed", "clone"],
)
def test_from_agent_zeros_folder(root, command, program):
    assert call(command, root, "why", "url_mismatch") == (0, URL_MISMATCH, "")
    assert call(command, root, "explain") == (0, NO_CHAT, "")
    assert call(command, root, "explain", "chat")[:2] == (2, "")
    assert call(command, root, "nonsense")[:2] == (2, "")
    assert call(command, root) == (
        2,
        "",
        f"{program}: error: the following arguments are required: COMMAND",
    )


def test_a_bare_clone_from_anywhere(root, tmp_path):
    """Nothing that lies in the caller's folder, or beside the commands, is imported instead."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("json", "argparse", "yaml", "usr", "helpers"):
        (elsewhere / f"{name}.py").write_text("raise AssertionError('the wrong module')\n")
    link = tmp_path / "link"
    link.symlink_to(CHECKOUT / "helpers")
    for folder in (elsewhere, Path("/")):
        assert call(CLONE, folder, "why", "url_mismatch") == (0, URL_MISMATCH, "")
        assert call(CLONE, folder, "explain", "--root", str(root)) == (0, NO_CHAT, "")
    assert call(CLONE, elsewhere, "explain") == (2, "", f"{BARE_CLONE}: {NO_ROOT}")
    assert call([sys.executable, "../link"], elsewhere, "why", "url_mismatch").code == 0
    relative = os.path.relpath(CHECKOUT / "helpers", root)
    assert call([sys.executable, relative], root, "explain", "--root", ".") == (0, NO_CHAT, "")


@pytest.mark.parametrize("command", ["explain", "lint"])
@pytest.mark.parametrize("place", ["no usr", "usr is a file", "missing", "a file", "too long"])
def test_a_root_that_is_not_agent_zeros_folder(tmp_path, capsys, command, place):
    folder = tmp_path / "folder"
    folder.mkdir()
    if place == "usr is a file":
        (folder / "usr").touch()
    given = {
        "missing": folder / "missing",
        "a file": Path(__file__),
        "too long": folder / ("a" * 5_000),
    }.get(place, folder)
    with pytest.raises(SystemExit) as raised:
        main([command, "--root", str(given)])
    output, errors = capsys.readouterr()
    assert (raised.value.code, output, errors.splitlines()[-1]) == (
        2,
        "",
        f"{PROGRAM}: {NO_ROOT}",
    )


def test_a_working_directory_that_is_gone(tmp_path):
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, sys.argv[1:])"
    gone = tmp_path / "gone"
    gone.mkdir()
    assert call([sys.executable, "-c", code, *CLONE], gone, "explain") == (
        2,
        "",
        f"{BARE_CLONE}: {NO_ROOT}",
    )


@pytest.mark.parametrize("command", ["lint", "check", "pin"])
def test_a_project_that_is_not_there(root, capsys, command):
    """A mistyped name must not silently mean no project."""
    (root / "usr" / "projects" / "harbour").mkdir(parents=True)
    arguments = ["weather"] if command != "lint" else []
    for project in ("harbor", "../projects/harbour", "."):
        with pytest.raises(SystemExit) as raised:
            main([command, *arguments, "--root", str(root), "--project", project])
        output, errors = capsys.readouterr()
        assert (raised.value.code, output, errors.splitlines()[-1]) == (
            2,
            "",
            f"{PROGRAM}: error: --project: there is no such project in usr/projects",
        )


# What it says of itself


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    with pytest.raises(SystemExit) as raised:
        main([*arguments, "--help"])
    output, errors = capsys.readouterr()
    assert (raised.value.code, errors) == (0, "")
    assert output.isascii()
    return output.splitlines()


def test_the_help_names_every_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = help_of(capsys)
    told = [" ".join(line.split()) for line in lines]
    assert list(COMMANDS) == ["lint", "check", "explain", "pin", "why"]
    for name, module in COMMANDS.items():
        assert f"{name} {module.HELP}" in told
    assert lines[-1] == EXIT_CODES


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "200")
    lines = help_of(capsys, name)
    assert COMMANDS[name].EXAMPLE.split()[0] == name
    assert lines[-1] == f"example: {PROGRAM} {COMMANDS[name].EXAMPLE}"
    assert any(line.startswith("  --json") for line in lines)
    assert any(line.startswith("  --root") for line in lines) == (name != "why")


# Where its output goes


@pytest.mark.parametrize(
    "arguments",
    [["why"], ["why", "--json"], ["explain"], ["--help"], ["why", "--help"]],
    ids=" ".join,
)
def test_a_reader_that_has_gone(root, arguments):
    """As with `| head -1`."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert call(CLONE, root, *arguments, stdout=theirs) == (0, "", "")
    finally:
        os.close(theirs)


def test_a_reader_that_goes_after_the_first_line(root):
    """The rest is more than a pipe holds."""
    save_chat(root, "")
    entry = {"number": 0, "data": {"agent_guild_preflight.decisions": [record()] * 20}}
    file = root / "usr" / "chats" / "chat" / "chat.json"
    file.write_text(json.dumps({"agents": [entry] * 100}))
    script = f"{shlex.join(CLONE)} explain | head -1; echo ${{PIPESTATUS[0]}}"
    code, output, last_error = call(["bash", "-c", script], root)
    assert (code, output[:10], output[-2:], last_error) == (0, "Chat chat,", "0\n", "")


def record() -> dict[str, object]:
    return {
        "id": "0" * 32,
        "at": "2026-03-01T12:00:00Z",
        "decision": "allowed",
        "tool": "untrusted: tool",
        "cached": False,
        "tolerated": [],
    }


def test_no_standard_output_at_all(root):
    script = f"exec {shlex.join(CLONE)} why >&-"
    assert call(["bash", "-c", script], root) == (0, "", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_that_lacks_characters(root, encoding):
    save_chat(root, "é \u4e16 \U0001f600")
    environment = {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
    command = ["bash", "-c", f"{shlex.join(CLONE)} explain | od -An -c -w4096"]
    code, octets, last_error = call(command, root, **environment)
    name = "é \u4e16 \U0001f600".encode(encoding, "backslashreplace")
    expected = subprocess.run(
        ["od", "-An", "-c", "-w4096"],
        input=b'Chat chat, saved 1970-01-01T00:00:00Z, named "' + name + b'".\n'
        b"No decision is stored in this chat.\n",
        stdout=subprocess.PIPE,
        check=True,
    )
    assert (code, octets, last_error) == (0, expected.stdout.decode(), "")


@pytest.mark.parametrize("arguments", [["why"], ["explain"], ["explain", "--last"]])
def test_data_is_one_json_text_in_ascii(root, capsys, arguments):
    save_chat(root, "é \u4e16 \U0001f600")
    place = [] if arguments == ["why"] else ["--root", str(root)]
    assert main([*arguments, *place, "--json"]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    assert output.isascii()
    assert isinstance(json.loads(output), dict)


# What it touches


# Every use of a socket, and every import of what could use one or start the framework.
def test_an_output_that_cannot_be_written_to(root):
    script = f"exec {shlex.join(CLONE)} why > /dev/full"
    ended = call(["bash", "-c", script], root)
    assert ended == (1, "", "standard output cannot be written to")


def test_without_a_standard_error_nothing_is_sent(root):
    """Nobody can be told to whom; and what is said is no part of the answer."""
    with WireServer([Stall()]) as server:
        url = f"{server.origin}/mcp"
        approved = {"tools": url}
        local = {"allow_private_hosts": True, "fixture_guild_origin": server.origin}
        plugin = root / "usr" / "plugins" / "agent_guild_preflight"
        (plugin / "config.json").write_text(json.dumps({"protected_servers": approved, **local}))
        servers = json.dumps({"mcpServers": {"tools": {"url": url}}})
        (root / "usr" / "settings.json").write_text(json.dumps({"mcp_servers": servers}))
        for command in ("check tools", "pin tools", "lint --network"):
            for redirection in ("2>&-", "2>/dev/full"):
                script = f"exec {shlex.join(CLONE)} {command} --json {redirection}"
                assert call(["bash", "-c", script], root) == (2, "", "")
        assert server.requests == []


def test_ctrl_c_ends_a_command(root):
    with WireServer([Stall()]) as server:
        local = {"allow_private_hosts": True, "fixture_guild_origin": server.origin}
        plugin = root / "usr" / "plugins" / "agent_guild_preflight"
        (plugin / "config.json").write_text(json.dumps({"protected_servers": {}, **local}))
        command = [*CLONE, "check", "--url", f"{server.origin}/mcp"]
        with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as process:
            assert server.wait_for_requests(1, PATIENCE_SECONDS)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert errors == f"sends {server.origin}/mcp to {server.origin}\n"


SLOW = """
import runpy, socket, sys, time
socket.getaddrinfo = lambda *_, **__: time.sleep(600)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("command", ["check", "pin"])
def test_a_name_that_does_not_resolve_holds_nobody_up(root, command):
    """The lookup cannot be ended; the command ends without it, at its deadline."""
    url = "https://mcp.example.com/mcp"
    plugin = root / "usr" / "plugins" / "agent_guild_preflight"
    settings = {"protected_servers": {"tools": url}, "timeout_seconds": 0.2}
    (plugin / "config.json").write_text(json.dumps(settings))
    servers = json.dumps({"mcpServers": {"tools": {"url": url, "init_timeout": 1}}})
    (root / "usr" / "settings.json").write_text(json.dumps({"mcp_servers": servers}))
    slow = [sys.executable, "-c", SLOW, str(CHECKOUT / "helpers")]
    assert call(slow, root, command, "tools").code == 11


WATCHED = """
import os, runpy, sys
used = []
os._exit = sys.exit  # what is asked about here is asked at the end
sys.addaudithook(lambda event, _: event.startswith("socket.") and used.append(event))
sys.argv = sys.argv[1:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as ended:
    imported = {"httpx", "httpcore", "mcp", "agent", "helpers"} & set(sys.modules)
    sys.exit(f"{ended.code} {used} {sorted(imported)}")
"""


@pytest.mark.parametrize(
    "arguments",
    [["why"], ["why", "--json"], ["explain"], ["explain", "--last"], ["explain", "chat", "--json"]],
    ids=" ".join,
)
def test_no_socket_and_no_client_is_needed(root, arguments):
    save_chat(root, "")
    watched = [sys.executable, "-c", WATCHED, str(CHECKOUT / "helpers")]
    assert call(watched, root, *arguments).last_error == "0 [] []"


def test_no_socket_in_this_process(root, capsys, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    assert main(["why"]) == 0
    assert main(["explain", "--root", str(root)]) == 0
    assert main(["explain", "--root", str(root), "--last", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_nothing_is_written(root):
    save_chat(root, "")
    before = sorted((path, path.lstat().st_mtime_ns) for path in root.rglob("*"))
    for arguments in (["why"], ["explain"], ["explain", "--last"]):
        assert call(INSTALLED, root, *arguments).code == 0
    assert sorted((path, path.lstat().st_mtime_ns) for path in root.rglob("*")) == before


@pytest.mark.parametrize("command", ["installed", "clone", "script"])
def test_no_byte_code_is_left(root, script, command):
    """Whether or not the environment forbids it; what others have left stays."""
    plugin = root / "usr" / "plugins" / "agent_guild_preflight"
    clone = script.parents[1]
    for folder in (plugin, clone):
        (folder / "helpers").unlink()
        shutil.copytree(
            CHECKOUT / "helpers", folder / "helpers", ignore=shutil.ignore_patterns("__pycache__")
        )
    commands = {
        "installed": INSTALLED,
        "clone": [sys.executable, str(clone / "helpers")],
        "script": [str(script)],
    }
    others = (plugin if command == "installed" else clone) / "helpers" / "__pycache__" / "gate.pyc"
    for kept in (None, others):
        if kept is not None:
            kept.parent.mkdir()
            kept.touch()
        before = sorted([*root.rglob("*"), *clone.rglob("*")])
        for arguments in (["why"], ["lint"], ["explain"], ["check", "x"], ["pin", "x"], ["--help"]):
            at = [] if arguments[0] in ("why", "--help") else ["--root", str(root)]
            ended = call(commands[command], root, *arguments, *at, PYTHONDONTWRITEBYTECODE="")
            assert ended.code in (0, 10, 12)
        assert sorted([*root.rglob("*"), *clone.rglob("*")]) == before


# The script of a bare clone


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return the script in a copy of the checkout whose .venv is made, with this Python."""
    clone = tmp_path / "a bare clone"
    support = clone / "release-support"
    support.mkdir(parents=True)
    for name in ("environment", "preflight", "requirements.txt"):
        shutil.copy(SUPPORT / name, support)
    (clone / "helpers").symlink_to(CHECKOUT / "helpers")
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    sum_of = ["sh", "-c", 'cksum <"$1"', "sh", str(support / "requirements.txt")]
    requirements = subprocess.run(sum_of, stdout=subprocess.PIPE, check=True, text=True).stdout
    version = "{}.{}".format(*sys.version_info)
    stamp = f"Python {version}, requirements {requirements}"
    (clone / ".venv" / "made-by-release-support").write_text(stamp)
    return support / "preflight"


def test_the_script_works_where_it_is_called(root, script, tmp_path):
    save_chat(root, "")
    title = "Chat chat, saved 1970-01-01T00:00:00Z.\nNo decision is stored in this chat.\n"
    for folder, arguments in [
        (root, []),
        (root, ["--root", "."]),
        (root / "usr", ["--root", ".."]),
        (tmp_path, ["--root", "agent zero"]),
    ]:
        assert call([str(script)], folder, "explain", "chat", *arguments) == (0, title, "")
    assert call([str(script)], tmp_path, "explain") == (2, "", f"{BARE_CLONE}: {NO_ROOT}")


def test_the_script_keeps_arguments_and_exit_codes(root, script, tmp_path):
    link = tmp_path / "a link"
    link.symlink_to(script)
    surprises = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "CDPATH": str(tmp_path)}
    command = [str(link)]
    assert call(command, root, "why", "url_mismatch", **surprises) == (0, URL_MISMATCH, "")
    code, output, last_error = call(command, root, "explain", "a  chat")
    assert (code, output) == (2, "")
    assert 'there is no saved chat "a  chat";' in last_error
    folder = root / "usr" / "chats" / "chat"
    folder.mkdir()
    (folder / "chat.json").touch()
    assert call(command, root, "explain").code == 11


def test_the_script_without_a_python(root, script):
    said = "preflight: Python 3.11 or newer is needed; PYTHON names 'no python', which does not run"
    code, output, last_error = call([str(script)], root, "why", PYTHON="no python")
    assert (code, output, last_error.startswith(said)) == (3, "", True)


@pytest.mark.parametrize(
    ("name", "gone", "wrong"),
    [
        ("agent-guild-preflight", None, "folder_name"),
        ("agent_guild_preflight", "untrusted.py", "plugin_incomplete"),
    ],
)
def test_a_plugin_that_cannot_run_says_so(tmp_path, name, gone, wrong):
    """As the hook does; a problem, not a traceback."""
    helpers = tmp_path / "usr" / "plugins" / name / "helpers"
    shutil.copytree(CHECKOUT / "helpers", helpers)
    if gone is not None:
        (helpers / gone).unlink()
    command = [sys.executable, "-m", f"usr.plugins.{name}.helpers", "lint"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (12, "")
    assert ended.stdout.startswith(f"problem {wrong}: ")
