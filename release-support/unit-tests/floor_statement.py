"""A second, independent statement of what two files together permit, and a generator of pairs.

`goes_on` says whether a call goes on, and `tells` who is told of its URL for that; nothing else.
Both are written from the documentation and share no line with the plugin. The plugin must agree
with them on every pair of files, in every call of a short history.

What two files permit:

1. A file decides as if it were alone, by the entry that protects the call: that of the server's
   name, or else the first with its URL. What the entry leaves out is that of the file, key by key.
2. It decides on the evidence that is kept if that is younger than the entry's lifetime, and else
   on what the service says within the entry's deadline. What comes later is a time-out, with what
   was said by then.
3. The specific file counts; with a floor the global one does, too. A call goes on when each of
   them that protects it permits it.
4. The service is the one that the global file names, and a private URL is told to a local one
   only where both files permit it. While the global file is not valid, nobody is told of
   anything, and what either may protect is refused.
5. Nobody is told of a call that a file refuses unasked, or on evidence that it keeps.

What is told of a URL that the global file approves is also held against what the plugin tells
with that file alone: no specific file may add to it.

The command compares both on many pairs:

    python release-support/unit-tests/floor_statement.py [--cases 100000] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

PUBLIC = "https://agent-guild-5d5r.onrender.com"
LOCAL = ("http://127.0.0.1:8787", "http://[::1]:9000")
PRIVATE_URL = "http://10.0.0.5:8080/mcp"
URLS = ("https://tools.example.com/mcp", "https://maps.example.com/mcp", PRIVATE_URL)
NAMES = ("tools", "maps")

DECISIVE = ("endpoint_reachable", "protocol_handshake")
CHECKS = (
    *DECISIVE,
    *("agent_card_resolves", "agent_card_signed", "payment_claim_holds", "independent_evidence"),
)
UNREACHABLE = ("resolve", "connect", "tls")
MISSING = (*UNREACHABLE, "http_status", "protocol")
WARNINGS = ("do_not_delegate", "delegate_with_caution", "failed")

Raw = dict[str, Any]


class File(NamedTuple):
    """A settings file: what it holds, and whether that is valid where it stands."""

    raw: Any
    is_valid: bool = True


class Answer(NamedTuple):
    """What a service says of a URL.

    Attributes:
        statuses: of every check, in a whole answer.
        missing: why there is none; empty where it is whole.
        seconds: when it is there.
        warning: a word that it says before; empty for none.
        warned_after: when it has said so.
    """

    statuses: Mapping[str, str]
    missing: str
    seconds: float
    warning: str
    warned_after: float

    def by(self, deadline: float) -> Answer:
        """Return what is known of it at a deadline."""
        if self.seconds <= deadline:
            return self if self.missing else self._replace(warning="")
        warning = self.warning if self.warned_after <= deadline else ""
        return self._replace(missing="timeout", warning=warning)


class Call(NamedTuple):
    """One call: to which server, how long after the last one, and what the service would say."""

    name: str
    url: str
    later: float
    answer: Answer


Kept = dict[tuple[str, str], tuple[float, Answer]]  # when it was made, by service and URL


# --- The statement -------------------------------------------------------------------------


def goes_on(here: File, everywhere: File, call: Call, kept: Kept, now: float) -> bool:
    """Whether a call goes on."""
    if not everywhere.is_valid and is_concerned(here, everywhere, call):
        return False
    return all(
        file.is_valid and permits(file.raw, everywhere.raw, call, kept, now)
        for file in files_in_force(here, everywhere)
        if protects(file, call)
    )


def tells(here: File, everywhere: File, call: Call, kept: Kept, now: float) -> set[tuple[str, str]]:
    """Return who is told of which URL for a call."""
    if not everywhere.is_valid:
        return set()
    protecting = [file for file in files_in_force(here, everywhere) if protects(file, call)]
    if not all(
        file.is_valid and passes_unasked(file.raw, everywhere.raw, call) for file in protecting
    ):
        return set()
    have = [(file, kept_for(file.raw, everywhere.raw, call, kept, now)) for file in protecting]
    if any(answer and not is_enough(asked(file.raw, call), answer) for file, answer in have):
        return set()
    asks = any(answer is None for _, answer in have)
    return {(service_of(everywhere.raw), call.url)} if asks else set()


def files_in_force(here: File, everywhere: File) -> list[File]:
    if is_same(here.raw, everywhere.raw):
        return [everywhere]
    has_floor = isinstance(everywhere.raw, dict) and everywhere.raw.get("floor") is True
    return [here, everywhere] if has_floor else [here]


def is_same(one: object, other: object) -> bool:
    return json.dumps(one) == json.dumps(other)


def is_concerned(here: File, everywhere: File, call: Call) -> bool:
    """Whether anything that protects a call rests on a global file that is not valid."""
    if is_same(here.raw, everywhere.raw):
        return protects(everywhere, call)
    raw = everywhere.raw
    sure = isinstance(raw, dict) and (
        raw["floor"] in (None, False) and raw["floor"] != 0.5
        if "floor" in raw
        else "typo" not in raw
    )
    return protects(here, call) or (not sure and protects(everywhere, call))


def protects(file: File, call: Call) -> bool:
    """Whether a file protects a call, or nobody can tell."""
    servers = file.raw.get("protected_servers") if isinstance(file.raw, dict) else None
    if not isinstance(servers, dict):
        return not file.is_valid
    return call.name in servers or call.url in [*map(url_of, servers.values())]


def url_of(entry: Any) -> str:
    return entry["url"] if isinstance(entry, dict) else entry


def asked(raw: Raw, call: Call) -> Raw:
    """Return what a file that protects a call asks of its evidence."""
    servers = raw["protected_servers"]
    with_url = [entry for entry in servers.values() if url_of(entry) == call.url]
    entry = servers[call.name] if call.name in servers else with_url[0]
    own = entry if isinstance(entry, dict) else {}
    found = {}
    for key in ("timeout_seconds", "cache_ttl_seconds"):
        found[key] = raw.get(key) if own.get(key) is None else own[key]
    for key in ("required_proven", "tolerate_unknown_required", "on_caution", "on_unavailable"):
        written = [(each.get("policy") or {}).get(key) for each in (own, raw)]
        found[key] = written[1] if written[0] is None else written[0]
    return found


def permits(raw: Raw, everywhere: Raw, call: Call, kept: Kept, now: float) -> bool:
    if not passes_unasked(raw, everywhere, call):
        return False
    answer = kept_for(raw, everywhere, call, kept, now)
    terms = asked(raw, call)
    return is_enough(terms, answer or call.answer.by(terms["timeout_seconds"] or 5))


def passes_unasked(raw: Raw, everywhere: Raw, call: Call) -> bool:
    if url_of(raw["protected_servers"].get(call.name, call.url)) != call.url:
        return False
    is_permitted = raw.get("allow_private_hosts") and everywhere.get("allow_private_hosts")
    return call.url != PRIVATE_URL or bool(is_permitted and service_of(everywhere) != PUBLIC)


def service_of(everywhere: Raw) -> str:
    return everywhere.get("fixture_guild_origin") or PUBLIC


def kept_for(raw: Raw, everywhere: Raw, call: Call, kept: Kept, now: float) -> Answer | None:
    made, answer = kept.get((service_of(everywhere), call.url), (now, None))
    lifetime = asked(raw, call)["cache_ttl_seconds"]
    return answer if now - made < (300 if lifetime is None else lifetime) else None


def is_enough(policy: Raw, answer: Answer) -> bool:
    cautious = policy.get("on_caution") != "allow"
    if answer.missing:
        tolerated = policy.get("on_unavailable")
        if answer.warning and (cautious or answer.warning != "delegate_with_caution"):
            return False
        is_unreachable = tolerated == "allow_unreachable" and answer.missing in UNREACHABLE
        return tolerated == "allow" or is_unreachable
    failed = {check for check, status in answer.statuses.items() if status == "failed"}
    unknown = {check for check, status in answer.statuses.items() if status == "unknown"}
    required = policy.get("required_proven")
    required = set(DECISIVE if required is None else required)
    if failed & {*DECISIVE, *required} or (failed and cautious):
        return False
    return not required & unknown or policy.get("tolerate_unknown_required") is True


# --- The generator -------------------------------------------------------------------------


def pair(rng: random.Random) -> tuple[File, File]:
    """Make up the file in force and the global one."""
    everywhere = _settings(rng)
    if rng.random() < 0.7:
        everywhere["floor"] = True
    elif rng.random() < 0.5:
        everywhere["floor"] = rng.choice((None, False))
    here = dict(everywhere) if rng.random() < 0.15 else _settings(rng)
    if "floor" in here and rng.random() < 0.8:
        del here["floor"]
    broken_here, broken_everywhere = rng.random() < 0.04, rng.random() < 0.06
    selected = _broken(rng, here) if broken_here else File(here)
    globally = _broken(rng, everywhere) if broken_everywhere else File(everywhere)
    if rng.random() < 0.05:
        return globally, globally
    same = is_same(selected.raw, globally.raw)
    if isinstance(selected.raw, dict) and selected.raw.get("floor") is not None and not same:
        selected = selected._replace(is_valid=False)  # a floor elsewhere
    return globally if same else selected, globally


def _settings(rng: random.Random) -> Raw:
    """Make up valid settings; most list the server with its URL."""
    servers = {name: rng.choice(URLS) for name in NAMES if rng.random() < 0.6}
    if rng.random() < 0.8:
        servers["tools"] = rng.choice((*URLS[:1] * 5, PRIVATE_URL))
    raw: Raw = {"protected_servers": {name: _entry(rng, url) for name, url in servers.items()}}
    choices: dict[str, tuple[Any, ...]] = {
        "allow_private_hosts": (None, False, True, True),
        "fixture_guild_origin": (None, *LOCAL, LOCAL[0]),
    }
    raw |= {key: rng.choice(values) for key, values in choices.items() if rng.random() < 0.7}
    return raw | _asked(rng, 0.7)


def _entry(rng: random.Random, url: str) -> Any:
    """Make up an entry, in the short form or with requirements of its own."""
    return url if rng.random() < 0.4 else {"url": url, **_asked(rng, 0.4)}


def _asked(rng: random.Random, likely: float) -> Raw:
    choices: dict[str, tuple[Any, ...]] = {
        "timeout_seconds": (None, 0.1, 0.1, 0.5, 2, 5.0, 15),
        "cache_ttl_seconds": (None, 0, 0, 1, 60, 300.0, 86400),
        "policy": (None, {}, _policy(rng), _policy(rng), _policy(rng), _policy(rng)),
    }
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < likely}


def _policy(rng: random.Random) -> Raw:
    choices: dict[str, tuple[Any, ...]] = {
        "required_proven": (None, [], [], rng.sample(CHECKS, rng.randrange(1, 3))),
        "tolerate_unknown_required": (None, False, True),
        "on_caution": (None, "deny", "allow"),
        "on_unavailable": (None, "deny", "allow_unreachable", "allow", "allow"),
    }
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < 0.8}


def _with_entry(raw: Raw, **broken: Any) -> Raw:
    """Return settings with one entry that is not valid."""
    entry = {"url": URLS[0], **broken}
    return {**raw, "protected_servers": {**raw["protected_servers"], "tools": entry}}


BREAKS: tuple[Callable[[Raw], Any], ...] = (
    lambda raw: {**raw, "timeout_seconds": 1e-9},
    lambda raw: {**raw, "timeout_seconds": 0.09},
    lambda raw: {**raw, "cache_ttl_seconds": -1},
    lambda raw: {**raw, "allow_private_hosts": "true"},
    lambda raw: {**raw, "fixture_guild_origin": LOCAL[0] + "/"},
    lambda raw: {**raw, "fixture_guild_origin": "http://192.0.2.1:8787"},
    lambda raw: {**raw, "policy": {"on_unavailable": "Allow"}},
    lambda raw: {**raw, "policy": []},
    lambda raw: {**raw, "typo": None},
    lambda raw: {**raw, "floor": "false"},
    lambda raw: {**raw, "protected_servers": None, "policy": {"typo": 1}},
    lambda raw: {**raw, "protected_servers": [*raw["protected_servers"]]},
    lambda raw: _with_entry(raw, timeout_seconds=0.09),
    lambda raw: _with_entry(raw, cache_ttl_seconds=True),
    lambda raw: _with_entry(raw, policy={"on_caution": "Allow"}),
    lambda raw: _with_entry(raw, policy={"typo": None}),
    lambda raw: _with_entry(raw, floor=False),
    lambda raw: [raw],
    lambda raw: None,
)


def _broken(rng: random.Random, raw: Raw) -> File:
    return File(rng.choice(BREAKS)(raw), is_valid=False)


def history(rng: random.Random) -> list[Call]:
    """Make up a few calls, mostly to one server."""
    name = rng.choice(("tools", "tools", *NAMES, "other"))
    url = rng.choice((*URLS[:1] * 4, *URLS))
    return [
        Call(name, url, rng.choice((0.0, 0.5, 20.0, 90.0, 1000.0)), _answer(rng))
        for _ in range(rng.randrange(1, 4))
    ]


def _answer(rng: random.Random) -> Answer:
    likely = ("proven",) * rng.randrange(3, 12) + rng.choice((("unknown",), ("failed",), ()))
    statuses = {check: rng.choice(likely) for check in CHECKS}
    if rng.random() < 0.7:
        statuses |= dict.fromkeys(DECISIVE, "proven")
    return Answer(
        statuses=statuses,
        missing=rng.choice(MISSING) if rng.random() < 0.2 else "",
        seconds=rng.choice((0.01, 0.01, 0.01, 0.3, 1.0, 3.0, 9.0, 20.0)),
        warning=rng.choice(("",) * 5 + WARNINGS),
        warned_after=rng.choice((0.005, 0.2, 1.5)),
    )


# --- The comparison ------------------------------------------------------------------------


@dataclass
class Tally:
    """What became of the calls, and the first in which the plugin and the statement differ.

    Attributes:
        lowered: calls that the floor alone refused and the specific file would have let go on.
        told: calls for which somebody was told of a URL.
    """

    pairs: int = 0
    allowed: int = 0
    refused: int = 0
    unprotected: int = 0
    lowered: int = 0
    told: int = 0
    disagreements: int = 0
    examples: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.pairs} pairs of files: {self.allowed} calls allowed, {self.refused} refused"
            f" ({self.lowered} by the floor alone), {self.unprotected} not protected, {self.told}"
            f" told to a service; {self.disagreements} disagreements"
        )


def compare(cases: int, seed: int) -> Tally:
    """Hold the plugin against the statement, call by call, on so many pairs of files.

    The plugin must be importable, see `stage.boot`.
    """
    plugin, alone, rng, tally = Plugin(), Plugin(), random.Random(seed), Tally()
    for _ in range(cases):
        here, everywhere = pair(rng)
        tally.pairs += 1
        plugin.begin_anew()
        for call in history(rng):
            plugin.now += call.later
            kept, now = dict(plugin.kept), plugin.now
            says, told = plugin.call(here.raw, everywhere.raw, call)
            expected = goes_on(here, everywhere, call, kept, now)
            expected_told = tells(here, everywhere, call, kept, now)
            added = told - told_alone(alone, everywhere, call) if told else set()
            if (says != "refused", told) != (expected, expected_told) or added:
                tally.disagreements += 1
                if len(tally.examples) < 5:
                    tally.examples.append(
                        f"{says}, told {told}; the statement says {expected}, {expected_told}: "
                        f"{here} {everywhere} {call} {kept} {now}"
                    )
                continue
            _count(tally, says, here, everywhere, call, kept, now)
            tally.told += bool(told)
    return tally


def told_alone(plugin: Plugin, everywhere: File, call: Call) -> set[tuple[str, str]]:
    """Return who is told of what with the global file alone; all, of a URL that it knows nothing of."""
    entries = everywhere.raw["protected_servers"].items()
    servers = {name: url_of(entry) for name, entry in entries}
    told = {(service_of(everywhere.raw), call.url)} - {
        (service_of(everywhere.raw), url) for url in servers.values()
    }
    for name, url in servers.items():
        plugin.begin_anew()
        told |= plugin.call(everywhere.raw, everywhere.raw, call._replace(name=name, url=url))[1]
    return told


def _count(tally: Tally, says: str, here: File, everywhere: File, *rest: Any) -> None:
    setattr(tally, says, getattr(tally, says) + 1)
    if says == "refused" and everywhere.is_valid and here.is_valid:
        without = File({**everywhere.raw, "floor": False})
        tally.lowered += goes_on(here, without, *rest)


class Plugin:
    """The plugin's own rooms, from two files to a judgement, with a service of the case's."""

    def __init__(self) -> None:
        from usr.plugins.agent_guild_preflight.helpers import evaluation, judgement
        from usr.plugins.agent_guild_preflight.helpers.binding import comparison, view
        from usr.plugins.agent_guild_preflight.helpers.guild_preflight import (
            observation,
            salvage,
            verdicts,
        )
        from usr.plugins.agent_guild_preflight.helpers.reasons import SubReason
        from usr.plugins.agent_guild_preflight.helpers.settings import in_force

        self._evaluation, self._judgement, self._in_force = evaluation, judgement, in_force
        self._comparison, self._view = comparison, view
        self._observation, self._salvage, self._verdicts = observation, salvage, verdicts
        self._sub_reason = SubReason
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all that was kept."""
        self.kept: Kept = {}
        self.now = 0.0

    def call(self, here: Any, everywhere: Any, call: Call) -> tuple[str, set[tuple[str, str]]]:
        """Return what becomes of a call, a field of `Tally`, and who was told of which URL."""
        self._call = call
        self._told: set[tuple[str, str]] = set()
        self.judgement: Any = None
        layers = self._in_force.layers_in_force(here, everywhere, normalize_name=_normalized)
        protections = self._evaluation.protections_of(layers, self._match)
        if isinstance(protections, self._evaluation.Unusable):
            return "refused", self._told
        if not protections:
            return "unprotected", self._told
        found = self._evaluation.precheck_all(protections)
        if not isinstance(found, self._judgement.Judgement):
            found = self._evaluated(found)
        self.judgement = found
        return "allowed" if found.reason is None else "refused", self._told

    def _match(self, protected: Mapping[str, Any]) -> Any:
        call = self._call
        server = self._view.ServerView(
            call.name, True, call.url, "streamable-http", "global", True, (), b"", True
        )
        view = self._view.View(call.name, "echo", (server,))
        approval = self._comparison.classify(view, protected)
        return None if approval is None else (approval, view)

    def _evaluated(self, prechecked: Any) -> Any:
        room = self._evaluation
        theirs = room.ask, room.recall
        room.ask, room.recall = self._ask, self._recall
        try:
            judgement, _ = _finished(room.evaluate(prechecked))
        finally:
            room.ask, room.recall = theirs
        return judgement

    # What the room `observe` does, on a clock of the case's

    def _recall(self, endpoint: Any, origin: str, max_age_seconds: float) -> Any:
        made, answer = self.kept.get((origin, endpoint.url), (0.0, None))
        if answer is None or not self.now - made < max_age_seconds:
            return None
        return self._made(answer)

    def _ask(self, endpoint: Any, **terms: Any) -> Plugin:
        key = terms["origin"], endpoint.url
        assert not self._told, "one call asks once"
        assert self._recall(endpoint, key[0], terms["max_age_seconds"]) is None
        self._told.add(key)
        self._last = terms["timeout_seconds"]
        answer = self._call.answer
        if terms["is_kept"] and not answer.by(self._last).missing:
            self.kept[key] = self.now, answer
        return self

    def __enter__(self) -> Plugin:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def observation(self, timeout_seconds: float) -> Any:
        assert timeout_seconds <= self._last
        return self._made(self._call.answer.by(timeout_seconds))

    def _made(self, answer: Answer) -> Any:
        """Return an answer as the plugin's own value, or raise it."""
        if answer.missing:
            verdicts = [word for word in self._verdicts.Verdict if word == answer.warning]
            claims = self._salvage.Claims(frozenset(verdicts), answer.warning == "failed")
            raise self._salvage.EvidenceUnavailable(self._sub_reason(answer.missing), claims)
        failed = [check for check, status in answer.statuses.items() if status == "failed"]
        verdict = "delegate_with_caution" if failed else "no_failed_checks"
        if {*failed} & {*DECISIVE}:
            verdict = "do_not_delegate"
        return self._observation.Observation(
            verdict=self._verdicts.Verdict(verdict),
            statuses={
                self._verdicts.Check(check): self._verdicts.Status(status)
                for check, status in answer.statuses.items()
            },
            details={},
            other_checks=0,
            other_failed=0,
            method="",
            limits="",
        )


def _finished(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("something was waited for")


def _normalized(name: str) -> str:
    return re.sub(r"\W", "_", name.strip().lower())


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare two statements of what files permit.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from stage.boot import boot

    with tempfile.TemporaryDirectory(prefix="agent_guild_preflight-") as root:
        boot(Path(root))
        tally = compare(options.cases, options.seed)
    print(f"{tally} (seed {options.seed})")
    for example in tally.examples:
        print(example[:4000])
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
