"""Which settings protect a server, and what is said when they are not valid.

The commands `check` and `pin` find what protects a server here, in the order and by the rules of
the gate. A layer of which nobody can tell what it protects comes first, then one that protects
the server and is not valid, then the protections.

The module imports nothing of the framework. `evaluation` is imported where it is used: it
brings the HTTP library, and other commands start without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...binding.approval import Approval
from ...binding.comparison import classify
from ...binding.view import View
from ...reasons import Reason
from ...settings.in_force import Layer
from ...settings.locations import Locations
from ...settings.problems import InvalidConfiguration, Problem
from .output import Exit, Output

if TYPE_CHECKING:
    from ...evaluation import Protection


def protections_for(layers: Sequence[Layer], view: View) -> list[Protection] | Layer:
    """Return every layer that protects a server.

    Args:
        layers: the settings in force.
        view: what there is under the server's name.

    Returns:
        The protections, none where nothing protects the server; or a layer whose settings are not
        valid, where that decides or may be why nothing does.
    """
    from ...evaluation import Unusable, protections_of

    def match(protected: Mapping[str, Approval]) -> tuple[Approval, View] | None:
        approval = classify(view, protected)
        return None if approval is None else (approval, view)

    protections = protections_of(layers, match)
    if isinstance(protections, Unusable):
        return protections.layer
    invalid = [each for each in layers if isinstance(each.settings, InvalidConfiguration)]
    return invalid[0] if invalid and not protections else protections


def protected_names(layers: Sequence[Layer]) -> list[str]:
    """Return every protected name, in the order of the layers, each once."""
    return list(dict.fromkeys(name for layer in layers for name in layer.protected or ()))


def permitted_headers(layers: Sequence[Layer]) -> dict[str, list[str]]:
    """Return the headers that a server may get, folded, by its protected name.

    Args:
        layers: the settings in force.

    Returns:
        Those that every layer permits; servers that may get any are left out.
    """
    found: dict[str, frozenset[str]] = {}
    for layer in layers:
        for name, approval in (layer.protected or {}).items():
            if approval.headers is not None:
                found[name] = found.get(name, approval.headers) & approval.headers
    return {name: sorted(headers) for name, headers in found.items()}


def not_valid(locations: Locations, layer: Layer) -> Output:
    """Say what is wrong with the settings.

    Args:
        locations: where the settings are.
        layer: the layer whose settings are not valid.

    Returns:
        The output, a configuration problem.
    """
    assert isinstance(layer.settings, InvalidConfiguration)
    reason, file = (
        Reason.INVALID_CONFIGURATION,
        locations.shown(locations.file_of(layer.source).path),
    )
    problems = layer.settings.problems
    lines = [f"{reason.value}: {reason.sentence}", f"{file}:"]
    lines += [f"  {path or 'the file'}: {problem.value}" for path, problem in problems]
    if layer.protected is None:
        lines.append("Which servers are protected cannot be told, so every MCP tool is refused.")
    lines.append(f"What to do: {reason.remedy}")
    if any(problem is Problem.NOT_A_DIGEST for _, problem in problems):
        lines.append('For new digests, write "tools": {} first, which refuses every tool; run pin.')
    data: dict[str, Any] = {
        "reason": reason.value,
        "source": layer.source.value,
        "file": file,
        "problems": [{"path": path, "problem": problem.value} for path, problem in problems],
    }
    return Output(Exit.CONFIGURATION, lines, data)


def not_read(locations: Locations, files: Sequence[Any]) -> Output:
    """Say that the MCP settings cannot be read.

    Args:
        locations: where they are.
        files: the files that a strict parser cannot read.

    Returns:
        The output, a configuration problem.
    """
    shown = [locations.shown(file) for file in files]
    lines = [f"{file}: the MCP servers in it cannot be read as plain JSON" for file in shown]
    lines.append("Agent Zero may still read them, but what it makes of them cannot be told here.")
    return Output(Exit.CONFIGURATION, lines, {"error": "mcp_settings_unreadable", "files": shown})
