"""Where the host keeps its state: one folder, chosen by the environment."""

from __future__ import annotations

import json
import os
from typing import Any

ROOT_VARIABLE = "REFERENCE_HOST_ROOT"


def get_root() -> str:
    """Return the state root.

    Read on every call, so that each test can have a root of its own.
    """
    root = os.environ.get(ROOT_VARIABLE)
    if not root:
        raise RuntimeError(f"{ROOT_VARIABLE} must name the folder that holds usr/")
    return os.path.abspath(root)


def get_abs_path(*parts: str) -> str:
    """Join `parts` below the state root; an absolute path is returned as it is."""
    return os.path.join(get_root(), *parts)


def read_json(path: str, default: Any = None) -> Any:
    """Return the parsed file, or `default` when there is none.

    Malformed JSON raises.
    """
    if not os.path.isfile(path):
        return default
    with open(path, encoding="utf-8") as file:
        return json.load(file)
