"""What is said of a refusal: one line, and nothing else.

Rules of this module:

1. The line is built from enum members, numbers, times, the operator's own name for the
   server, and the redacted endpoint. No remote text, no argument, no path.
2. The same cause gives the same line, times aside.
3. It has at most 600 characters. What says least goes first: when the endpoint was observed, then
   the checks, then the endpoint. The cause, the server and the next step always stay.

The module imports nothing of the framework.
"""

from __future__ import annotations

from typing import Final

from .guild_preflight.observation import written
from .guild_preflight.verdicts import Status
from .judgement import Judgement

MAX_CHARACTERS: Final = 600
MAX_SERVER_CHARACTERS: Final = 64

OTHERS: Final = "Tools of other servers are not concerned."  # those of this one mostly are
LOCAL_TOOLS: Final = "Local tools are not concerned."  # where nobody can tell what is protected


def line(judgement: Judgement) -> str:
    """Return the line that says why a call was refused.

    Args:
        judgement: a refusing judgement.

    Returns:
        One line without line breaks, of at most `MAX_CHARACTERS`.
    """
    assert judgement.reason is not None
    what = "withheld the result of" if judgement.is_withheld else "refused"
    head = [f"Agent Guild preflight {what} this call: {cause(judgement)}."]
    head.append(judgement.reason.sentence)
    if judgement.server is not None:
        head.append(f"Server: {judgement.server[:MAX_SERVER_CHARACTERS]}.")
    tail = [f"Next step: {judgement.next_step}. {judgement.next_step_sentence}"]
    tail.append(LOCAL_TOOLS if judgement.server is None else OTHERS)
    middle = _observed(judgement)
    if judgement.endpoint is not None:
        middle.insert(0, f"Endpoint: {judgement.endpoint}.")
    while len(text := " ".join([*head, *middle, *tail])) > MAX_CHARACTERS:
        middle.pop()
    return text


def cause(judgement: Judgement) -> str:
    """Return the reason, with the sub-reason where there is one."""
    if judgement.reason is None:
        return ""
    if judgement.sub_reason is None:
        return judgement.reason.value
    return f"{judgement.reason.value} ({judgement.sub_reason.value})"


def _observed(judgement: Judgement) -> list[str]:
    """Return what the evidence says, what matters most first."""
    observation = judgement.observation
    if observation is None:
        return []
    parts = [f"Verdict: {observation.verdict.value}."]
    for status in (Status.FAILED, Status.UNKNOWN, Status.PROVEN):
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
