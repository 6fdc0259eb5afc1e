"""The papers say what is so: links lead somewhere, and the tables are those of the code.

The samples of commands are tested in `test_samples`.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from stage.boot import CHECKOUT
from stage.papers import (
    DOCS,
    anchors,
    blocks,
    code,
    links,
    papers,
    prose,
    section,
    shown,
    table,
)
from usr.plugins.agent_guild_preflight.helpers.binding import headers
from usr.plugins.agent_guild_preflight.helpers.binding.approval import Approval
from usr.plugins.agent_guild_preflight.helpers.commands.main import COMMANDS
from usr.plugins.agent_guild_preflight.helpers.commands.shared.findings import (
    STOPS_THE_GATE,
    Finding,
)
from usr.plugins.agent_guild_preflight.helpers.commands.shared.output import Exit
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import Check, Verdict
from usr.plugins.agent_guild_preflight.helpers.reasons import NextStep, Reason, Stage, SubReason
from usr.plugins.agent_guild_preflight.helpers.requirements import (
    OnCaution,
    OnUnavailable,
    Policy,
)
from usr.plugins.agent_guild_preflight.helpers.settings import reader
from usr.plugins.agent_guild_preflight.helpers.settings.configuration import Configuration
from usr.plugins.agent_guild_preflight.helpers.settings.problems import Problem

README = CHECKOUT / "README.md"
CONTRIBUTING = CHECKOUT / ".github" / "CONTRIBUTING.md"
CHANGELOG = CHECKOUT / "release-support" / "CHANGELOG.md"
PICTURE = DOCS / "gate.svg"
SETTINGS = DOCS / "settings.md"
REASONS = DOCS / "reasons.md"
JUDGED = DOCS / "how-a-call-is-judged.md"
OPERATORS = DOCS / "commands.md"

MAX_README_LINES = 160
MAX_CHARACTERS = 110

PLUGIN = yaml.safe_load((CHECKOUT / "plugin.yaml").read_text())
PAGES = papers()


def rows(page: Path, heading: str, column: str) -> dict[str, dict[str, str]]:
    """Give the rows of a section's table by the word between backticks in one column."""
    found = {code(row[column])[0]: row for row in table(section(page, heading))}
    assert len(found) == len(table(section(page, heading)))
    return found


# --- Links, and what holds for every page ---------------------------------------------------


def test_the_papers_are_found() -> None:
    expected = {README, CHECKOUT / "TESTING.md", CONTRIBUTING, CHANGELOG, SETTINGS, REASONS}
    assert expected <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        target = (page.parent / link.path).resolve() if link.path else page
        is_there = target.is_relative_to(CHECKOUT) and target.exists()
        if not is_there or (link.anchor and link.anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_linked_from_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.path).resolve() for link in links(index)}
    assert linked >= {page for page in PAGES if page.parent == DOCS and page != index}


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_lines_are_short(page: Path) -> None:
    """Tables and samples are as wide as they are."""
    assert [line for line in prose(page) if len(line) > MAX_CHARACTERS] == []


def test_the_readme_is_read_in_five_minutes() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= MAX_README_LINES


def test_the_picture_stands_for_itself() -> None:
    """It has a text for whoever cannot see it, and brings everything with it."""
    picture = ElementTree.parse(PICTURE).getroot()
    tags = {each.tag.rpartition("}")[2] for each in picture.iter()}
    assert {"title", "desc"} <= tags
    assert tags.isdisjoint({"script", "image", "use", "foreignObject", "a"})
    style = next(each.text or "" for each in picture.iter() if each.tag.endswith("style"))
    assert "prefers-color-scheme: dark" in style
    assert "url(" not in style and "@import" not in style


# --- Reasons --------------------------------------------------------------------------------


def test_every_reason_has_its_row_in_the_order_of_a_call() -> None:
    assert list(rows(REASONS, "Every reason", "reason")) == [reason.value for reason in Reason]


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_told_in_its_own_words(reason: Reason) -> None:
    row = rows(REASONS, "Every reason", "reason")[reason.value]
    assert row["stage"] == reason.stage.value
    assert row["what it means"].startswith(reason.sentence)
    assert row["what to do"] == reason.remedy
    steps = [reason.next_step]
    if reason.stage is Stage.POLICY and reason.next_step is NextStep.RETRY_LATER:
        # Where the endpoint was reached; and while kept evidence would give the same answer.
        steps = [NextStep.OPERATOR, NextStep.RETRY_LATER, NextStep.RETRY_AFTER]
    assert code(row["next step"]) == [step.value for step in steps]


def test_every_next_step_has_its_row() -> None:
    told = rows(REASONS, "Next steps", "next step")
    assert {word: row["what the model is told"] for word, row in told.items()} == {
        step.value: step.sentence for step in NextStep
    }


@pytest.mark.parametrize("reason", Reason)
def test_every_sub_reason_has_its_row_below_its_reason(reason: Reason) -> None:
    expected = {sub.value: sub.sentence for sub in SubReason if sub.reason is reason}
    heading = f"Of `{reason.value}`"
    if not expected:
        assert heading not in REASONS.read_text()
        return
    told = rows(REASONS, heading, "sub-reason")
    assert set(told) == set(expected)
    for word, sentence in expected.items():
        assert told[word]["what it means"].startswith(sentence)


def test_the_stages_of_a_call_are_told_in_their_order() -> None:
    text = JUDGED.read_text()
    told = table(text)
    assert [row["stage"] for row in told] == [stage.value for stage in Stage if stage != "any"]
    for row in told:
        for word in code(row["refuses with"]):
            assert Reason(word).stage == row["stage"]


# --- Settings -------------------------------------------------------------------------------


def fields(of: Any, prefix: str = "") -> dict[str, Any]:
    """Give the default of each field of a configuration, as JSON has it, by its path."""
    found: dict[str, Any] = {}
    for name in of.__dataclass_fields__:
        value = getattr(of, name)
        if isinstance(value, Policy):
            found |= {name: {}, **fields(value, f"{name}.")}
        else:
            found[prefix + name] = plain(value)
    return found


def plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def test_every_setting_has_its_row_with_its_default() -> None:
    told = rows(SETTINGS, "Every setting", "setting")
    defaults = {path: json.loads(code(row["default"])[0]) for path, row in told.items()}
    assert defaults == fields(Configuration())


def test_the_limits_and_choices_of_settings_are_told() -> None:
    permitted = {
        path: row["permitted"] for path, row in rows(SETTINGS, "Every setting", "setting").items()
    }
    least, most = reader.MIN_TIMEOUT_SECONDS, reader.MAX_TIMEOUT_SECONDS
    assert f"at least {least}, at most {most:.0f}:" in permitted["timeout_seconds"]
    assert f"to {reader.MAX_CACHE_TTL_SECONDS:.0f}:" in permitted["cache_ttl_seconds"]
    for path, choices in (("on_caution", OnCaution), ("on_unavailable", OnUnavailable)):
        words = [word.strip('"') for word in code(permitted[f"policy.{path}"])]
        assert set(words) >= {choice.value for choice in choices}


def test_every_key_of_an_entry_has_its_row() -> None:
    told = rows(SETTINGS, "An entry of `protected_servers`", "key")
    assert set(told) == set(reader.SERVER_SETTINGS)
    assert code(told["tools"]["default"]) == [json.dumps(Approval("weather", "").pins)]


def test_every_header_that_routes_is_named() -> None:
    told = code(section(JUDGED, "Headers that route").split("Names count")[0])
    names = {headers.folded(name) for name in told if not name.endswith("-")}
    families = {headers.folded(name) for name in told if name.endswith("-")}
    assert names - {"transport-altered"} == headers.ROUTING_HEADERS
    assert families == set(headers.ROUTING_FAMILIES) - {"x-envoy-orignal"}  # once misspelled


def test_every_problem_has_its_row() -> None:
    told = rows(SETTINGS, "When a file is not valid", "code")
    column = "what is said of the key, or of the file"
    assert {word: row[column] for word, row in told.items()} == {
        problem.name.lower(): problem.value for problem in Problem
    }


def test_every_check_has_its_row_and_every_verdict_is_named() -> None:
    assert list(rows(JUDGED, "Evidence", "check")) == [check.value for check in Check]
    assert set(code(section(JUDGED, "Evidence"))) >= {verdict.value for verdict in Verdict}


# --- Commands -------------------------------------------------------------------------------


def test_every_exit_code_has_its_row() -> None:
    told = {int(row["exit code"]): row["name"] for row in table(section(OPERATORS, "Exit codes"))}
    assert told == {each.value: each.name.lower().replace("_", " ") for each in Exit}


def test_every_command_has_a_section_and_a_row_in_the_readme() -> None:
    told = [code(row["command"])[0].split()[0] for row in table(section(README, "Commands"))]
    assert told == list(COMMANDS)
    for name in COMMANDS:
        assert section(OPERATORS, name)


def test_every_warning_is_named_once() -> None:
    told = {row["about"]: code(row["warnings"]) for row in table(section(OPERATORS, "lint"))}
    assert sorted(word for words in told.values() for word in words) == sorted(Finding)
    (stopping,) = [words for about, words in told.items() if "exit code 12" in about]
    assert set(stopping) == STOPS_THE_GATE


# --- The version, and the index -------------------------------------------------------------

VERSION = r"([0-9]+\.[0-9]+\.[0-9]+)"
NAMED_VERSION = re.compile(
    rf"(?:agent_guild_preflight|local-guild)/{VERSION}|\bversion\b[^\n0-9]{{0,20}}[\"']{VERSION}[\"']",
    re.I,
)


def test_there_is_one_version() -> None:
    """`plugin.yaml` has it; wherever else it stands, it is the same."""
    sources = [path for path in CHECKOUT.rglob("*.py") if not is_hidden(path)]
    found = {
        (path.relative_to(CHECKOUT).as_posix(), one or other)
        for path in sources
        for one, other in NAMED_VERSION.findall(path.read_text())
    }
    assert {version for _, version in found} == {PLUGIN["version"]}
    assert {path.split("/")[0] for path, _ in found} == {"helpers", "release-support"}


def is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(CHECKOUT).parts)


def test_the_newest_changes_are_of_that_version() -> None:
    headings = re.findall(r"^## (.+)$", CHANGELOG.read_text(), re.M)
    assert headings[0] == "Unreleased"
    released = [re.fullmatch(rf"{VERSION} - \d{{4}}-\d\d-\d\d", each) for each in headings[1:]]
    versions = [match[1] for match in released if match]
    assert len(versions) == len(released) > 0
    assert versions[0] == PLUGIN["version"]
    assert versions == sorted(versions, key=lambda each: [*map(int, each.split("."))], reverse=True)


def test_the_entry_for_the_index_fits() -> None:
    (text,) = blocks(CONTRIBUTING, "yaml")
    entry = yaml.safe_load(text)
    assert set(entry) == {"title", "description", "github", "tags"}
    assert entry["title"] == PLUGIN["title"]
    assert len(entry["title"]) <= 50
    assert len(entry["description"]) <= 500
    assert 0 < len(entry["tags"]) <= 5
    assert entry["github"].endswith(f"/{PLUGIN['name']}")
    assert len(text) <= 2000
    assert (CHECKOUT / "LICENSE").exists()
