"""Plays calls, edits, cancels and reloads in every order, and looks at what must hold of each.

A scene has a few calls on one agent and others who act meanwhile. At every await of dispatcher and
gate, and wherever a file is read, whoever can act may be next: first every order with few
departures from the expected one, then random ones. The host and the gate are real; the network is
not there. Of each scene the first order in which something does not hold is printed, and can be
replayed; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from stage.boot import boot
from stage.interleaving import awaits, holes
from stage.interleaving.network import Network
from stage.interleaving.scheduler import Loop

if TYPE_CHECKING:
    from stage.interleaving.explorer import Violation
    from stage.interleaving.world import World

# Of each scene: at how many choices from the start every option is taken, and how many walks.
DEPTH = {"short": 3, "long": 5}
WALKS = {"short": 200, "long": 1_000}


def main() -> int:
    arguments = read_arguments()
    with tempfile.TemporaryDirectory(
        prefix="agent_guild_preflight-", ignore_cleanup_errors=True
    ) as folder:
        world = set_up(Path(folder), arguments.open)
        from stage.interleaving.scenes import SCENES

        if unknown := set(arguments.scene or ()) - set(SCENES):
            print(f"no such scene: {', '.join(sorted(unknown))}", file=sys.stderr)
            print(f"there are: {', '.join(SCENES)}", file=sys.stderr)
            return 2
        world.generations.really = arguments.import_anew
        if arguments.replay:
            return replay(world, arguments.replay)
        if arguments.expected:
            return expected(world, arguments.scene)
        return explore(world, arguments)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: ./release-support/interleave --short --scene project --open swap",
    )
    parser.add_argument("--short", action="store_true", help="a tenth of it; the suite runs this")
    parser.add_argument(
        "--scene", action="append", metavar="NAME", help="only this one; repeatable"
    )
    parser.add_argument(
        "--departures", type=int, help="every order with at most so many; else each scene's own"
    )
    parser.add_argument(
        "--depth", type=int, help="every order in which only so many choices from the start differ"
    )
    parser.add_argument("--walks", type=int, help="how many random orders of each scene")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds give equal random orders")
    parser.add_argument(
        "--open",
        action="append",
        default=[],
        choices=sorted(holes.HOLES),
        help="open a closed hole, to see it found; repeatable",
    )
    parser.add_argument(
        "--import-anew", action="store_true", help="import after each reload; slower"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="play the order that FILE holds"
    )
    parser.add_argument("--expected", action="store_true", help="print the expected orders only")
    return parser.parse_args()


def set_up(root: Path, opened: Sequence[str]) -> World:
    """Boot the host, rewritten, and make the world."""
    framework = os.environ.get("A0_ROOT")
    print(f"host: {boot(root, Path(framework) if framework else None)}", flush=True)
    network = Network(Loop())
    awaits.install(network.loaded, holes.opener(opened))
    from stage.interleaving.world import World

    world = World(root, network)
    gc.freeze()
    return world


def explore(world: World, arguments: argparse.Namespace) -> int:
    """Explore the scenes, one after the other; give the exit code."""
    from stage.interleaving.explorer import Explorer
    from stage.interleaving.scenes import SCENES

    form = "short" if arguments.short else "long"
    walks = WALKS[form] if arguments.walks is None else arguments.walks
    depth = DEPTH[form] if arguments.depth is None else arguments.depth
    began, total = time.process_time(), 0
    broken, digest = [], hashlib.sha256()
    print(f"every order that differs only in its first {depth} choices, or in as many as shown:")
    print(f"{'scene':<22}{'departures':>10}{'exhaustive':>12}{'random':>8}{'a second':>10}")
    for name in arguments.scene or SCENES:
        scene, start = SCENES[name], time.process_time()
        departures = scene.bounds[form == "long"]
        if arguments.departures is not None:
            departures = arguments.departures
        found = Explorer(world, scene).explore(depth, departures, walks, f"{arguments.seed} {name}")
        played = found.exhaustive + found.random
        total += played
        digest.update(found.digest)
        rate = played / max(time.process_time() - start, 1e-9)
        row = f"{name:<22}{departures:>10}{found.exhaustive:>12,}{found.random:>8,}{rate:>10,.0f}"
        print(row, flush=True)
        if found.violation:
            broken.append(name)
            show(name, found.violation)
    seconds = time.process_time() - began
    verdict = f"found in: {'; '.join(broken)}" if broken else "all of them hold"
    print(
        f"{total:,} distinct schedules in {seconds:.0f} s of one core, "
        f"fingerprint {digest.hexdigest()[:12]}; {verdict}"
    )
    return 1 if broken else 0


def expected(world: World, names: Sequence[str] | None) -> int:
    """Print the order in which nobody departs from what is expected, of each scene."""
    from stage.interleaving.explorer import Explorer
    from stage.interleaving.scenes import SCENES

    for name in names or SCENES:
        Explorer(world, SCENES[name]).play(lambda _: 0)
        print(f"scene: {name}", *(f"  {step}" for step in world.scheduler.steps), sep="\n")
    return 0


def replay(world: World, file: Path) -> int:
    """Play the first order that a file holds; give the exit code."""
    from stage.interleaving.explorer import Explorer
    from stage.interleaving.scenes import SCENES

    lines = iter(file.read_text(encoding="utf-8").splitlines())
    name = next(line for line in lines if line.startswith("scene: ")).removeprefix("scene: ")
    steps = [
        line.strip() for line in itertools.takewhile(lambda line: line.startswith("  "), lines)
    ]
    try:
        violation = Explorer(world, SCENES[name]).replay(steps)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if violation is None:
        print("it holds")
        return 0
    show(name, violation)
    return 1


def show(scene: str, violation: Violation) -> None:
    """Print an order in the form that can be replayed."""
    print(*violation.lines, f"scene: {scene}", sep="\n")
    print(*(f"  {step}" for step in violation.steps), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
