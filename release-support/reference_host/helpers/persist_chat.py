"""Chats on disk: what of an agent survives a restart, and what goes when a chat is deleted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from agent import Agent, AgentConfig, AgentContext, AgentContextType
from helpers import files
from helpers.log import LogItem


def delete_stored_response_ids(ids: list[str]) -> None:
    """Would delete responses that a model's provider keeps.

    There is no provider here; tests replace it.
    """


def save_tmp_chat(context: AgentContext) -> None:
    """Write the chat's file.

    Background contexts leave none.
    """
    if context.type is AgentContextType.BACKGROUND:
        return
    chat = {
        "id": context.id,
        "name": context.name,
        "type": context.type.value,
        "profile": context.config.profile,
        "mcp_servers": context.config.mcp_servers,
        "data": _public(context.data),
        "agents": [
            {"number": agent.number, "data": _public(agent.data), "history": agent.history.output()}
            for agent in _chain(context.agent0)
        ],
        "log": context.log.output(),
    }
    text = json.dumps(chat, ensure_ascii=False, indent=1, default=lambda value: None)
    os.makedirs(_folder(context.id), exist_ok=True)
    with open(_chat_file(context.id), "wb") as file:
        file.write(text.encode("utf-8", "replace"))  # a lone surrogate becomes "?"


def load_tmp_chats() -> list[str]:
    """Restore every saved chat; gives their ids."""
    folder = files.get_abs_path("usr", "chats")
    ids = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    chats = [files.read_json(_chat_file(id)) for id in ids]
    return [_restore(chat).id for chat in chats if chat]


def remove_chat(id: str) -> None:
    """Delete the chat's folder, and what its stored strings say a provider keeps for it."""
    found = sorted(set(_response_ids(files.read_json(_chat_file(id)))))
    if found:
        delete_stored_response_ids(found)
    shutil.rmtree(_folder(id), ignore_errors=True)


def _folder(id: str) -> str:
    return files.get_abs_path("usr", "chats", id)


def _chat_file(id: str) -> str:
    return os.path.join(_folder(id), "chat.json")


def _public(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if not key.startswith("_")}


def _chain(agent: Agent | None) -> Iterator[Agent]:
    """Return the agent and its subordinates, from the top."""
    while agent:
        yield agent
        agent = agent.get_data(Agent.DATA_NAME_SUBORDINATE)


def _restore(chat: dict[str, Any]) -> AgentContext:
    config = AgentConfig(mcp_servers=chat["mcp_servers"], profile=chat["profile"])
    context = AgentContext(
        config=config, id=chat["id"], name=chat["name"], type=AgentContextType(chat["type"])
    )
    context.data = chat["data"]
    context.log.logs = [LogItem(**item) for item in chat["log"]]
    superior: Agent | None = None
    for stored in chat["agents"]:
        agent = Agent(stored["number"], config, context) if superior else context.agent0
        agent.data = stored["data"]
        for message in stored["history"]:
            agent.hist_add_message(message["ai"], message["content"])
        if superior:
            superior.set_data(Agent.DATA_NAME_SUBORDINATE, agent)
            agent.set_data(Agent.DATA_NAME_SUPERIOR, superior)
        superior = agent
    return context


def _response_ids(value: Any) -> Iterator[str]:
    """Return ids anywhere in the value.

    A string that mentions one is parsed, so untrusted text may name ids too.
    """
    if isinstance(value, str) and '"response_id"' in value:
        try:
            yield from _response_ids(json.loads(value))
        except (ValueError, RecursionError):
            return
    elif isinstance(value, list):
        for item in value:
            yield from _response_ids(item)
    elif isinstance(value, dict):
        yield from _named_ids(value)
        for item in value.values():
            yield from _response_ids(item)


def _named_ids(value: dict[str, Any]) -> Iterable[str]:
    """Return the ids at the two places where one is kept."""
    state = _object(value.get("responses_state"))
    responses = _object(_object(value.get("metadata")).get("responses"))
    many = state.get("response_ids")
    ids = [
        state.get("response_id"),
        responses.get("response_id"),
        *(many if isinstance(many, list) else []),
    ]
    return [id for id in ids if isinstance(id, str) and id]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
