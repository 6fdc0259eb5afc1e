"""Load one class from a Python file that belongs to no package."""

from __future__ import annotations

import importlib.util
import inspect
import os


def load_last_subclass(path: str, base: type) -> type | None:
    """Return the last subclass of `base` that the file's namespace holds.

    A file that fails to import raises.     The module is not put in `sys.modules`: two files of one
    name in different folders must not meet.
    """
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value is not base
    ]
    return classes[-1] if classes else None
