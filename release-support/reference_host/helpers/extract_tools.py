"""Find the tool request in a model's text."""

from __future__ import annotations

import json
from typing import Any


def parse_tool_request(text: str) -> tuple[str, dict[str, Any]] | None:
    """Return the tool's name and arguments, or `None` when the whole text is not exactly one request."""
    try:
        request = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    name = request.get("tool_name", request.get("tool"))
    arguments = request.get("tool_args", request.get("args"))
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return name, arguments
