"""Keep what was decided, and on what: the record on the agent, the line in the chat log.

Rules of this module:

1. One record per decision, made once, with an id of its own. Only a later refusal of the
   same call replaces it. The last 20 stay, of at most 2 KiB each. A parallel child is
   thrown away with its chat, so its decisions are kept with the parent chat as well.
2. `last_observation` is what the latest decision rested on. When nothing was obtained it
   says why; an older observation never stays there.
3. Plain JSON values only: the framework saves them with the chat.
4. Remote text is kept as evidence only in the form that `untrusted` gives it.
5. The chat log gets fixed fields only, and no remote text.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from .guild_preflight.observation import Observation, written
from .judgement import Judgement
from .message import cause
from .settings.in_force import Source
from .settings.problems import InvalidConfiguration
from .untrusted import untrusted

DECISIONS_KEY: Final = "agent_guild_preflight.decisions"
LAST_OBSERVATION_KEY: Final = "agent_guild_preflight.last_observation"
MAX_RECORDS: Final = 20
MAX_RECORD_BYTES: Final = 2048  # as JSON in UTF-8; follows from the bounds of its fields
MAX_TOOL_CHARACTERS: Final = 200
MAX_PROBLEMS: Final = 20  # of one file, in one log entry
_NOTHING_OBSERVED: Final = dict.fromkeys(
    (
        "verdict",
        "failed",
        "unknowns",
        "scored",
        "checks",
        "other_checks",
        "other_failed",
        "method",
        "limits",
        "requested_at",
        "observed_at",
    )
)

_PROCESS: Final = secrets.token_hex(8)
_numbers = itertools.count()

_lock = threading.Lock()


def keep(agent: Any, judgement: Judgement, record_id: str, *, replace: bool = False) -> None:
    """Keep a decision on the agent.

    Args:
        agent: the calling agent, or the main agent of the chat that it works for.
        judgement: what was decided.
        record_id: the call's own.
        replace: the call may have a record already; it is taken out.
    """
    with _lock:  # parallel children of one chat decide in threads of their own
        kept = agent.get_data(DECISIONS_KEY)
        # What a loaded chat holds under our key is not always ours.
        others = [item for item in kept if isinstance(item, dict)] if isinstance(kept, list) else []
        if replace:
            others = [item for item in others if item.get("id") != record_id]
        found = _last_observation(judgement)
        # New lists each time: another thread may be writing the old one to disk.
        records = others[1 - MAX_RECORDS :]
        records.append(_record(judgement, record_id, found))
        agent.set_data(DECISIONS_KEY, records)
        agent.set_data(LAST_OBSERVATION_KEY, found)


def write_log(agent: Any, judgement: Judgement) -> None:
    """Write the decision into the chat log.

    Args:
        agent: the calling agent.
        judgement: what was decided.
    """
    observation, decision = judgement.observation, judgement.decision
    fields = {
        "decision": decision,
        "reason": cause(judgement) or "none",
        "server": judgement.server or "unknown",
        "tool": untrusted(judgement.tool, MAX_TOOL_CHARACTERS),
        "endpoint": judgement.endpoint or "not shown",
        "verdict": observation.plain["verdict"] if observation else "none",
        "evidence": _evidence_word(observation),
        "tolerated": ", ".join(judgement.tolerated) or "nothing",
        "next_step": judgement.next_step or "none",
    }
    if judgement.reason is not None and judgement.source is Source.FLOOR:
        fields["refused_by"] = judgement.source.value
    if judgement.unforeseen:
        fields["unforeseen"] = str(judgement.unforeseen)
    agent.context.log.log(
        type="info" if judgement.reason is None else "warning",
        heading=f"Agent Guild preflight: {decision}",
        kvps=fields,
        update_progress="none",
    )


def write_configuration_log(agent: Any, invalid: InvalidConfiguration, source: Source) -> None:
    """Write what is wrong with the settings into the chat log, for the operator.

    Args:
        agent: the calling agent.
        invalid: what is wrong with them.
        source: which file it is wrong with.
    """
    where = "global config.json, " if source is Source.FLOOR else ""
    shown, left = invalid.problems[:MAX_PROBLEMS], len(invalid.problems) - MAX_PROBLEMS
    lines = [f"{where}{path or 'the file'}: {problem}" for path, problem in shown]
    if left > 0:
        lines.append(f"{where}and {left} more, which lint shows")
    if invalid.protected_servers is None:
        lines.append(
            f"{where}protected_servers: is missing or unreadable, so every MCP tool is refused; after "
            "removing the plugin, restart Agent Zero"
        )
    agent.context.log.log(
        type="warning",
        heading="Agent Guild preflight: the settings are not valid",
        content="\n".join(lines),
        update_progress="none",
    )


def new_id() -> str:
    """Return the id of a call's record: a random prefix of this process, then a running number."""
    return f"{_PROCESS}{next(_numbers):016x}"


def _evidence_word(observation: Observation | None) -> str:
    if observation is None:
        return "none"
    return f"cached, age {int(observation.age_seconds)} s" if observation.cached else "fresh"


@lru_cache(maxsize=1)
def _written(seconds: int) -> str:
    """Return a time since the epoch as the records show it; many decisions share a second."""
    return written(datetime.fromtimestamp(seconds, UTC))


def _record(judgement: Judgement, record_id: str, found: Mapping[str, Any]) -> dict[str, Any]:
    reason = judgement.reason
    record = {
        "id": record_id,
        "at": _written(int(time.time())),
        "decision": judgement.decision,
        "reason": reason and reason.value,
        "sub_reason": judgement.sub_reason and judgement.sub_reason.value,
        "next_step": judgement.next_step if reason else None,
        "refused_by": judgement.source.value if reason and judgement.source else None,
        "server": judgement.server,
        "tool": untrusted(judgement.tool, MAX_TOOL_CHARACTERS),
        "endpoint": judgement.endpoint,
        "verdict": found["verdict"],
        "observed_at": found["observed_at"],
        "cached": found["cached"] is True,
        "age_seconds": found["age_seconds"],
        "tolerated": list(judgement.tolerated),
    }
    if judgement.unforeseen is not None:
        record["unforeseen"] = str(judgement.unforeseen)
    return record


def _last_observation(judgement: Judgement) -> dict[str, Any]:
    observation = judgement.observation
    return {
        **(observation.plain if observation else _NOTHING_OBSERVED),
        "cached": observation.cached if observation else None,
        "age_seconds": round(observation.age_seconds, 3) if observation else None,
        "guild_origin": judgement.guild_origin,
        "error": judgement.error and judgement.error.value,
    }
