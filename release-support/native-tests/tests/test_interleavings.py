"""Calls, edits, cancels and reloads in every order: the explorer, and what it finds.

The explorer runs in a process of its own, because it rewrites the host and the gate as they are
loaded. What it is made of is tried here on toys, whose orders can be counted by hand.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stage.boot import CHECKOUT, PLUGIN, SUPPORT
from stage.interleaving import awaits, holes, schedules
from stage.interleaving.ledger import Answer, Delivery, Ledger, Read
from stage.interleaving.oracle import PUBLIC_SERVICE, Ended, broken
from stage.interleaving.scheduler import Edit, Loop, Scheduler, Stuck

HELPERS = CHECKOUT / "helpers"
IS_FRAMEWORK = "A0_ROOT" in os.environ
SECONDS = 500
AT_LEAST = 1_000 if IS_FRAMEWORK else 5_000  # a call takes the framework five times as long


def interleave(*arguments):
    """Run the command; give its exit code and what it printed."""
    command = [sys.executable, str(SUPPORT / "stage" / "interleave.py"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


def scenes_in(printed):
    """Return the scenes of which an order is printed."""
    return re.findall("^scene: (.*)$", printed, re.MULTILINE)


# What holds


def test_every_order_that_is_tried_holds():
    """The short form; the long one is a command."""
    code, printed = interleave("--short", *(["--walks", "20"] if IS_FRAMEWORK else []))
    assert scenes_in(printed) == [], printed
    assert code == 0
    (count,) = re.findall("^([0-9,]+) distinct schedules", printed, re.MULTILINE)
    assert int(count.replace(",", "")) >= AT_LEAST


def test_a_reload_that_really_imports():
    """Elsewhere a copy that was imported once is handed out; here each reload imports anew."""
    scenes = ["--scene", "reload", "--scene", "three calls"]
    code, printed = interleave("--short", "--walks", "20", "--import-anew", *scenes)
    assert (code, scenes_in(printed)) == (0, [])


# What is found


@pytest.mark.parametrize("name", holes.HOLES)
def test_an_open_hole_is_found(name, tmp_path):
    """In every scene that is there for it, and the order can be replayed."""
    scenes = holes.HOLES[name].scenes
    chosen = itertools.chain.from_iterable(("--scene", scene) for scene in scenes)
    code, printed = interleave("--short", "--open", name, *chosen)
    assert (code, scenes_in(printed)) == (1, list(scenes))
    file = tmp_path / "printed"
    file.write_text(printed)
    code, replayed = interleave("--open", name, "--replay", str(file))
    host, *rest = replayed.splitlines()
    assert (code, host) == (1, printed.splitlines()[0])
    assert "\n".join(rest) in printed


def test_an_order_that_cannot_be_is_told(tmp_path):
    """A replay that goes another way proves nothing."""
    _, printed = interleave("--expected", "--scene", "two calls")
    file = tmp_path / "printed"
    file.write_text(printed.replace("A: the MCP session opens\n", ""))
    command = [sys.executable, str(SUPPORT / "stage" / "interleave.py"), "--replay", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 2
    assert re.fullmatch("step [0-9]+ cannot be taken: A: the MCP server answers\n", ended.stderr)


def test_the_same_seed_gives_the_same_orders():
    """In another process too, and with another seed others; each is counted once."""
    bounds = ["--depth", "0", "--departures", "0", "--walks", "40"]
    scene = ["--scene", "alias twice", *bounds, "--seed"]
    printed = [interleave(*scene, seed)[1].splitlines()[-1] for seed in ("1", "1", "2")]
    assert all(line.startswith("41 distinct schedules") for line in printed)
    first, again, other = (re.findall("fingerprint ([0-9a-f]{12})", line) for line in printed)
    assert first == again != other


def awaiting(room):
    """Return the functions of a room that await something, each as it stands in a step."""
    tree = ast.parse((HELPERS / f"{room}.py").read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    return {
        f"{Path(room).name}.{function.name}"
        for function in functions
        if any(isinstance(node, ast.Await) for node in ast.walk(function))
    }


def test_no_room_of_the_gate_that_awaits_is_left_out():
    """The commands and the session are no part of a call's way through the gate."""
    rooms = {path.relative_to(HELPERS).with_suffix("").as_posix() for path in HELPERS.rglob("*.py")}
    known = {room for room in rooms if f"{PLUGIN}/helpers/{room}.py" in awaits.FILES}
    others = {room for room in rooms - known if not room.startswith(("commands/", "session/"))}
    assert {room for room in others if awaiting(room)} == set()
    assert {"gate", "evaluation", "guild_preflight/single_flight"} <= known


def test_steps_end_at_every_await_of_dispatcher_and_gate():
    """In the expected order, each function that awaits has its steps."""
    _, printed = interleave("--expected", "--scene", "two calls")
    steps = {
        step.partition(": ")[2].partition(":")[0]
        for step in printed.splitlines()
        if step.startswith("  ")
    }
    dispatchers = ["process_llm_result_tools", "_execute_tool_request", "process_tools"]
    rooms = ["gate", "evaluation", "guild_preflight/observe", "guild_preflight/single_flight"]
    assert steps >= set.union(*(awaiting(room) for room in rooms)) | {
        *(f"agent.{function}" for function in dispatchers),
        *("extension.call_extensions_async", "_45_agent_guild_preflight.execute"),
        *("mcp_handler.call_tool", "the service is asked", "the service has answered"),
        *("the MCP session opens", "the MCP server answers"),
    }


# Which schedules there are


def race(*lengths):
    """Return a game of actors with so many steps each, and the orders that were played."""
    orders = []

    def play(choose):
        left, last, order = list(lengths), None, []
        while options := [actor for actor, steps in enumerate(left) if steps]:
            if last in options:
                options = [last, *(actor for actor in options if actor != last)]
            last = options[choose(len(options))] if len(options) > 1 else options[0]
            left[last] -= 1
            order.append(last)
        orders.append("".join(map(str, order)))

    return play, orders


@pytest.mark.parametrize("lengths", [(1, 1), (3, 2), (4, 4), (2, 2, 2), (3, 1, 2)])
def test_without_bounds_every_order_is_played_once(lengths):
    """As many as there are ways to interleave."""
    play, orders = race(*lengths)
    taken = list(schedules.exhaustive(play, 0, sum(lengths)))
    expected = math.factorial(sum(lengths)) // math.prod(map(math.factorial, lengths))
    assert len(taken) == len(set(taken)) == len(orders) == len(set(orders)) == expected


@pytest.mark.parametrize("departures", range(4))
def test_departures_are_bounded(departures):
    """Of all orders those with so few choices that are not the expected one, and no other."""
    play, _ = race(4, 3, 2)
    everything = set(schedules.exhaustive(play, 0, 9))
    few = list(schedules.exhaustive(play, 0, departures))
    assert len(few) == len(set(few))
    wanted = {taken for taken in everything if sum(map(bool, taken)) <= departures}
    assert set(few) == wanted
    assert len(wanted) < len(everything)


@pytest.mark.parametrize("departures", [0, 1])
@pytest.mark.parametrize("depth", range(5))
def test_choices_before_the_depth_are_free(depth, departures):
    """Each option of the first ones is taken, with few departures later."""
    play, _ = race(4, 3, 2)
    everything = set(schedules.exhaustive(play, 0, 9))
    some = set(schedules.exhaustive(play, depth, departures))
    assert some == {taken for taken in everything if sum(map(bool, taken[depth:])) <= departures}


def test_options_that_change_from_one_time_to_the_next_are_told():
    """Whoever counts such schedules counts nothing."""
    numbers = itertools.count(2)
    with pytest.raises(schedules.UndeterminedError):
        list(schedules.exhaustive(lambda choose: [choose(next(numbers)) for _ in "ab"], 0, 1))


def test_walks():
    """Equal seeds give equal walks, which can be played again; others go elsewhere."""
    play, orders = race(5, 5, 5)
    taken = [schedules.walk(play, seed) for seed in ("one", "one", *map(str, range(50)))]
    assert orders[0] == orders[1]
    assert len(set(orders)) > 25
    schedules.again(play, taken[7])
    assert orders[-1] == orders[7]


# The scheduler


def played(scheduler, loop, *actors):
    """Begin tasks and play them with the expected choices; give the steps."""
    with loop.entered():
        tasks = [scheduler.begin(name, work) for name, work in actors]
        try:
            scheduler.play()
        finally:
            scheduler.end()
    return tasks, scheduler.steps


def test_a_task_that_nobody_wakes_is_told():
    """A lock that is never released would be one."""
    loop = Loop()

    async def waits():
        await loop.create_future()

    with pytest.raises(Stuck, match="A"):
        played(Scheduler(loop, lambda _: 0), loop, ("A", waits))
    loop.close()


def test_within_a_step_only_those_outside_may_act():
    """And at a long moment everybody."""
    loop, done = Loop(), []
    scheduler = Scheduler(loop, lambda options: options - 1)

    def script(name):
        yield "acts"
        done.append(name)

    async def looks():
        scheduler.moment("reads")
        done.append("A has read")
        scheduler.moment("connects", is_long=True)
        done.append("A has connected")

    scheduler.add(Edit("outside", script("outside"), is_outside=True))
    scheduler.add(Edit("inside", script("inside")))
    with loop.entered():
        task = scheduler.begin("A", looks)
        task.take_step()
        scheduler.play()
    loop.close()
    assert done == ["outside", "A has read", "inside", "A has connected"]
    assert scheduler.steps == [
        "outside: acts, as A reads (1)",
        "inside: acts, as A connects (2)",
    ]


def test_a_task_can_go_on_within_a_long_moment_of_another():
    """As in the framework, where one connects and others run."""
    loop, done = Loop(), []
    scheduler = Scheduler(loop, lambda options: options - 1)

    async def connects():
        scheduler.moment("connects", is_long=True)
        done.append("A")

    async def other():
        done.append("B")
        await asyncio.sleep(0)
        done.append("B again")

    with loop.entered():
        first = scheduler.begin("A", connects)
        scheduler.begin("B", other)
        first.take_step()
        scheduler.play()
    loop.close()
    assert done == ["B", "B again", "A"]


# The oracle

NOTES, ROGUE = "https://notes.example.com/mcp", "https://rogue.example.net/mcp"
SERVICE = "http://127.0.0.1:7001"


def settings(**changed):
    return {"protected_servers": {"notes": NOTES}, "fixture_guild_origin": SERVICE, **changed}


def happened(
    *,
    said=None,
    url=NOTES,
    kept=("allowed",),
    read=None,
    everywhere=None,
    before=0,
    answers=None,
    seen=1,
    shown="",
):
    """Return what happened to a call A of `notes`; nothing is wrong with it unless it is said.

    `before` and `seen` count the answers that had come when it read the settings, and when its
    bytes went.
    """
    raw = settings() if read is None else read
    found = [Answer(SERVICE, NOTES, said or {})] if answers is None else answers
    return Ledger(
        read={
            "A": {"selected": Read(raw, before), "everywhere": Read(everywhere or raw, before)},
        },
        answers=found,
        deliveries=[Delivery("A", "notes", url, seen)] if url else [],
        shown={"A": shown},
        kept={"A": {str(number): {"decision": word} for number, word in enumerate(kept)}},
    )


def ended(how="answered", *, server="notes", decided=True, local=False, free=False):
    return {"A": Ended(how, server, decided, local, free)}


CARD = {"policy": {"required_proven": ["agent_card_resolves"]}}
HOLDS = {
    "an allowed call": (happened(), ended()),
    "a refused call": (happened(url="", kept=["refused"]), ended("refused")),
    "a call withheld": (happened(kept=["refused"]), ended("refused")),
    "an answer that is shown": (happened(shown=f"answer of {NOTES}"), ended()),
    "approved under another name": (happened(kept=()), ended(server="memos")),
    "cancelled before": (happened(url="", kept=()), ended("cancelled", decided=False)),
    "cancelled after": (happened(url=""), ended("cancelled")),
    "not protected": (
        happened(read=settings(protected_servers={}), url=ROGUE, kept=()),
        ended(),
    ),
    "more is proven": (
        happened(read=settings(**CARD), said={"agent_card_resolves": "proven"}),
        ended(),
    ),
    "a local tool in its place": (happened(url="", kept=()), ended(local=True)),
    "an edit between the two reads": (
        happened(
            everywhere=settings(fixture_guild_origin=None),
            answers=[Answer(PUBLIC_SERVICE, NOTES, {})],
        ),
        ended(),
    ),
}
BROKEN = {
    "another server": (happened(url=ROGUE), ended(), "approved is another"),
    "the wrong one by the floor": (
        happened(everywhere=settings(floor=True, protected_servers={"notes": ROGUE})),
        ended(),
        "approved is another",
    ),
    "too little for the floor": (
        happened(everywhere=settings(floor=True, **CARD)),
        ended(),
        "without the evidence",
    ),
    "no answer": (happened(answers=[]), ended(), "without the evidence"),
    "an answer that came too late": (
        happened(seen=0),
        ended(),
        "without the evidence",
    ),
    "of another URL": (
        happened(answers=[Answer(SERVICE, ROGUE, {})]),
        ended(),
        "without the evidence",
    ),
    "of another service": (
        happened(answers=[Answer(PUBLIC_SERVICE, NOTES, {})]),
        ended(),
        "without the evidence",
    ),
    "a failed check": (
        happened(said={"protocol_handshake": "failed"}),
        ended(),
        "without the evidence",
    ),
    "a check that is not asked for failed": (
        happened(said={"agent_card_resolves": "failed"}),
        ended(),
        "without the evidence",
    ),
    "an unknown check that is asked for": (
        happened(read=settings(**CARD)),
        ended(),
        "without the evidence",
    ),
    "old evidence where none is kept": (
        happened(read=settings(cache_ttl_seconds=0), before=1),
        ended(),
        "without the evidence",
    ),
    "unreadable settings": (
        happened(read="unreadable", kept=()),
        ended(),
        "under unreadable settings",
    ),
    "never judged": (
        Ledger(deliveries=[Delivery("A", "notes", NOTES, 0)]),
        ended(),
        "never judged",
    ),
    "no record": (happened(kept=()), ended(), "its records say"),
    "two records": (happened(kept=("allowed", "allowed")), ended(), "its records say"),
    "a refusal without a record": (
        happened(url="", kept=()),
        ended("refused"),
        "its records say",
    ),
    "a record of the wrong kind": (happened(kept=["refused"]), ended(), "its records say"),
    "a record of a cancelled call": (
        happened(url=""),
        ended("cancelled", decided=False),
        "its records say",
    ),
    "no record of a call that was decided": (
        happened(url="", kept=()),
        ended("cancelled"),
        "its records say",
    ),
    "a record of a call that is not protected": (
        happened(read=settings(protected_servers={})),
        ended(),
        "its records say",
    ),
    "withheld, and shown": (
        happened(kept=["refused"], shown=f"answer of {NOTES}"),
        ended("refused"),
        "shown the server's answer",
    ),
    "refused for nothing": (
        happened(url="", kept=["refused"]),
        ended("refused", server="", free=True),
        "no protected server",
    ),
    "another exception": (happened(url="", kept=()), ended("KeyError", server=""), "KeyError"),
}


@pytest.mark.parametrize("case", HOLDS.values(), ids=HOLDS)
def test_the_oracle_is_content(case):
    assert list(broken(*case)) == []


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_the_oracle_objects(case):
    """In one line, which says what is wrong."""
    ledger, how, said = case
    (line,) = broken(ledger, how)
    assert line.startswith("A: ")
    assert said in line
