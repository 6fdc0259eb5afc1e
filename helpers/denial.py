"""Refuse: the exception that ends a call, and nothing else that the framework could show.

The framework shows a model the whole traceback of a repairable exception, with source lines
and the text of any exception chained to it. The class below has none to show: its qualified
name ends in "Error", so that its line comes first, and traceback, cause and context are
always None. It is raised after every `except` block has ended, with the line that `message`
gives.
"""

from __future__ import annotations

from helpers.errors import RepairableException


def _nothing(_: object) -> None:
    return None


def _ignore(_: object, __: object) -> None:
    return None


class GuildPreflightError(RepairableException):
    """A protected call was refused. `str()` is exactly the line for the model."""

    # Whoever sets one of these (contextlib does, on the way out) is not contradicted: an
    # error here would take the refusal's place.
    __traceback__ = property(_nothing, _ignore)
    __cause__ = property(_nothing, _ignore)
    __context__ = property(_nothing, _ignore)
