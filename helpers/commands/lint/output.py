"""What `lint` has to say: lines for a person, data for a program.

Rules of this module:

1. Problems come first, then warnings; each names its code, which `--json` gives as well. What
   keeps the gate from running is a problem, too.
2. Paths of keys are shown as `problems` shows them. All else that is not ours is `visible`.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...settings.in_force import Layer
from ...settings.locations import ConfigFile, Locations
from ...settings.problems import Problem
from ...terms import Term
from ...untrusted import visible
from ..shared.findings import MAY_STOP_THE_GATE, Found
from ..shared.in_effect import data_of, in_effect_everywhere, lines_of
from ..shared.output import Exit, Output
from ..shared.protection import permitted_headers, protected_names
from .json_text import BrokenText
from .nearest import Setting

NO_REDIRECT: Final = "no_redirect"
NOBODY_CAN_TELL: Final = "nobody can tell which servers are protected, so every MCP tool is refused"


class Role(Term):
    """What another settings file counts for; the value is for a program."""

    words: str

    FLOOR = "floor", "in force as well, as the floor"
    NOTHING = "nothing", "counts for nothing here"
    OTHER_AGENTS = "other_agents", "counts for other agents"


class OtherFile(NamedTuple):
    """A settings file that is not the selected one."""

    file: ConfigFile
    role: Role


class LocatedProblem(NamedTuple):
    """A problem of a file in force.

    Attributes:
        file: the file's path below the root.
        path: the path of the key; empty for the whole file.
        problem: what is wrong.
        nearest: the setting that a misspelled key may mean.
        broken_text: why the file cannot be read.
    """

    file: str
    path: str
    problem: Problem
    nearest: Setting | None = None
    broken_text: BrokenText | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found.

    Attributes:
        locations: where.
        selected: the settings file in force.
        others: the other ones that there are.
        layers: the settings in force.
        problems: what is wrong with the settings in force.
        findings: what else is wrong, or worth a warning.
        answers: each URL with what was found, None where it does not redirect; None if
            --network was not given.
    """

    locations: Locations
    selected: ConfigFile
    others: Sequence[OtherFile]
    layers: Sequence[Layer]
    problems: Sequence[LocatedProblem]
    findings: Sequence[Found]
    answers: Sequence[tuple[str, Found | None]] | None = None

    def output(self) -> Output:
        """Return the output."""
        lines = [*self._head(), ""]
        for located in self.problems:
            lines += [*_lines_of_problem(located), ""]
        for found in (*self._obstacles, *self._warnings):
            lines += [*_lines_of_finding(found), ""]
        problems = len(self.problems) + len(self._obstacles)
        counts = [_count(problems, "problem"), _count(len(self._warnings), "warning")]
        lines.append(", ".join(counts) + self._what_is_checked())
        return Output(Exit.CONFIGURATION if problems else Exit.FINE, lines, self._data())

    @property
    def _obstacles(self) -> list[Found]:
        return [found for found in self.findings if found.is_problem]

    @property
    def _warnings(self) -> list[Found]:
        return [found for found in self.findings if not found.is_problem]

    def _what_is_checked(self) -> str:
        if not self._obstacles:
            return ""
        is_sure = any(found.finding not in MAY_STOP_THE_GATE for found in self._obstacles)
        return f"; {'' if is_sure else 'perhaps '}nothing is checked here"

    def _head(self) -> list[str]:
        lines = [f"in force: {self._shown(self.selected)}"]
        lines += [f"{role.words}: {self._shown(file)}" for file, role in self.others]
        if any(layer.protected is None for layer in self.layers):
            lines.append(f"protected: {NOBODY_CAN_TELL}")
        else:
            names = ", ".join(visible(name) for name in protected_names(self.layers))
            lines.append(f"protected: {names or 'nothing'}")
        lines += [
            f"headers of {visible(name)}: {', '.join(headers) or 'none'}"
            for name, headers in permitted_headers(self.layers).items()
        ]
        in_effect = in_effect_everywhere(self.locations, self.layers)
        lines += lines_of(in_effect, with_source=len(self.layers) > 1)
        silent = [url for url, found in self.answers or () if found is None]
        return lines + [f"does not redirect: {url}" for url in silent]

    def _shown(self, file: ConfigFile) -> str:
        return f"{self.locations.shown(file.path)} ({file.scope.value})"

    def _data(self) -> dict[str, Any]:
        can_tell = all(layer.protected is not None for layer in self.layers)
        data: dict[str, Any] = {
            "selected": self._data_of_file(self.selected),
            "others": [
                {**self._data_of_file(file), "counts_for": role.value} for file, role in self.others
            ],
            "protected": protected_names(self.layers) if can_tell else None,
            "headers": permitted_headers(self.layers),
            "policies": data_of(in_effect_everywhere(self.locations, self.layers)),
            "problems": [
                *(_data_of_problem(located) for located in self.problems),
                *(_data_of_obstacle(found) for found in self._obstacles),
            ],
            "warnings": [_data_of_warning(found) for found in self._warnings],
        }
        if self.answers is not None:
            data["answers"] = [
                {"url": url, "answer": found.finding.value if found else NO_REDIRECT}
                for url, found in self.answers
            ]
        return data

    def _data_of_file(self, file: ConfigFile) -> dict[str, str]:
        return {"file": self.locations.shown(file.path), "scope": file.scope.value}


def _lines_of_problem(located: LocatedProblem) -> list[str]:
    said = f"{located.path or 'The file'} {located.problem.value}."
    lines = [f"problem {_code(located.problem)}: {located.file}: {said}"]
    if located.nearest is not None:
        lines.append(f"  Nearest: {located.nearest.words}.")
    if located.broken_text is not None:
        lines.append(f"  {located.broken_text.sentence}")
    return [*lines, f"  What to do: {located.problem.remedy}"]


def _lines_of_finding(found: Found) -> list[str]:
    word = "problem" if found.is_problem else "warning"
    lines = [f"{word} {found.finding.value}: {found.subject}: {found.finding.sentence}"]
    if found.detail:
        lines.append(f"  {found.detail}")
    return [*lines, f"  What to do: {found.finding.remedy}"]


def _data_of_problem(located: LocatedProblem) -> dict[str, Any]:
    return {
        "file": located.file,
        "path": located.path,
        "problem": _code(located.problem),
        "sentence": located.problem.value,
        "remedy": located.problem.remedy,
        "nearest": located.nearest.path if located.nearest else None,
        "fault": located.broken_text._asdict() if located.broken_text else None,
    }


def _data_of_obstacle(found: Found) -> dict[str, Any]:
    return {
        "file": found.subject,
        "path": "",
        "problem": found.finding.value,
        "sentence": found.finding.sentence,
        "remedy": found.finding.remedy,
        "nearest": None,
        "fault": None,
    }


def _data_of_warning(found: Found) -> dict[str, Any]:
    return {
        "warning": found.finding.value,
        "subject": found.subject,
        "sentence": found.finding.sentence,
        "detail": found.detail,
        "remedy": found.finding.remedy,
    }


def _code(problem: Problem) -> str:
    """Return a problem's name for a program; its value is the sentence."""
    return problem.name.lower()


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
