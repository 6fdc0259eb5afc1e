"""The two commands: what the demo shows, and how both set themselves up or say why not.

The set-up is tried on copies of the commands with a Python that only pretends to install.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stage.commands_copy import Copy
from stage.terminal import on_a_terminal

SUPPORT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 60

SCENES = """
no server is protected                  untouched "echo: hello"                             0      1
an approved server, healthy             allowed   "echo: hello"                             1      1
the same again, from the cache          allowed   "echo: hello"                             0      1
a web page where the server was         refused   do_not_delegate                           1      0
the MCP settings name another URL       refused   url_mismatch                              0      0
the same as text, by the tool's alias   refused   url_mismatch                              0      0
the preflight service is down           refused   evidence_unavailable (connect)            1      0
the service contradicts itself          refused   evidence_inconsistent (verdict)           1      0
the URL changes during the preflight    refused   binding_changed                           1      0
"""

# A service that cannot contradict itself: the scene that needs it to must be missed.
HONEST = """
import sys
sys.path.insert(0, sys.argv.pop())
from local_guild import answers
answer_body = answers.answer_body
answers.answer_body = lambda target, **_: answer_body(target)
from stage import demo
sys.exit(demo.main())
"""


class TestDemo:
    """Both runs are started at once, because each takes some seconds."""

    @pytest.fixture(scope="class")
    def runs(self) -> tuple[tuple[int, str], tuple[int, str]]:
        demo = [sys.executable, str(SUPPORT / "stage" / "demo.py")]
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
        with subprocess.Popen(
            demo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as plain:
            coloured = on_a_terminal(
                [sys.executable, "-c", HONEST, str(SUPPORT)], environment=environment
            )
            output = plain.communicate(timeout=PATIENCE_SECONDS)[0]
        return (plain.returncode, output), coloured

    def test_every_scene_comes_out(self, runs):
        code, output = runs[0]
        assert code == 0
        assert SCENES in output
        assert output.endswith("\nAll 9 scenes came out as they must.\n")

    def test_one_refusal_is_read_aloud(self, runs):
        _, output = runs[0]
        frame = re.search(r"^\+-+\+\n(.*?)^\+-+\+$", output, re.M | re.S)
        words = " ".join(line.strip("| ") for line in frame[1].splitlines())
        assert "Agent Guild preflight refused this call: do_not_delegate. The endpoint" in words
        assert " Server: archive. " in words
        assert "Do not repeat this call; only the operator can change this." in words

    def test_what_is_no_terminal_gets_plain_narrow_lines(self, runs):
        _, output = runs[0]
        assert "\x1b" not in output
        assert max(map(len, output.splitlines())) <= 100
        assert str(SUPPORT) not in output

    def test_a_scene_that_comes_out_otherwise_is_named(self, runs):
        code, output = runs[1]
        assert code == 1
        output = re.sub(r"\x1b\[\d*m", "", output)
        assert re.search(
            r'^the service contradicts itself +allowed +"echo: hello" +1 +1$', output, re.M
        )
        assert output.endswith(
            "\n1 of 9 scenes came out otherwise: the service contradicts itself.\n"
        )

    def test_a_terminal_gets_colours(self, runs):
        assert "\x1b[31mrefused  \x1b[0m" in runs[1][1]

    @pytest.mark.parametrize(
        ("environment", "coloured"),
        [
            ({"TERM": "xterm"}, True),
            ({"TERM": "xterm", "NO_COLOR": ""}, True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, False),
            ({"TERM": "dumb"}, False),
            ({}, False),
        ],
    )
    def test_colours_can_be_declined(self, environment, coloured):
        code = (
            f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n"
            f"from stage.demo import Pen\n"
            f"print(Pen(sys.stdout, {environment!r}).paint('text', '31'))"
        )
        output = on_a_terminal([sys.executable, "-c", code], environment=dict(os.environ))[1]
        assert output == ("\x1b[31mtext\x1b[0m\n" if coloured else "text\n")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


class TestSetUp:
    def test_the_first_run_installs_and_the_second_does_not(self, copy):
        copy.add_python("python3")
        assert copy.run()[0] == 0
        assert copy.run()[2] == ""
        assert copy.installs == ["installed for 3.11"]

    def test_a_checkout_with_its_venv_needs_no_other_python(self, copy):
        fake = copy.add_python("python3")
        copy.run()
        fake.unlink()
        assert copy.run()[0] == 0

    def test_from_anywhere_through_a_link_with_a_surprising_environment(self, copy, tmp_path):
        copy.add_python("python3")
        link = tmp_path / "a link"
        link.symlink_to(copy.support / "test")
        surprises = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "CDPATH": str(tmp_path)}
        code, output, _ = copy.run(
            "-k", "a b", command=link, https_proxy="http://127.0.0.1:9", CI="true", **surprises
        )
        assert (code, output) == (0, f"{copy.top}|-k a b|unset|unset\n")

    def test_changed_requirements_are_installed_anew(self, copy):
        copy.add_python("python3")
        copy.run()
        with (copy.support / "requirements.txt").open("a") as file:
            file.write("another==1\n")
        assert copy.run()[0] == 0
        assert len(copy.installs) == 2

    def test_another_python_on_demand(self, copy):
        copy.add_python("python3.11")
        other = copy.add_python("another", (3, 12))
        copy.run()
        copy.run(PYTHON=str(other))
        copy.run(PYTHON=str(other))
        assert copy.installs == ["installed for 3.11", "installed for 3.12"]

    def test_too_old_ones_are_passed_over(self, copy):
        copy.add_python("python3", (3, 10))
        copy.add_python("python", (3, 14))
        assert copy.run()[0] == 0
        assert copy.installs == ["installed for 3.14"]

    def test_two_at_once_install_once(self, copy):
        copy.add_python("python3")
        os.mkfifo(copy.gate)
        gate = os.open(copy.gate, os.O_RDWR)
        with copy.start() as one, copy.start() as other:
            for process in (one, other):
                assert "making .venv" in process.stderr.readline()
            os.write(gate, b"open\nopen\n")  # enough for two installs, if there were two
            assert one.wait(PATIENCE_SECONDS) == other.wait(PATIENCE_SECONDS) == 0
        os.close(gate)
        assert len(copy.installs) == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("environment", "said"),
        [
            ({}, "there is none on PATH"),
            ({"PYTHON": "no python"}, "PYTHON names 'no python', which does not run"),
        ],
    )
    def test_without_python(self, copy, environment, said):
        assert copy.run(**environment) == (
            3,
            "",
            f"test: Python 3.11 or newer is needed; {said}. PYTHON=... chooses another.",
        )

    def test_an_old_python(self, copy):
        copy.add_python("python3", (3, 10))
        code, output, line = copy.run()
        assert (code, output) == (3, "")
        assert "Python 3.11 or newer is needed; python3 is 3.10." in line
        assert not (copy.top / ".venv").exists()

    def test_a_failed_install_is_done_anew(self, copy):
        copy.add_python("python3")
        copy.gate.write_text("closed")
        failed = "test: the pinned packages could not be installed; details: .venv-install.log"
        assert copy.run() == (3, "", failed)
        assert copy.run() == (3, "", failed)
        copy.gate.unlink()
        assert copy.run()[0] == 0
        assert len(copy.installs) == 3

    def test_a_real_install_without_an_index(self, copy):
        code, _, line = copy.run(
            PYTHON=sys.executable, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull
        )
        assert code == 3
        assert (
            line == "test: the pinned packages could not be installed; details: .venv-install.log"
        )
        assert "No matching distribution" in (copy.top / ".venv-install.log").read_text()

    def test_a_venv_of_someone_else_is_left_alone(self, copy):
        copy.add_python("python3")
        theirs = copy.top / ".venv" / "theirs"
        theirs.mkdir(parents=True)
        code, _, line = copy.run()
        assert code == 3
        assert "a .venv that this command did not make" in line
        assert theirs.exists()

    def test_a_checkout_that_cannot_be_written_to(self, copy):
        copy.add_python("python3")
        (copy.top / ".venv-install.log").mkdir()  # root may write anywhere, but not to this
        assert copy.run() == (3, "", "test: the checkout cannot be written to")

    @pytest.mark.parametrize(
        ("environment", "said"),
        [
            ({"A0_ROOT": "/no such folder"}, "A0_ROOT names no folder"),
            ({"A0_ROOT": "/"}, "A0_ROOT needs A0_PYTHON"),
            ({"A0_ROOT": "/", "A0_PYTHON": "no python"}, "A0_ROOT needs A0_PYTHON"),
            ({"A0_ROOT": "/", "A0_PYTHON": "bash"}, "A0_PYTHON has no pytest, or no hypothesis"),
        ],
    )
    def test_the_framework_without_its_python(self, copy, environment, said):
        code, output, line = copy.run(**environment)
        assert (code, output) == (3, "")
        assert line.startswith(f"test: {said}")

    def test_the_framework_with_its_python(self, copy):
        fake = copy.add_python("framework's python")
        code, output, _ = copy.run("-x", A0_ROOT="/", A0_PYTHON=str(fake))
        assert (code, output) == (0, f"{copy.top}|-x|unset|unset\n")
        assert copy.installs == []
