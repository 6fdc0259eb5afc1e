"""What is said of a refusal: one line, and nothing else.

Rules of this module:

1. The line is built from enum members, numbers, times, the operator's own name for the
   server, and the redacted endpoint. No remote text, no argument, no path.
2. The same cause gives the same line, times aside.

The module imports nothing of the framework.
"""

from __future__ import annotations

from typing import Final

from .guild_preflight.observation import written
from .guild_preflight.verdicts import Status
from .judgement import Judgement

MAX_SERVER_CHARACTERS: Final = 64


def line(judgement: Judgement) -> str:
    """Return the line that says why a call was refused.

    Args:
        judgement: a refusing judgement.

    Returns:
        One line without line breaks.
    """
    what = "withheld the result of" if judgement.is_withheld else "refused"
    parts = [f"Agent Guild preflight {what} this call: {cause(judgement)}."]
    if judgement.server is not None:
        parts.append(f"Server: {judgement.server[:MAX_SERVER_CHARACTERS]}.")
    if judgement.endpoint is not None:
        parts.append(f"Endpoint: {judgement.endpoint}.")
    parts.extend(_observed(judgement))
    parts.append(f"Next step: {judgement.next_step}. {judgement.next_step_sentence}")
    return " ".join(parts)


def cause(judgement: Judgement) -> str:
    """Return the reason, with the sub-reason where there is one."""
    if judgement.reason is None:
        return ""
    if judgement.sub_reason is None:
        return judgement.reason.value
    return f"{judgement.reason.value} ({judgement.sub_reason.value})"


def _observed(judgement: Judgement) -> list[str]:
    observation = judgement.observation
    if observation is None:
        return []
    parts = [f"Verdict: {observation.verdict.value}."]
    for status in Status:
        names = observation.names(status)
        if names:
            parts.append(
                f"{status.value.capitalize()}: {', '.join(check.value for check in names)}."
            )
    if observation.other_checks:
        parts.append(f"+{observation.other_checks} unlisted.")
    if observation.observed_at is not None:
        age = f" (cached, age {int(observation.age_seconds)} s)" if observation.cached else ""
        parts.append(f"Observed at {written(observation.observed_at)}{age}.")
    return parts
