"""Words that carry more than their value: the base of every vocabulary.

A member is written as a tuple: its value, then one item for each annotated attribute of its
class, in their order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Term(StrEnum):
    """A text that also has the attributes that its class annotates."""

    def __new__(cls, value: str, *attributes: object) -> Self:
        term = str.__new__(cls, value)
        term._value_ = value
        for name, attribute in zip(cls.__annotations__, attributes, strict=True):
            setattr(term, name, attribute)
        return term
