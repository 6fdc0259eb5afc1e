"""The folders that an operator's files may stand in, from the most specific to the least."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from helpers import files, projects

if TYPE_CHECKING:
    from agent import Agent


def of_agent(agent: Agent | None) -> tuple[str, str]:
    """Return the project and the profile an agent works in, each "" when there is none."""
    if agent is None:
        return "", ""
    return projects.get_context_project_name(agent.context) or "", agent.config.profile or ""


def folders(project: str, profile: str, *below: str) -> list[str]:
    """Project + profile, project, profile, user: each with `below` joined to it."""
    bases = []
    if project and profile:
        bases.append(projects.get_project_meta(project, "agents", profile))
    if project:
        bases.append(projects.get_project_meta(project))
    if profile:
        bases.append(files.get_abs_path("usr", "agents", profile))
    bases.append(files.get_abs_path("usr"))
    return [os.path.join(base, *below) for base in bases]
