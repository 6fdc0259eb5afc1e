"""What a model gave back for one turn."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ResponseItem:
    """One output item of a turn, as the model's provider gave it."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class FunctionCall:
    """A tool call in the provider's own form."""

    name: str
    arguments: Any  # JSON text or an object
    call_id: str


@dataclass
class LLMResult:
    """A turn's text and its output items."""

    response: str = ""
    output_items: list[ResponseItem] = field(default_factory=list)

    @property
    def function_calls(self) -> list[FunctionCall]:
        """The tool calls among the output items, in order."""
        return [
            FunctionCall(
                item.data["name"], item.data.get("arguments", {}), item.data.get("call_id", "")
            )
            for item in self.output_items
            if item.type == "function_call"
        ]


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return a call's arguments as an object; text that is none counts as no arguments."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {}
    return dict(arguments) if isinstance(arguments, dict) else {}
