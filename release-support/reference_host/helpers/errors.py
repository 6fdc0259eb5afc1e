"""The exceptions that steer an agent's loop, and how a model is shown one."""

from __future__ import annotations

import re
import traceback

_MESSAGE_LINE = re.compile(r"[\w\.]+Error:\s*")


class InterventionException(Exception):
    """The user spoke while the agent worked: leave the turn, keep the run."""


class HandledException(Exception):
    """Already reported: end the run without reporting it again."""


class RepairableException(Exception):
    """The model can mend this: show it what happened and go on."""


def format_error(e: BaseException) -> str:
    """Return the whole traceback, with its last message line moved to the top.

    Only a line that *starts* with a dotted name ending in `Error:` counts, so a class defined
    inside a function (`f.<locals>.XError`) or named otherwise stays below its traceback.
    """
    lines = "".join(traceback.format_exception(type(e), e, e.__traceback__)).splitlines()
    found = [number for number, line in enumerate(lines) if _MESSAGE_LINE.match(line)]
    if not found:
        return "\n".join(lines)
    message = lines.pop(found[-1])
    header = "Traceback (most recent call last):"
    rest = lines[1:] if lines[:1] == [header] else lines
    return "\n".join([message, "", header, *rest])
