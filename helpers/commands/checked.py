"""What `check` has to say of a judgement: lines for a person, data for a program.

Rules of this module:

1. The refusal is the line that a model would get, letter for letter.
2. What the service said in its own words is given as data only, in the form of `untrusted`.
3. An allowed call without evidence is never made to look like one with evidence.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..demands import Demand, Source
from ..judgement import Judgement
from ..places import Place
from ..problems import InvalidConfiguration
from ..reasons import Reason, Stage
from ..untrusted import visible
from ..verdicts import KNOWN_CHECKS, Check
from ..wording import cause, line
from .outcome import Exit, Outcome, table

if TYPE_CHECKING:
    from ..evaluation import Claim

NOT_CHECKED = (
    "Not checked here: whether the server exposes a tool, and whether that is the pinned one; "
    "pin lists its tools."
)


def outcome(
    place: Place,
    demands: Sequence[Demand],
    claims: Sequence[Claim],
    judgement: Judgement,
    milliseconds: int | None,
) -> Outcome:
    """Say what was found.

    Args:
        place: where the settings are.
        demands: all that is in force.
        claims: those of it that protect the server, at least one.
        judgement: what became of them.
        milliseconds: how long the evidence took; None where nobody was asked.

    Returns:
        The outcome.
    """
    origins = list(dict.fromkeys(claim.origin for claim in claims))
    asked = [] if milliseconds is None else origins
    files = [_file_row(place, demand, claims, judgement) for demand in demands]
    lines = _table_of_fields(
        ("server", _server(claims, judgement)),
        ("endpoint", judgement.endpoint or "not shown"),
        ("asked", ", ".join(asked) or "nobody"),
    )
    lines += ["", *_checks(claims, judgement)] if judgement.observation else []
    lines += ["", *_table_of_fields(*_decision(judgement, milliseconds))]
    lines += ["", *table(("settings", "decision", "file"), files)]
    lines += ["", "The model is told:", line(judgement)] if judgement.reason else []
    lines += ["", NOT_CHECKED]
    return Outcome(_exit(judgement), lines, _data(claims, judgement, asked, files, milliseconds))


def _exit(judgement: Judgement) -> Exit:
    if judgement.reason is None:
        return Exit.FINE
    return Exit.NO_EVIDENCE if judgement.reason.stage is Stage.EVIDENCE else Exit.REFUSED


def _server(claims: Sequence[Claim], judgement: Judgement) -> str:
    """Give the server's name, and the other one under which its URL is approved."""
    name, approved = claims[0].view.server, judgement.server
    if not name or approved is None or approved == name:
        return visible(name) or "no name given"
    return f"{visible(name)}, protected by its URL, which is approved for {visible(approved)}"


def _file_row(
    place: Place, demand: Demand, claims: Sequence[Claim], judgement: Judgement
) -> tuple[str, str, str]:
    """Give a demand, what it decides, and its file."""
    file = place.shown(place.file_of(demand.source).path)
    if isinstance(demand.settings, InvalidConfiguration):
        return demand.source.value, "not valid; does not protect this server", file
    sources = [claim.source for claim in claims]
    if demand.source not in sources:
        return demand.source.value, "does not protect this server", file
    return demand.source.value, _decision_of(demand.source, sources, judgement), file


def _decision_of(source: Source, sources: Sequence[Source], judgement: Judgement) -> str:
    if judgement.reason is None:
        return "allowed"
    if source is judgement.source:
        return f"refused: {cause(judgement)}"
    weighed = judgement.guild_origin is not None and judgement.source is not None
    if weighed and sources.index(source) < sources.index(judgement.source):
        return "allowed"
    return "undecided"


def _checks(claims: Sequence[Claim], judgement: Judgement) -> list[str]:
    assert judgement.observation is not None
    rows = []
    for check in KNOWN_CHECKS:
        sources = _required_by(check, claims)
        required = ", ".join(sources) if len(claims) > 1 else "yes" if sources else ""
        rows.append((check.value, judgement.observation.statuses[check].value, required or "no"))
    lines = table(("check", "status", "required"), rows)
    if judgement.observation.other_checks:
        others, failed = judgement.observation.other_checks, judgement.observation.other_failed
        lines.append(f"+{others} unlisted, {failed} of them failed")
    return lines


def _required_by(check: Check, claims: Sequence[Claim]) -> list[str]:
    return [
        claim.source.value for claim in claims if check in claim.settings.policy.required_proven
    ]


def _decision(judgement: Judgement, milliseconds: int | None) -> list[tuple[str, str]]:
    fields = []
    if judgement.observation is not None:
        fields.append(("verdict", judgement.observation.verdict.value))
    elif judgement.error is not None:
        fields.append(("evidence", f"none: {judgement.error.value}. {judgement.error.sentence}"))
    if judgement.reason is not None:
        fields.append(("decision", f"refused: {cause(judgement)}"))
        fields += _why(judgement, judgement.reason)
    elif judgement.observation is None:
        fields.append(("decision", "allowed WITHOUT evidence: policy.on_unavailable tolerates it"))
    else:
        fields.append(("decision", "allowed"))
    if judgement.tolerated:
        fields.append(("tolerated", ", ".join(judgement.tolerated)))
    if milliseconds is not None:
        fields.append(("took", f"{milliseconds} ms"))
    return fields


def _why(judgement: Judgement, reason: Reason) -> list[tuple[str, str]]:
    sentences = [reason.sentence]
    if judgement.sub_reason is not None and judgement.error is None:
        sentences.append(judgement.sub_reason.sentence)
    fields = [("why", " ".join(sentences)), ("what to do", reason.remedy)]
    return fields + [("unforeseen", judgement.unforeseen)] * bool(judgement.unforeseen)


def _table_of_fields(*fields: tuple[str, str]) -> list[str]:
    return [f"{label:<11} {value}" for label, value in fields]


def _data(
    claims: Sequence[Claim],
    judgement: Judgement,
    asked: list[str],
    files: Sequence[tuple[str, str, str]],
    milliseconds: int | None,
) -> dict[str, Any]:
    observation, reason, sub_reason = judgement.observation, judgement.reason, judgement.sub_reason
    return {
        "server": claims[0].view.server or None,
        "approved_for": judgement.server,
        "endpoint": judgement.endpoint,
        "asked": asked,
        "decision": judgement.decision,
        "reason": reason.value if reason else None,
        "sub_reason": sub_reason.value if sub_reason else None,
        "refused_by": judgement.source.value if reason and judgement.source else None,
        "tolerated": list(judgement.tolerated),
        "error": judgement.error.value if judgement.error else None,
        "verdict": observation.verdict.value if observation else None,
        "required_by": {check.value: _required_by(check, claims) for check in KNOWN_CHECKS},
        "observation": dict(observation.plain) if observation else None,
        "settings": [
            {"source": source, "decision": decision, "file": file}
            for source, decision, file in files
        ],
        "took_ms": milliseconds,
        "refusal": line(judgement) if reason else None,
        "tools_checked": False,
    }
