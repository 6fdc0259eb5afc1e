"""The commands of release-support besides what they run: help, version, the checks, CI.

They are tried on copies, with a Python that only pretends to install.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from stage.boot import CHECKOUT, PLUGIN, SUPPORT
from stage.commands_copy import COMMANDS, PATIENCE_SECONDS, REQUIREMENTS, Copy

VERSION = yaml.safe_load((CHECKOUT / "plugin.yaml").read_text())["version"]
WITHOUT_ARGUMENTS = ("bench", "check", "demo")
CHECKS = ["ruff format --check .", "ruff check .", "mypy"]
TYPED = (CHECKOUT / "helpers", CHECKOUT / "extensions", SUPPORT / "local_guild", SUPPORT / "stage")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def files_of(folder: Path) -> list[tuple[Path, int]]:
    return sorted((path, path.lstat().st_mtime_ns) for path in folder.rglob("*"))


class TestHelp:
    """There is no Python on the copy's PATH: what is answered needs none, and makes nothing."""

    @pytest.fixture(autouse=True)
    def nothing_is_made(self, copy):
        before = files_of(copy.top)
        yield
        assert files_of(copy.top) == before

    @pytest.mark.parametrize("argument", ["--help", "-h"])
    @pytest.mark.parametrize("command", COMMANDS)
    def test_it_is_printed(self, copy, command, argument):
        code, output, errors = copy.run(argument, command=command)
        assert (code, errors) == (0, "")
        assert output.startswith(f"usage: release-support/{command} [--help] [--version]")
        assert max(map(len, output.splitlines())) <= 100

    @pytest.mark.parametrize("command", COMMANDS)
    def test_it_is_printed_whatever_stands_before_it(self, copy, command):
        code, output, errors = copy.run("lint", "-x", "--help", command=command, A0_ROOT="/")
        assert (code, errors) == (0, "")
        assert output.startswith("usage: ")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_the_version(self, copy, command):
        assert copy.run("--version", command=command) == (0, f"{PLUGIN} {VERSION}\n", "")

    @pytest.mark.parametrize("command", WITHOUT_ARGUMENTS)
    def test_what_is_not_understood(self, copy, command):
        said = f"{command}: it takes no arguments; --help says more"
        assert copy.run("--hlep", command=command) == (2, "", said)

    def test_that_of_the_suite_names_pytest(self, copy):
        assert "pytest" in copy.run("--help")[1]


@pytest.mark.parametrize("name", ["interleave", "mutate"])
def test_a_command_names_the_options_that_it_has(name):
    script = [sys.executable, str(SUPPORT / "stage" / f"{name}.py"), "--help"]
    spoken = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    options = {option for option in re.findall(r"--[a-z][a-z-]*", spoken) if option != "--help"}
    command = (SUPPORT / name).read_text()
    named = set(re.findall(r"^  (--[a-z-]+)", command, re.MULTILINE))
    assert options == named


def test_what_follows_two_dashes_goes_to_pytest(copy):
    copy.add_python("python3")
    assert copy.run("--", "--help")[1].split("|")[1] == "-- --help"


def test_the_operators_commands_help_themselves_once_they_can(copy):
    copy.add_python("python3")
    assert copy.run("why", command="preflight")[1] == "commands: why\n"
    assert copy.run("why", "-h", command="preflight") == (0, "commands: why -h\n", "")
    assert copy.run("--help", command="preflight") == (0, "commands: --help\n", "")
    assert copy.run("--version", command="preflight")[1] == f"{PLUGIN} {VERSION}\n"
    assert len(copy.installs) == 1


def test_the_local_service_has_the_version():
    command = [sys.executable, str(SUPPORT / "local_guild"), "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{PLUGIN} {VERSION}\n", "")


class TestCheck:
    def test_all_is_checked_in_an_environment_of_its_own(self, copy):
        copy.add_python("python3")
        code, output, line = copy.run(command="check", MYPYPATH="/nowhere")
        assert (code, line.split(",")[0]) == (0, "check: making .venv-dev")
        assert output.splitlines() == [
            text for check in CHECKS for text in (f"check: {check}", f"{copy.top}|{check}|unset")
        ]
        assert (copy.top / ".venv-dev").exists()
        assert not (copy.top / ".venv").exists()

    def test_the_second_time_nothing_is_installed(self, copy):
        copy.add_python("python3")
        copy.run(command="check")
        assert copy.run(command="check")[::2] == (0, "")
        assert len(copy.installs) == 1

    def test_its_environment_has_what_both_files_name(self, copy):
        copy.add_python("python3")
        copy.run(command="check")
        named = [f"-r{copy.support / name}" for name in REQUIREMENTS]
        assert copy.requirements.read_text().strip() == " ".join(named)
        copy.run(command="test")
        assert copy.requirements.read_text().strip() == named[0]

    @pytest.mark.parametrize("name", REQUIREMENTS)
    def test_a_change_of_either_file_is_installed_anew(self, copy, name):
        copy.add_python("python3")
        copy.run(command="check")
        copy.run(command="test")
        with (copy.support / name).open("a") as file:
            file.write("another==1\n")
        copy.run(command="check")
        assert len(copy.installs) == 3
        copy.run(command="test")
        assert len(copy.installs) == (4 if name == "requirements.txt" else 3)

    @pytest.mark.parametrize("check", CHECKS)
    def test_one_that_fails_does_not_hide_another(self, copy, check):
        copy.add_python("python3")
        name, _, rest = check.partition(" ")
        copy.failing.write_text(f"{name} {rest.split(' ')[0]}")
        code, output, line = copy.run(command="check")
        assert (code, line) == (1, f"check: failed: {check}")
        assert all(f"|{each}|" in output for each in CHECKS)

    def test_all_that_fail_are_named(self, copy):
        copy.add_python("python3")
        copy.run(command="check")
        (copy.top / ".venv-dev" / "bin" / "python").write_text(
            f'#!/usr/bin/env bash\n[ "$1" = -c ] && exec {sys.executable} "$@"\nexit 7\n'
        )
        code, _, line = copy.run(command="check", PYTHON=str(copy.path / "python3"))
        assert (code, line) == (1, f"check: failed: {', '.join(CHECKS)}")

    def test_a_venv_of_someone_else_is_left_alone(self, copy):
        copy.add_python("python3")
        theirs = copy.top / ".venv-dev" / "theirs"
        theirs.mkdir(parents=True)
        code, _, line = copy.run(command="check")
        assert (code, "a .venv-dev that this command did not make" in line) == (3, True)
        assert theirs.exists()

    def test_a_failed_install_names_its_log(self, copy):
        copy.add_python("python3")
        copy.gate.write_text("closed")
        code, _, line = copy.run(command="check")
        assert (code, line.partition("; ")[2]) == (3, "details: .venv-dev-install.log")
        assert (copy.top / ".venv-dev-install.log").exists()

    def test_mutation_testing_shares_it(self, copy):
        copy.add_python("python3")
        copy.run(command="check")
        assert copy.run(command="mutate")[0] == 0
        assert len(copy.installs) == 1


class TestTools:
    """The tools by themselves say what `check` says: all they are told stands in the dot-files."""

    def test_every_package_is_pinned_once(self):
        names = []
        for file in REQUIREMENTS:
            for line in (SUPPORT / file).read_text().splitlines():
                if line and not line.startswith("#"):
                    assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line
                    names.append(re.sub("[-_.]+", "-", line.partition("==")[0]).lower())
        assert sorted(names) == sorted(set(names))

    def test_ruff_is_the_one_that_is_pinned(self):
        settings = tomllib.loads((CHECKOUT / ".ruff.toml").read_text())
        pins = (SUPPORT / "requirements-dev.txt").read_text().splitlines()
        assert f"ruff{settings['required-version']}" in pins

    def test_types_are_strict_everywhere(self):
        settings = configparser.ConfigParser()
        settings.read(CHECKOUT / ".mypy.ini")
        assert settings.sections() == ["mypy"]  # none that says less of some modules
        assert settings["mypy"].getboolean("strict")
        files = [CHECKOUT / name.strip() for name in settings["mypy"]["files"].split(",")]
        (installed,) = (SUPPORT / "as_installed").glob(f"usr/plugins/{PLUGIN}/*")
        covered = {file.resolve() for file in (*files, installed)}
        assert covered >= {folder.resolve() for folder in (*TYPED, SUPPORT / "reference_host")}


class TestCi:
    @pytest.mark.parametrize(
        ("check", "suite", "code"), [(0, 0, 0), (1, 0, 1), (0, 2, 2), (1, 2, 2)]
    )
    def test_it_checks_and_tests(self, tmp_path, check, suite, code):
        for name, script in [
            ("release-support/check", f"echo checked; exit {check}"),
            ("release-support/test", f"echo tested; exit {suite}"),
            (".ci/run", (CHECKOUT / ".ci" / "run").read_text()),
        ]:
            file = tmp_path / "a clone" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
        ended = subprocess.run([str(file)], cwd="/", capture_output=True, text=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, "checked\ntested\n", "")

    def test_it_can_be_run(self):
        assert os.access(CHECKOUT / ".ci" / "run", os.X_OK)
        assert all(os.access(SUPPORT / command, os.X_OK) for command in COMMANDS)
