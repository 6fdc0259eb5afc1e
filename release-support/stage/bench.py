"""Measures what the gate costs; a benchmark, not a test.

All figures of one run come from one process and one machine; what counts are the ratios
beside them. Each is the median of many rounds; where two are given, the first is the quietest
tenth, which nobody else on the machine has slowed down. Parts of the same round that are
compared follow each other closely, so that noise falls on both.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).parents[1]))

from stage.boot import boot

MICRO = 1e6
ROUNDS = 300
MOST_AT_ONCE = 512
DECISIONS = 100_000


def show(what: str, value: str, target: str = "") -> None:
    print(f"  {what:<58}{value:>14}   {target}".rstrip(), flush=True)


def show_range(what: str, times: list[float], target: str) -> None:
    """Show the quietest tenth and the median of sorted times."""
    show(what, f"{micro(quietest(times))} - {micro(middle(times))}", target)


def micro(seconds: float) -> str:
    return f"{seconds * MICRO:,.1f} us"


def quietest(times: list[float]) -> float:
    return times[len(times) // 10]


def middle(times: list[float]) -> float:
    return times[len(times) // 2]


async def median(work: Callable[[], Awaitable[Any]], rounds: int = ROUNDS) -> float:
    """Return the median seconds of one await."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


class Clock:
    """Adds up the time spent in the framework's own calls, those within each other once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._depth += 1
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - began

        return call


def main() -> None:
    a0_root = os.environ.get("A0_ROOT")
    with tempfile.TemporaryDirectory(prefix="agent_guild_preflight-") as folder:
        name = boot(Path(folder), Path(a0_root) if a0_root else None)
        print(f"host: {name}, Python {sys.version.split()[0]}, {os.cpu_count()} cores")
        from stage.chats import Operator

        Bench(Operator(Path(folder))).run()
        os.chdir("/")


class Bench:
    """One run of all measurements."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator

    def run(self) -> None:
        from local_guild.answers import answer_body
        from local_guild.wire import Send, WireServer, answer

        from stage.tool_server import running

        def healthy(head: bytes) -> Any:
            target = unquote(head.split(b" ")[1].partition(b"url=")[2].decode())
            return [Send(answer(answer_body(target)))]

        with running() as port, running() as other, WireServer(healthy) as service:
            self.url = f"http://127.0.0.1:{port}/mcp"
            self.origin = service.origin
            with quiet():
                self.operator.set_mcp(
                    {
                        "tools": {"type": "streamable-http", "url": self.url},
                        "other": {
                            "type": "streamable-http",
                            "url": f"http://127.0.0.1:{other}/mcp",
                        },
                    }
                )
            self.configure()
            self.machine()
            for part in (
                *(self.local_tool, self.cached, self.pinned),
                *(self.fresh, self.concurrent, self.memory),
            ):
                part()
            self.machine()

    def configure(self, **settings: Any) -> None:
        self.operator.configure(
            {
                "protected_servers": {"tools": self.url},
                "allow_private_hosts": True,
                "fixture_guild_origin": self.origin,
                **settings,
            }
        )

    def machine(self) -> None:
        """Show how fast the machine is now: what the figures beside it are worth."""

        def spin() -> float:
            began = time.perf_counter()
            sum(number * number for number in range(2_000))
            return time.perf_counter() - began

        times = sorted(spin() for _ in range(3_000))
        value = f"{micro(times[0])} - {micro(times[len(times) // 2])}"
        show("the machine: a fixed loop, at best - in the middle", value)

    def chat(self, project: str | None = None) -> Any:
        from stage.chats import Chat

        with quiet():
            return Chat(project)

    # (a)
    def local_tool(self) -> None:
        from usr.plugins.agent_guild_preflight.helpers.gate import guard

        chat = self.chat()
        agent = chat.agent
        print("(a) a call that the gate leaves alone")
        agent.loop_data.current_tool = agent.get_tool(
            name="response", method=None, args={}, message="", loop_data=None
        )

        async def many() -> None:
            for _ in range(100):
                await guard(agent, "response")

        show("local tool, the gate alone", micro(asyncio.run(median(many)) / 100), "target: 5 us")
        self._unconfigured()
        with_it, without = self._dispatched(chat, "other.echo")
        self.dispatch = without
        show("unprotected MCP tool, dispatched without the plugin", f"{without * 1e3:.2f} ms")
        show("the same with it", f"{with_it * 1e3:.2f} ms", f"ratio {with_it / without:.3f}")

    def _unconfigured(self) -> None:
        """Measure the gate at an MCP call while the plugin is installed and nothing configured."""
        self.operator.config_path().unlink()
        with quiet():
            self.operator.set_project_mcp("bench", {})
        for where, project in (("without a project", None), ("in a project", "bench")):
            times = sorted(spent for spent, _ in self._calls(self.chat(project), ROUNDS))
            show_range(f"MCP tool, nothing configured, {where}", times, "target: 300 us")
        self.configure()

    def _dispatched(self, chat: Any, tool: str) -> tuple[float, float]:
        """Return the median seconds of whole dispatches, with the plugin and without it."""
        switch = self.operator.config_path().parent / ".toggle-0"
        times: dict[bool, list[float]] = {True: [], False: []}
        with quiet():
            for number in range(40):
                off = bool(number % 2)
                if off:
                    switch.touch()
                else:
                    switch.unlink(missing_ok=True)
                self.operator.forget_extensions()
                chat.legacy(tool, {"text": "warm"})
                for _ in range(5):
                    began = time.perf_counter()
                    chat.legacy(tool, {"text": "x"})
                    times[off].append(time.perf_counter() - began)
            switch.unlink(missing_ok=True)
            self.operator.forget_extensions()
        return statistics.median(times[False]), statistics.median(times[True])

    # (b)
    def cached(self) -> None:
        print("(b) a protected call with cached evidence")
        chat = self.chat()
        clocks = self._cost_of_clocks(chat)
        show("what the clocks below cost, taken off there", micro(clocks))
        self._cached("without a project", chat, clocks)
        project = self.chat("bench")
        self._cached("in a project", project, clocks)
        self._alone()
        with_it, without = self._dispatched(project, "tools.echo")
        show("in a project, dispatched without the plugin", f"{without * 1e3:.2f} ms")
        ratio = f"ratio {with_it / without:.3f}, target: 1.05"
        show("the same with it", f"{with_it * 1e3:.2f} ms", ratio)

    def _cached(self, where: str, chat: Any, clocks: float) -> None:
        whole = sorted(spent for spent, _ in self._calls(chat, ROUNDS))
        share = f"{middle(whole) / self.dispatch:.2%} of a dispatch, target: 5 %"
        show_range(f"{where}: the whole gate", whole, share)
        with self._clocks(chat) as clock:
            own = sorted(
                spent - theirs - clocks for spent, theirs in self._calls(chat, ROUNDS, clock)
            )
        show_range(f"{where}: all but the framework's own calls", own, "target: 60 us")

    def _calls(
        self, chat: Any, rounds: int, clock: Clock | None = None
    ) -> list[tuple[float, float]]:
        """Return the seconds that each of many calls took, and those that the clock counted."""
        from usr.plugins.agent_guild_preflight.helpers.gate import guard

        agent, clock = chat.agent, clock or Clock()
        times = []

        async def calls() -> None:
            for _ in range(rounds):
                # A new tool each time, as a dispatcher makes one.
                agent.loop_data.current_tool = mcp_tool(agent, "tools.echo")
                clock.seconds = 0.0
                began = time.perf_counter()
                await guard(agent, "tools.echo")
                times.append((time.perf_counter() - began, clock.seconds))

        with quiet():
            asyncio.run(calls())
        return times

    @contextlib.contextmanager
    def _clocks(self, chat: Any) -> Iterator[Clock]:
        """Time the framework's own calls within the gate, and the look-up that replaces one."""
        from helpers import plugins
        from usr.plugins.agent_guild_preflight.helpers import look_up

        clock = Clock()
        with (
            timed(clock, plugins, "get_plugin_config"),
            timed(clock, look_up, "servers_for"),
            timed(clock, chat.context.log, "log"),
        ):
            yield clock

    @contextlib.contextmanager
    def _from_memory(self, chat: Any) -> Iterator[None]:
        """Have the framework's own calls within the gate answered from memory."""
        from helpers import plugins
        from usr.plugins.agent_guild_preflight.helpers import look_up

        settings = plugins.get_plugin_config("agent_guild_preflight", agent=chat.agent)
        paths = plugins.get_enabled_plugin_paths(None)
        servers = look_up.servers_for(chat.agent)
        with (
            answered(plugins, "get_plugin_config", settings),
            answered(plugins, "get_enabled_plugin_paths", paths),
            answered(look_up, "servers_for", servers),
            answered(chat.context.log, "log", None),
        ):
            yield

    def _cost_of_clocks(self, chat: Any) -> float:
        """Return the seconds that clocks add to a call beside what they count."""
        with_them, without = [], []
        with self._from_memory(chat):
            for _ in range(20):
                without += [spent for spent, _ in self._calls(chat, 30)[5:]]
                with self._clocks(chat) as clock:
                    calls = self._calls(chat, 30, clock)[5:]
                with_them += [spent - theirs for spent, theirs in calls]
        return max(0.0, quietest(sorted(with_them)) - quietest(sorted(without)))

    def _alone(self) -> None:
        """Measure the gate while the framework's own calls are answered from memory.

        In place, they leave the processor's caches to themselves; here is what our own
        instructions take.
        """
        chat = self.chat()
        with self._from_memory(chat):
            times = sorted(spent for spent, _ in self._calls(chat, ROUNDS * 10))
        show_range("the same, these calls answered from memory", times, "target: 60 us")

    def pinned(self) -> None:
        from usr.plugins.agent_guild_preflight.helpers.binding import pins

        fields = {
            f"field_{number}": {"type": "string", "description": "What this field is for."}
            for number in range(12)
        }
        tool = {
            "name": "forecast",
            "description": "Gives the forecast of a place. " * 8,
            "input_schema": {"type": "object", "properties": fields, "required": [*fields]},
        }

        async def many() -> None:
            for _ in range(100):
                pins.digest(tool)

        size = len(pins.canonical(tool))
        spent = asyncio.run(median(many)) / 100
        show(f"the digest of a definition of {size:,} bytes", micro(spent), "target: 50 us")

    # (c)
    def fresh(self) -> None:
        import httpx
        from usr.plugins.agent_guild_preflight.helpers.guild_preflight import (
            endpoint,
            observe,
            request,
        )

        target = endpoint.screen(self.url, allow_private_hosts=True)
        tls = request.shared_tls_context()

        async def preflight() -> None:
            with observe.ask(
                target, origin=self.origin, timeout_seconds=5, max_age_seconds=0, is_kept=False
            ) as inquiry:
                await inquiry.observation(5)

        async def bare() -> None:
            async with httpx.AsyncClient(verify=tls, trust_env=False) as client:
                await client.get(f"{self.origin}/preflight", params={"url": self.url})

        async def both() -> tuple[float, float]:
            ours: list[float] = []
            theirs: list[float] = []
            for _ in range(ROUNDS):
                for work, times in ((preflight, ours), (bare, theirs)):
                    began = time.perf_counter()
                    await work()
                    times.append(time.perf_counter() - began)
            return statistics.median(ours), statistics.median(theirs)

        ours, theirs = asyncio.run(both())
        print("(c) a fresh preflight")
        show("one bare httpx GET to the same service", f"{theirs * 1e3:.2f} ms")
        show(
            "a fresh preflight", f"{ours * 1e3:.2f} ms", f"ratio {ours / theirs:.2f}, target: 1.25"
        )

    # (d)
    def concurrent(self) -> None:
        from usr.plugins.agent_guild_preflight.helpers.gate import guard

        print("(d) protected calls with cached evidence, at once on one loop")
        chats = [self.chat() for _ in range(MOST_AT_ONCE)]

        async def burst(count: int) -> float:
            for chat in chats:
                chat.agent.loop_data.current_tool = mcp_tool(chat.agent, "tools.echo")
            began = time.perf_counter()
            for first in range(0, MOST_AT_ONCE, count):
                batch = chats[first : first + count]
                await asyncio.gather(*(guard(chat.agent, "tools.echo") for chat in batch))
            return MOST_AT_ONCE / (time.perf_counter() - began)

        rates: dict[int, list[float]] = {1: [], 8: [], 64: [], MOST_AT_ONCE: []}
        with quiet():
            for _ in range(5):
                for count, measured in rates.items():
                    measured.append(asyncio.run(burst(count)))
        alone = statistics.median(rates[1])
        for count, measured in rates.items():
            rate = statistics.median(measured)
            show(f"{count} at once", f"{rate:,.0f} /s", f"ratio {rate / alone:.2f}")
        for chat in chats:
            chat.close()

    # (e)
    def memory(self) -> None:
        from usr.plugins.agent_guild_preflight.helpers.gate import guard

        print("(e) memory")
        chat = self.chat()
        chat.context.log.log = lambda **_: None  # the chat's log grows by itself
        ours = tracemalloc.Filter(True, "*agent_guild_preflight/helpers/*")

        async def decide(count: int) -> None:
            for _ in range(count):
                chat.agent.loop_data.current_tool = mcp_tool(chat.agent, "tools.echo")
                await guard(chat.agent, "tools.echo")

        def held() -> int:
            gc.collect()
            traces = tracemalloc.take_snapshot().filter_traces([ours]).traces
            return sum(trace.size for trace in traces)

        with quiet():
            tracemalloc.start()
            asyncio.run(decide(100))
            before = held()
            asyncio.run(decide(DECISIONS))
            grown = held() - before
            tracemalloc.stop()
        show(
            f"our memory after {DECISIONS:,} cached decisions",
            f"{grown / 1024:+,.0f} KiB",
            "target: 2 MiB",
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        show("peak of the whole process, host included", f"{peak:,.0f} MiB")


def mcp_tool(agent: Any, name: str) -> Any:
    """Make a tool as a dispatcher does, without looking it up."""
    from helpers.mcp_handler import MCPTool

    return MCPTool(agent=agent, name=name, method=None, args={}, message="", loop_data=None)


@contextlib.contextmanager
def timed(clock: Clock, owner: Any, name: str) -> Iterator[None]:
    """Add the time spent in one function of the framework to a clock."""
    original = getattr(owner, name)
    setattr(owner, name, clock.timed(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def answered(owner: Any, name: str, answer: Any) -> Iterator[None]:
    """Have one function of the framework answered from memory."""
    original = getattr(owner, name)
    setattr(owner, name, lambda *_, **__: answer)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the framework's own printing out of the figures."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


if __name__ == "__main__":
    main()
