"""The parallel worker: several tool calls at once, each in a context of its own.

All jobs share one background thread and its loop; the caller awaits them from a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agent import Agent, AgentContext, AgentContextType, LoopData, UserMessage
from helpers import persist_chat

MAX_CALLS = 8
INHERITED_DATA = ("project", "_model")


@dataclass
class _Job:
    """One call and what came of it."""

    tool_name: str
    tool_args: dict[str, Any]
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    state: str = "running"
    result: str | None = None
    error: str | None = None
    future: Future[None] | None = None

    def snapshot(self) -> dict[str, Any]:
        """Return the job as plain values, with its result or its error once it has one."""
        known: dict[str, Any] = {
            "job_id": self.id,
            "tool_name": self.tool_name,
            "state": self.state,
        }
        if self.result is not None:
            known["result"] = self.result
        if self.error is not None:
            known["error"] = self.error
        return known


_jobs: dict[str, _Job] = {}


def normalize_parallel_tool_calls(calls: object) -> list[dict[str, Any]]:
    """Return the calls as `tool_name` and `tool_args`; anything else is a `ValueError`."""
    if not isinstance(calls, list) or not 1 <= len(calls) <= MAX_CALLS:
        raise ValueError(f"between 1 and {MAX_CALLS} tool calls are needed")
    return [_normalize(call) for call in calls]


def _normalize(call: dict[str, Any]) -> dict[str, Any]:
    name = call.get("tool_name", call.get("tool"))
    arguments = call.get("tool_args", call.get("args", {}))
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise ValueError("a tool call needs a tool_name and an object of tool_args")
    return {"tool_name": name, "tool_args": arguments}


async def start_parallel_jobs(agent: Agent, calls: list[dict[str, Any]]) -> list[_Job]:
    """Start a job for each call; gives them in order."""
    jobs = []
    for call in normalize_parallel_tool_calls(calls):
        job = _Job(call["tool_name"], call["tool_args"])
        _jobs[job.id] = job
        job.future = asyncio.run_coroutine_threadsafe(_run(job, agent), _loop())
        jobs.append(job)
    return jobs


async def await_parallel_jobs(
    agent: Agent, job_ids: list[str], timeout: float = 300
) -> list[dict[str, Any]]:
    """Return snapshots of the jobs, in order, once all have ended or the time (seconds) is over."""
    jobs = [_jobs[job_id] for job_id in job_ids]
    futures = [asyncio.wrap_future(job.future) for job in jobs if job.future]
    if futures:
        await asyncio.wait(futures, timeout=timeout)
    for job in jobs:
        if job.state != "running":
            _jobs.pop(job.id, None)
    return [job.snapshot() for job in jobs]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="parallel-tools", daemon=True).start()
    return loop


async def _run(job: _Job, parent: Agent) -> None:
    run = _run_subordinate if job.tool_name == "call_subordinate" else _run_direct
    try:
        job.result = await run(job, parent)
        job.state = "success"
    except Exception as error:
        job.error = str(error)
        job.state = "error"


async def _run_direct(job: _Job, parent: Agent) -> str:
    """Return a plain tool: its context, agent and log are thrown away afterwards."""
    context = _child_context(job, parent, AgentContextType.BACKGROUND, parent.config.profile)
    try:
        worker = context.agent0
        worker.loop_data = LoopData()
        tool = worker._resolve_tool(job.tool_name, None, job.tool_args, "")
        return (await worker._run_tool(tool, job.tool_name, job.tool_args)).message
    finally:
        AgentContext.remove(context.id)


async def _run_subordinate(job: _Job, parent: Agent) -> str:
    """Return an agent of its own: its context is a user's chat, which stays and is saved."""
    profile = job.tool_args.get("profile") or parent.config.profile
    context = _child_context(job, parent, AgentContextType.USER, profile)
    context.agent0.hist_add_user_message(UserMessage(job.tool_args.get("message", "")))
    try:
        return await context.agent0.monologue()
    finally:
        persist_chat.save_tmp_chat(context)


def _child_context(job: _Job, parent: Agent, type: AgentContextType, profile: str) -> AgentContext:
    config = parent.config.__class__(mcp_servers=parent.config.mcp_servers, profile=profile)
    context = AgentContext(config=config, name=job.tool_name, type=type)
    for key in INHERITED_DATA:
        if key in parent.context.data:
            context.set_data(key, parent.context.data[key])
    context.set_data("_parallel_parent_context_id", parent.context.id)
    context.set_data("_parallel_job_id", job.id)
    context.set_data(
        "_parallel_worker_kind", "subordinate" if type is AgentContextType.USER else "tool"
    )
    return context
