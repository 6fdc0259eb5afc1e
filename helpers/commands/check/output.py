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

from ...guild_preflight.verdicts import KNOWN_CHECKS, Check
from ...judgement import Judgement
from ...message import cause, line
from ...reasons import Reason, Stage
from ...settings.in_force import Layer, Source
from ...settings.locations import Locations
from ...settings.problems import InvalidConfiguration
from ...untrusted import visible
from ..shared.in_effect import InEffect, data_of, in_effect, lines_of
from ..shared.output import Exit, Output, table

if TYPE_CHECKING:
    from ...evaluation import Protection

NOT_CHECKED = (
    "Not checked here: whether the server exposes a tool, and whether that is the pinned one; "
    "pin lists its tools."
)


def report(
    locations: Locations,
    layers: Sequence[Layer],
    protections: Sequence[Protection],
    judgement: Judgement,
    milliseconds: int | None,
) -> Output:
    """Say what was found.

    Args:
        locations: where the settings are.
        layers: all that is in force.
        protections: those of it that protect the server, at least one.
        judgement: what became of them.
        milliseconds: how long the evidence took; None where nobody was asked.

    Returns:
        The output.
    """
    asked = [] if milliseconds is None else [protections[0].origin]
    files = [_file_row(locations, layer, protections, judgement) for layer in layers]
    asks = [
        each
        for protection in protections
        for each in in_effect(
            locations, protection.source, protection.settings, [protection.approval]
        )
    ]
    lines = _table_of_fields(
        ("server", _server(protections, judgement)),
        ("endpoint", judgement.endpoint or "not shown"),
        ("asked", ", ".join(asked) or "nobody"),
    )
    lines += ["", *_checks(protections, judgement)] if judgement.observation else []
    lines += ["", *_table_of_fields(*_decision(judgement, milliseconds))]
    lines += ["", *table(("settings", "decision", "file"), files)]
    if policies := lines_of(asks, with_source=len(layers) > 1):
        lines += ["", *policies]
    lines += ["", "The model is told:", line(judgement)] if judgement.reason else []
    lines += ["", NOT_CHECKED]
    return Output(
        _exit(judgement), lines, _data(protections, judgement, asked, files, asks, milliseconds)
    )


def _exit(judgement: Judgement) -> Exit:
    if judgement.reason is None:
        return Exit.FINE
    return Exit.NO_EVIDENCE if judgement.reason.stage is Stage.EVIDENCE else Exit.REFUSED


def _server(protections: Sequence[Protection], judgement: Judgement) -> str:
    """Return the server's name, and the other one under which its URL is approved."""
    name, approved = protections[0].view.server, judgement.server
    if not name or approved is None or approved == name:
        return visible(name) or "no name given"
    return f"{visible(name)}, protected by its URL, which is approved for {visible(approved)}"


def _file_row(
    locations: Locations, layer: Layer, protections: Sequence[Protection], judgement: Judgement
) -> tuple[str, str, str]:
    """Return a layer, what it decides, and its file."""
    file = locations.shown(locations.file_of(layer.source).path)
    if isinstance(layer.settings, InvalidConfiguration):
        return layer.source.value, "not valid; does not protect this server", file
    # The order in which they decide, see `evaluation`.
    in_time = sorted(protections, key=lambda each: each.requirements.timeout_seconds)
    sources = [protection.source for protection in in_time]
    if layer.source not in sources:
        return layer.source.value, "does not protect this server", file
    return layer.source.value, _decision_of(layer.source, sources, judgement), file


def _decision_of(source: Source, sources: Sequence[Source], judgement: Judgement) -> str:
    if judgement.reason is None:
        return "allowed"
    if source is judgement.source:
        return f"refused: {cause(judgement)}"
    evaluated = judgement.guild_origin is not None and judgement.source is not None
    if evaluated and sources.index(source) < sources.index(judgement.source):
        return "allowed"
    return "undecided"


def _checks(protections: Sequence[Protection], judgement: Judgement) -> list[str]:
    assert judgement.observation is not None
    rows = []
    for check in KNOWN_CHECKS:
        sources = _required_by(check, protections)
        required = ", ".join(sources) if len(protections) > 1 else "yes" if sources else ""
        rows.append((check.value, judgement.observation.statuses[check].value, required or "no"))
    lines = table(("check", "status", "required"), rows)
    if judgement.observation.other_checks:
        others, failed = judgement.observation.other_checks, judgement.observation.other_failed
        lines.append(f"+{others} unlisted, {failed} of them failed")
    return lines


def _required_by(check: Check, protections: Sequence[Protection]) -> list[str]:
    return [
        protection.source.value
        for protection in protections
        if check in protection.requirements.policy.required_proven
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
    remedy = (judgement.sub_reason or reason).remedy
    fields = [("why", " ".join(sentences)), ("what to do", remedy)]
    if judgement.unforeseen is not None:
        fields.append(("unforeseen", str(judgement.unforeseen)))
    return fields


def _table_of_fields(*fields: tuple[str, str]) -> list[str]:
    return [f"{label:<11} {value}" for label, value in fields]


def _data(
    protections: Sequence[Protection],
    judgement: Judgement,
    asked: list[str],
    files: Sequence[tuple[str, str, str]],
    asks: Sequence[InEffect],
    milliseconds: int | None,
) -> dict[str, Any]:
    observation, reason, sub_reason = judgement.observation, judgement.reason, judgement.sub_reason
    return {
        "server": protections[0].view.server or None,
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
        "required_by": {check.value: _required_by(check, protections) for check in KNOWN_CHECKS},
        "observation": dict(observation.plain) if observation else None,
        "settings": [
            {"source": source, "decision": decision, "file": file}
            for source, decision, file in files
        ],
        "policies": data_of(asks),
        "took_ms": milliseconds,
        "refusal": line(judgement) if reason else None,
        "tools_checked": False,
    }
