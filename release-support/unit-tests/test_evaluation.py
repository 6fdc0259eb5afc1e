"""The evaluation: what is refused unasked, who is asked and how, and which demand decides."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from usr.plugins.agent_guild_preflight.helpers import evaluation
from usr.plugins.agent_guild_preflight.helpers.binding.approval import Approval
from usr.plugins.agent_guild_preflight.helpers.binding.view import ServerView, View
from usr.plugins.agent_guild_preflight.helpers.evaluation import (
    Prechecked,
    Protection,
    Unusable,
    evaluate,
    precheck,
    protections_of,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.contract import ContractViolation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.endpoint import Endpoint
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.observation import Observation
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.salvage import (
    NO_CLAIMS,
    Claims,
    EvidenceUnavailable,
)
from usr.plugins.agent_guild_preflight.helpers.guild_preflight.verdicts import (
    Check,
    Status,
    Verdict,
)
from usr.plugins.agent_guild_preflight.helpers.judgement import Judgement
from usr.plugins.agent_guild_preflight.helpers.reasons import Reason, Refusal, Stage, SubReason
from usr.plugins.agent_guild_preflight.helpers.requirements import (
    OnCaution,
    OnUnavailable,
    Policy,
)
from usr.plugins.agent_guild_preflight.helpers.settings.configuration import Configuration
from usr.plugins.agent_guild_preflight.helpers.settings.in_force import Layer, Source
from usr.plugins.agent_guild_preflight.helpers.settings.problems import (
    InvalidConfiguration,
    Problem,
)

PUBLIC_ORIGIN = "https://agent-guild-5d5r.onrender.com"
LOCAL_ORIGIN = "http://127.0.0.1:8080"

URL = "https://mcp.example.com:8443/mcp"
SHOWN = "https://mcp.example.com:8443"
PRIVATE_URL = "http://10.0.0.1:8080/mcp"
OTHER_URL = "https://maps.example.com/mcp"
DIGEST = "sha256:" + "0" * 64
OTHER_DIGEST = "sha256:" + "1" * 64

SERVER = ServerView(
    name="weather",
    is_remote=True,
    url=URL,
    transport="streamable-http",
    scope="global",
    verifies_tls=True,
    named_hosts=(),
    headers_digest=b"1",
    exposes_tool=True,
    definitions=(DIGEST,),
)
STRICT = Policy(required_proven=(Check.ENDPOINT_REACHABLE, Check.AGENT_CARD_SIGNED))
LENIENT = Policy(
    required_proven=(Check.ENDPOINT_REACHABLE,),
    tolerate_unknown_required=True,
    on_caution=OnCaution.ALLOW,
    on_unavailable=OnUnavailable.ALLOW,
)


def protection(
    *servers: ServerView,
    source: Source = Source.SELECTED,
    url: str = URL,
    pins: Mapping[str, str] | None = None,
    **settings: Any,
) -> Protection:
    """Return a demand that protects a call, by default one that nothing speaks against."""
    return Protection(
        source=source,
        settings=Configuration(**settings),
        approval=Approval("weather", url, pins),
        view=View("seen_as", "forecast", servers or (SERVER,)),
    )


def prechecked(**more: Any) -> Prechecked:
    found = precheck(protection(**more))
    assert isinstance(found, Prechecked)
    return found


def floor(**more: Any) -> Prechecked:
    return prechecked(source=Source.FLOOR, **more)


def observation(**statuses: Status) -> Observation:
    """Return a valid observation: all is proven that is not named."""
    found = dict.fromkeys(Check, Status.PROVEN)
    found |= {Check(name): status for name, status in statuses.items()}
    failed = {check.value for check, status in found.items() if status is Status.FAILED}
    if failed & {"endpoint_reachable", "protocol_handshake"}:
        verdict = Verdict.DO_NOT_DELEGATE
    else:
        verdict = Verdict.DELEGATE_WITH_CAUTION if failed else Verdict.NO_FAILED_CHECKS
    return Observation(
        verdict=verdict,
        statuses=found,
        details=dict.fromkeys(Check, ""),
        other_checks=0,
        other_failed=0,
        method="",
        limits="",
    )


GOOD = observation()
CAUTION = observation(payment_claim_holds=Status.FAILED)


class Service:
    """Stands in for every preflight service, and records what it is asked.

    Attributes:
        answers: what is said, by origin.
        takes_seconds: how long an answer takes.
        so_far: what it has claimed before it is whole.
        asked: every question; `looked_at`: every deadline at which its answer was looked at.
        is_open: a question has not been left.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Observation | BaseException] = {}
        self.takes_seconds = 0.0
        self.so_far = NO_CLAIMS
        self.asked: list[tuple[Endpoint, dict[str, Any]]] = []
        self.looked_at: list[float] = []
        self.is_open = False

    def recall(self, endpoint: Endpoint, origin: str, max_age_seconds: float) -> Observation | None:
        """Remember an answer that says it was kept, if it is fresh enough."""
        assert endpoint.url == URL
        answer = self.answers[origin]
        kept = isinstance(answer, Observation) and answer.cached
        return answer if kept and answer.age_seconds < max_age_seconds else None

    def ask(self, endpoint: Endpoint, **how: Any) -> "Service":
        self.asked.append((endpoint, how))
        return self

    def __enter__(self) -> "Service":
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    async def observation(self, timeout_seconds: float) -> Observation:
        assert self.is_open
        self.looked_at.append(timeout_seconds)
        how = self.asked[-1][1]
        assert timeout_seconds <= how["timeout_seconds"]
        if self.takes_seconds > timeout_seconds:
            raise EvidenceUnavailable(SubReason.TIMEOUT, self.so_far)
        answer = self.answers[how["origin"]]
        if isinstance(answer, BaseException):
            raise answer
        return GOOD if answer.cached else answer  # one that is too old is found anew

    def answer_all(self, answer: Observation | BaseException) -> None:
        self.answers = dict.fromkeys((PUBLIC_ORIGIN, LOCAL_ORIGIN), answer)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    service = Service()
    monkeypatch.setattr(evaluation, "ask", service.ask)
    monkeypatch.setattr(evaluation, "recall", service.recall)
    service.answer_all(GOOD)
    yield service
    assert not service.is_open


def evaluated(*layers: Prechecked) -> Judgement:
    return asyncio.run(evaluate(layers))[0]


def asked(
    origin: str, timeout_seconds: float, max_age_seconds: float, *, is_kept: bool = True
) -> tuple[Endpoint, Any]:
    return (
        Endpoint(URL, SHOWN, is_private=False),
        {
            "origin": origin,
            "timeout_seconds": timeout_seconds,
            "max_age_seconds": max_age_seconds,
            "is_kept": is_kept,
        },
    )


# Which demands protect a call


VIEW = View("weather", "forecast", (SERVER,))
VALID = Configuration(protected_servers={"weather": Approval("weather", URL)})
OTHER = Configuration(protected_servers={"maps": Approval("maps", OTHER_URL)})
NOTHING = Configuration()
BROKEN = InvalidConfiguration((("polcy", Problem.UNKNOWN_KEY),), VALID.protected_servers)
BLIND = InvalidConfiguration((("", Problem.UNREADABLE),), None)


def protected_by(*settings: Configuration | InvalidConfiguration) -> tuple[Any, list[str]]:
    """Return what is found for these files, and the names that a match was asked about."""
    asked: list[str] = []

    def match(protected: Mapping[str, Approval]) -> tuple[Approval, View] | None:
        assert protected
        asked.extend(protected)
        approval = protected.get("weather")
        return None if approval is None else (approval, VIEW)

    layers = [Layer(source, one) for source, one in zip(Source, settings, strict=False)]
    return protections_of(layers, match), asked


def protections_from(*settings: tuple[Source, Configuration]) -> list[Protection]:
    return [
        Protection(source, one, one.protected_servers["weather"], VIEW) for source, one in settings
    ]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ((NOTHING,), []),
        ((OTHER, NOTHING), []),
        ((VALID,), protections_from((Source.SELECTED, VALID))),
        ((OTHER, VALID), protections_from((Source.FLOOR, VALID))),
        ((VALID, VALID), protections_from((Source.SELECTED, VALID), (Source.FLOOR, VALID))),
    ],
)
def test_every_valid_demand_that_protects_the_call(settings: Any, found: Any) -> None:
    assert protected_by(*settings)[0] == found


@pytest.mark.parametrize(
    ("settings", "source", "approval"),
    [
        ((BROKEN,), Source.SELECTED, VALID.protected_servers["weather"]),
        ((VALID, BROKEN), Source.FLOOR, VALID.protected_servers["weather"]),
        ((NOTHING, BROKEN), Source.FLOOR, VALID.protected_servers["weather"]),
        ((BLIND,), Source.SELECTED, None),
        ((VALID, BLIND), Source.FLOOR, None),
        ((BROKEN, BLIND), Source.FLOOR, None),
    ],
)
def test_a_demand_that_is_not_valid_decides(settings: Any, source: Source, approval: Any) -> None:
    """One of which nobody can tell what it protects comes before all others."""
    found, _ = protected_by(*settings)
    assert isinstance(found, Unusable)
    assert (found.layer.source, found.approval) == (source, approval)


def test_an_invalid_demand_that_protects_something_else_decides_nothing() -> None:
    elsewhere = InvalidConfiguration((("polcy", Problem.UNKNOWN_KEY),), OTHER.protected_servers)
    assert protected_by(VALID, elsewhere)[0] == protections_from((Source.SELECTED, VALID))


def test_nobody_looks_where_nothing_is_protected() -> None:
    """Looking may cost a reading of all settings, and connections."""
    assert protected_by(NOTHING, NOTHING)[1] == []
    assert protected_by(VALID, BLIND)[1] == []


# Clear


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("pins", [None, {"forecast": DIGEST}])
def test_what_nothing_speaks_against_is_cleared(
    source: Source, pins: dict[str, str] | None, service: Service
) -> None:
    made = protection(source=source, pins=pins)

    assert precheck(made) == Prechecked(
        protection=made,
        endpoint=Endpoint(URL, SHOWN, is_private=False),
    )
    assert service.asked == []


REFUSED_URLS = {
    SubReason.SCHEME: "ftp://mcp.example.com/",
    SubReason.USERINFO: "https://user@mcp.example.com/",
    SubReason.QUERY: "https://mcp.example.com/?a",
    SubReason.FRAGMENT: "https://mcp.example.com/#a",
    SubReason.FORBIDDEN_CHARACTER: "https://mcp.example.com/ ",
    SubReason.HOST_MISSING: "https:///",
    SubReason.HOST_SYNTAX: "https://mcp..example.com/",
    SubReason.HOST_NOT_PUBLIC: "https://localhost/",
    SubReason.NUMBER_LIKE_HOST: "https://0x7f.1/",
    SubReason.PORT: "https://mcp.example.com:0/",
    SubReason.NOT_CANONICAL: "https://MCP.example.com/",
    SubReason.TOO_LONG: "https://mcp.example.com/" + "a" * 2048,
    SubReason.PRIVATE_NEEDS_LOCAL_SERVICE: PRIVATE_URL,
}


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("sub_reason", REFUSED_URLS)
def test_a_url_that_the_screen_refuses_is_not_shown(
    sub_reason: SubReason, source: Source, service: Service
) -> None:
    private = sub_reason is SubReason.PRIVATE_NEEDS_LOCAL_SERVICE
    url = REFUSED_URLS[sub_reason]
    made = protection(SERVER._replace(url=url), source=source, url=url, allow_private_hosts=private)

    assert precheck(made) == Judgement(
        reason=Reason.ENDPOINT_REFUSED,
        sub_reason=sub_reason,
        server="weather",
        endpoint=None,
        tool="forecast",
        observation=None,
        error=None,
        tolerated=(),
        guild_origin=None,
        cache_ttl_seconds=0.0,
        source=source,
        unforeseen=None,
    )
    assert service.asked == []


REFUSED_BINDINGS: dict[Reason, tuple[Sequence[ServerView], dict[str, str] | None]] = {
    Reason.SERVER_AMBIGUOUS: ([SERVER, SERVER], None),
    Reason.SERVER_NOT_REMOTE: ([SERVER._replace(is_remote=False)], None),
    Reason.URL_MISMATCH: ([SERVER._replace(url=URL + "/")], None),
    Reason.TRANSPORT_ALTERED: ([SERVER._replace(verifies_tls=False)], None),
    Reason.TOOL_NOT_EXPOSED: ([SERVER._replace(exposes_tool=False)], None),
    Reason.TOOL_NOT_PINNED: ([SERVER], {}),
    Reason.TOOL_AMBIGUOUS: (
        [SERVER._replace(definitions=(DIGEST, DIGEST))],
        {"forecast": DIGEST},
    ),
    Reason.DEFINITION_CHANGED: ([SERVER], {"forecast": OTHER_DIGEST}),
}


def refused_binding(reason: Reason, source: Source) -> Judgement:
    return Judgement(
        reason=reason,
        sub_reason=None,
        server="weather",
        endpoint=SHOWN,
        tool="forecast",
        observation=None,
        error=None,
        tolerated=(),
        guild_origin=None,
        cache_ttl_seconds=0.0,
        source=source,
        unforeseen=None,
    )


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("reason", REFUSED_BINDINGS)
def test_a_server_that_is_not_the_approved_one_is_refused_with_its_endpoint(
    reason: Reason, source: Source, service: Service
) -> None:
    servers, pins = REFUSED_BINDINGS[reason]

    assert precheck(protection(*servers, source=source, pins=pins)) == refused_binding(
        reason, source
    )
    assert service.asked == []


@pytest.mark.parametrize("source", Source)
def test_a_server_that_is_not_there_is_refused_with_its_endpoint(source: Source) -> None:
    made = protection(source=source)._replace(view=View("seen_as", "forecast", ()))

    assert precheck(made) == refused_binding(Reason.SERVER_NOT_CONFIGURED, source)


def test_the_tables_name_every_refusal_of_the_two_stages() -> None:
    stages = (Stage.ENDPOINT, Stage.BINDING)
    endpoint = {sub for sub in SubReason if sub.reason is Reason.ENDPOINT_REFUSED}

    assert set(REFUSED_URLS) == endpoint
    assert {*REFUSED_BINDINGS, Reason.SERVER_NOT_CONFIGURED, Reason.ENDPOINT_REFUSED} == {
        reason for reason in Reason if reason.stage in stages
    }


@pytest.mark.parametrize("reason", REFUSED_BINDINGS)
def test_the_screen_comes_before_the_binding(reason: Reason) -> None:
    servers, pins = REFUSED_BINDINGS[reason]

    found = precheck(protection(*servers, url=URL + "?", pins=pins))

    assert isinstance(found, Judgement)
    assert (found.reason, found.sub_reason) == (Reason.ENDPOINT_REFUSED, SubReason.QUERY)
    assert found.endpoint is None


@pytest.mark.parametrize(
    ("allowed", "origin", "expected"),
    [
        (False, None, SubReason.HOST_NOT_PUBLIC),
        (False, LOCAL_ORIGIN, SubReason.HOST_NOT_PUBLIC),
        (True, None, SubReason.PRIVATE_NEEDS_LOCAL_SERVICE),
        (True, LOCAL_ORIGIN, None),
    ],
)
def test_a_private_endpoint_is_told_to_a_local_service_only(
    allowed: bool, origin: str | None, expected: SubReason | None
) -> None:
    server = SERVER._replace(url=PRIVATE_URL)
    settings = {"allow_private_hosts": allowed, "fixture_guild_origin": origin}

    found = precheck(protection(server, url=PRIVATE_URL, **settings))

    if expected is not None:
        assert isinstance(found, Judgement)
        assert (found.sub_reason, found.endpoint) == (expected, None)
        return
    assert isinstance(found, Prechecked)
    assert found.endpoint == Endpoint(PRIVATE_URL, "http://10.0.0.1:8080", is_private=True)


def test_each_demand_screens_with_its_own_settings() -> None:
    """What one file permits, the other need not."""
    server = SERVER._replace(url=PRIVATE_URL)
    permitted = {"allow_private_hosts": True, "fixture_guild_origin": LOCAL_ORIGIN}

    assert isinstance(precheck(protection(server, url=PRIVATE_URL, **permitted)), Prechecked)
    assert isinstance(precheck(protection(server, url=PRIVATE_URL, source=Source.FLOOR)), Judgement)


# Weigh one demand


@pytest.mark.parametrize(
    ("settings", "origin"),
    [({}, PUBLIC_ORIGIN), ({"fixture_guild_origin": LOCAL_ORIGIN}, LOCAL_ORIGIN)],
)
@pytest.mark.parametrize("source", Source)
def test_one_demand_asks_its_service_with_its_own_limits(
    settings: dict[str, str], origin: str, source: Source, service: Service
) -> None:
    made = prechecked(source=source, timeout_seconds=2.5, cache_ttl_seconds=60.0, **settings)

    assert evaluated(made) == Judgement(
        reason=None,
        sub_reason=None,
        server="weather",
        endpoint=SHOWN,
        tool="forecast",
        observation=GOOD,
        error=None,
        tolerated=(),
        guild_origin=origin,
        cache_ttl_seconds=60.0,
        source=source,
        unforeseen=None,
    )
    assert service.asked == [asked(origin, 2.5, 60.0)]


EVIDENCE: list[tuple[Observation | Refusal, Reason, SubReason | None]] = [
    (observation(endpoint_reachable=Status.FAILED), Reason.DO_NOT_DELEGATE, None),
    (observation(agent_card_signed=Status.FAILED), Reason.REQUIRED_CHECK_FAILED, None),
    (observation(agent_card_signed=Status.UNKNOWN), Reason.REQUIRED_CHECK_UNKNOWN, None),
    (CAUTION, Reason.CAUTION_NOT_PERMITTED, None),
    (
        EvidenceUnavailable(SubReason.TIMEOUT, NO_CLAIMS),
        Reason.EVIDENCE_UNAVAILABLE,
        SubReason.TIMEOUT,
    ),
    (
        ContractViolation(SubReason.SUMMARY, NO_CLAIMS),
        Reason.EVIDENCE_INCONSISTENT,
        SubReason.SUMMARY,
    ),
]


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize(("evidence", "reason", "sub_reason"), EVIDENCE)
def test_what_the_policy_refuses_is_said_with_the_evidence(
    evidence: Observation | Refusal,
    reason: Reason,
    sub_reason: SubReason | None,
    source: Source,
    service: Service,
) -> None:
    service.answer_all(evidence)
    made = prechecked(source=source, policy=STRICT, cache_ttl_seconds=7.0)

    assert evaluated(made) == Judgement(
        reason=reason,
        sub_reason=sub_reason,
        server="weather",
        endpoint=SHOWN,
        tool="forecast",
        observation=evidence if isinstance(evidence, Observation) else None,
        error=sub_reason,
        tolerated=(),
        guild_origin=PUBLIC_ORIGIN,
        cache_ttl_seconds=7.0,
        source=source,
        unforeseen=None,
    )


def test_the_table_names_every_refusal_of_the_two_later_stages() -> None:
    stages = (Stage.EVIDENCE, Stage.POLICY)

    assert {reason for _, reason, _ in EVIDENCE} == {
        reason for reason in Reason if reason.stage in stages
    }


@pytest.mark.parametrize(
    "evidence",
    [
        EvidenceUnavailable(SubReason.CONNECT, NO_CLAIMS),
        ContractViolation(SubReason.JSON, NO_CLAIMS),
    ],
)
def test_missing_evidence_that_is_tolerated_is_named(evidence: Refusal, service: Service) -> None:
    service.answer_all(evidence)

    found = evaluated(prechecked(policy=LENIENT))

    assert evidence.sub_reason is not None
    assert found == Judgement(
        server="weather",
        endpoint=SHOWN,
        tool="forecast",
        error=evidence.sub_reason,
        tolerated=(evidence.sub_reason.value,),
        guild_origin=PUBLIC_ORIGIN,
        cache_ttl_seconds=300.0,
        source=Source.SELECTED,
    )


def test_a_broken_answer_that_warns_is_not_tolerated(service: Service) -> None:
    warning = Claims(frozenset({Verdict.DO_NOT_DELEGATE}), failed=False)
    service.answer_all(ContractViolation(SubReason.JSON, warning))

    assert evaluated(prechecked(policy=LENIENT)).reason is Reason.EVIDENCE_INCONSISTENT


# Weigh two demands


@pytest.mark.parametrize("timeouts", [(5.0, 2.0), (2.0, 5.0), (2.0, 2.0)])
@pytest.mark.parametrize("ages", [(300.0, 60.0), (60.0, 300.0), (60.0, 60.0)])
@pytest.mark.parametrize("origin", [None, LOCAL_ORIGIN])
def test_one_request_serves_both_until_the_longer_deadline(
    timeouts: tuple[float, float],
    ages: tuple[float, float],
    origin: str | None,
    service: Service,
) -> None:
    limits = [
        {"timeout_seconds": timeout, "cache_ttl_seconds": age, "fixture_guild_origin": origin}
        for timeout, age in zip(timeouts, ages, strict=True)
    ]

    found = evaluated(prechecked(**limits[0]), floor(**limits[1]))

    assert found == Judgement(
        server="weather",
        endpoint=SHOWN,
        tool="forecast",
        observation=GOOD,
        guild_origin=origin or PUBLIC_ORIGIN,
        cache_ttl_seconds=ages[1],
        source=Source.FLOOR,
    )
    assert service.asked == [asked(origin or PUBLIC_ORIGIN, max(timeouts), min(ages))]
    assert service.looked_at == sorted(timeouts)


@pytest.mark.parametrize(
    ("ages", "is_kept"),
    [((0.0, 300.0), True), ((300.0, 0.0), True), ((0.0, 0.0), False), ((1.0, 1.0), True)],
)
def test_a_request_is_made_anew_where_one_layer_wants_it_and_kept_where_one_keeps_it(
    ages: tuple[float, float], is_kept: bool, service: Service
) -> None:
    evaluated(prechecked(cache_ttl_seconds=ages[0]), floor(cache_ttl_seconds=ages[1]))

    assert service.asked == [asked(PUBLIC_ORIGIN, 5.0, min(ages), is_kept=is_kept)]


SOURCES = {"selected": Source.SELECTED, "floor": Source.FLOOR}


def both(shorter: Source, **policies: Policy) -> list[Prechecked]:
    """Return two layers, of which one has the shorter deadline; their policies by name."""
    return [
        prechecked(
            source=source,
            policy=policies[name],
            timeout_seconds=2.0 if source is shorter else 5.0,
        )
        for name, source in SOURCES.items()
    ]


@pytest.mark.parametrize("shorter", Source)
def test_a_layer_whose_deadline_passes_sees_a_time_out_and_the_other_does_not(
    shorter: Source, service: Service
) -> None:
    """A deadline is nobody else's: neither cut short, nor drawn out."""
    service.takes_seconds = 3.0

    tolerant = evaluated(*both(shorter, selected=LENIENT, floor=LENIENT))
    assert tolerant.reason is None
    assert tolerant.tolerated == ("timeout",)
    assert tolerant.observation is (None if shorter is Source.FLOOR else GOOD)
    assert service.looked_at == [2.0, 5.0]

    service.answer_all(observation(endpoint_reachable=Status.FAILED))
    refused = evaluated(*both(shorter, selected=LENIENT, floor=LENIENT))
    assert refused.reason is Reason.DO_NOT_DELEGATE
    assert refused.source is not shorter


@pytest.mark.parametrize("shorter", Source)
def test_a_call_that_one_layer_refuses_at_its_deadline_is_held_no_longer(
    shorter: Source, service: Service
) -> None:
    service.takes_seconds = 3.0
    strict = {name: STRICT if source is shorter else LENIENT for name, source in SOURCES.items()}

    refused = evaluated(*both(shorter, **strict))

    assert (refused.reason, refused.sub_reason) == (
        Reason.EVIDENCE_UNAVAILABLE,
        SubReason.TIMEOUT,
    )
    assert (refused.source, service.looked_at) == (shorter, [2.0])


@pytest.mark.parametrize("shorter", Source)
def test_what_an_answer_has_claimed_by_a_deadline_is_no_part_of_what_is_tolerated(
    shorter: Source, service: Service
) -> None:
    service.takes_seconds = 3.0
    service.so_far = Claims(frozenset({Verdict.DO_NOT_DELEGATE}), failed=False)

    refused = evaluated(*both(shorter, selected=LENIENT, floor=LENIENT))

    assert (refused.sub_reason, refused.source) == (SubReason.TIMEOUT, shorter)


DENIED = observation(endpoint_reachable=Status.FAILED)


@pytest.mark.parametrize(
    ("ages", "source"), [((10.0, 300.0), Source.FLOOR), ((300.0, 10.0), Source.SELECTED)]
)
def test_a_layer_is_not_spared_the_evidence_that_is_fresh_enough_for_it(
    ages: tuple[float, float], source: Source, service: Service
) -> None:
    """The other finds it too old; nobody is asked anew about what is refused already."""
    service.answer_all(DENIED.aged(60.0))

    found = evaluated(prechecked(cache_ttl_seconds=ages[0]), floor(cache_ttl_seconds=ages[1]))

    assert (found.reason, found.source) == (Reason.DO_NOT_DELEGATE, source)
    assert found.next_step == "retry_after 240 s"
    assert service.asked == []


@pytest.mark.parametrize("ages", [(10.0, 300.0), (300.0, 10.0)])
def test_only_a_layer_without_evidence_asks_by_its_own_terms(
    ages: tuple[float, float], service: Service
) -> None:
    service.answer_all(GOOD.aged(60.0))
    terms = [
        {"cache_ttl_seconds": age, "timeout_seconds": 4.0 if age < 60 else 9.0} for age in ages
    ]

    found = evaluated(prechecked(**terms[0]), floor(**terms[1]))

    assert found.reason is None
    assert found.observation == (GOOD if ages[1] < 60 else GOOD.aged(60.0))
    assert service.asked == [asked(PUBLIC_ORIGIN, 4.0, 10.0)]


@pytest.mark.parametrize(
    ("answer", "ages", "waited"),
    [
        (GOOD, (60.0, 60.0), True),
        (GOOD.aged(5.0), (60.0, 1.0), True),
        (GOOD.aged(5.0), (1.0, 60.0), True),
        (GOOD.aged(5.0), (60.0, 60.0), False),
        (EvidenceUnavailable(SubReason.CONNECT, NO_CLAIMS), (60.0, 60.0), True),
    ],
)
def test_only_kept_evidence_is_had_without_waiting(
    answer: Any, ages: tuple[float, float], waited: bool, service: Service
) -> None:
    """Else the binding must be compared again: anything may have changed meanwhile."""
    service.answer_all(answer)
    layers = [
        prechecked(policy=LENIENT, cache_ttl_seconds=ages[0]),
        floor(policy=LENIENT, cache_ttl_seconds=ages[1]),
    ]

    assert asyncio.run(evaluate(layers))[1] is waited


@pytest.mark.parametrize(("answer", "waited"), [(CAUTION, True), (CAUTION.aged(5.0), False)])
def test_a_refusal_says_as_well_whether_it_was_waited_for(
    answer: Observation, waited: bool, service: Service
) -> None:
    service.answer_all(answer)

    judgement, had_to_wait = asyncio.run(evaluate([prechecked()]))

    assert (judgement.reason, had_to_wait) == (Reason.CAUTION_NOT_PERMITTED, waited)


@pytest.mark.parametrize("evidence", [evidence for evidence, _, _ in EVIDENCE])
@pytest.mark.parametrize(
    ("selected", "below", "source"),
    [
        (STRICT, LENIENT, Source.SELECTED),
        (LENIENT, STRICT, Source.FLOOR),
        (STRICT, STRICT, Source.SELECTED),
    ],
)
def test_each_demand_decides_by_its_own_policy_and_the_first_that_refuses_wins(
    selected: Policy,
    below: Policy,
    source: Source,
    evidence: Observation | Refusal,
    service: Service,
) -> None:
    service.answer_all(evidence)
    reason, sub_reason = next(row[1:] for row in EVIDENCE if row[0] is evidence)
    if evidence is EVIDENCE[0][0]:  # the verdict do_not_delegate, which no policy lets pass
        source = Source.SELECTED

    found = evaluated(
        prechecked(policy=selected, cache_ttl_seconds=60.0),
        floor(policy=below, cache_ttl_seconds=60.0),
    )

    assert found == Judgement(
        reason=reason,
        sub_reason=sub_reason,
        server="weather",
        endpoint=SHOWN,
        tool="forecast",
        observation=evidence if isinstance(evidence, Observation) else None,
        error=sub_reason,
        tolerated=(),
        guild_origin=PUBLIC_ORIGIN,
        cache_ttl_seconds=60.0,
        source=source,
    )
    assert service.asked == [asked(PUBLIC_ORIGIN, 5.0, 60.0)]


UNKNOWN_AND_CAUTION = observation(
    protocol_handshake=Status.UNKNOWN,
    agent_card_signed=Status.UNKNOWN,
    payment_claim_holds=Status.FAILED,
)


@pytest.mark.parametrize(
    ("required", "tolerated"),
    [
        (([], []), ["delegate_with_caution"]),
        ((["agent_card_signed"], []), ["agent_card_signed", "delegate_with_caution"]),
        (([], ["agent_card_signed"]), ["delegate_with_caution", "agent_card_signed"]),
        (
            (["agent_card_signed"], ["protocol_handshake"]),
            ["agent_card_signed", "delegate_with_caution", "protocol_handshake"],
        ),
        (
            (["protocol_handshake", "agent_card_signed"], ["agent_card_signed"]),
            ["protocol_handshake", "agent_card_signed", "delegate_with_caution"],
        ),
    ],
)
def test_all_that_any_demand_tolerated_is_named_once(
    required: tuple[list[str], list[str]], tolerated: list[str], service: Service
) -> None:
    service.answer_all(UNKNOWN_AND_CAUTION)
    policies = [
        Policy(tuple(map(Check, names)), True, OnCaution.ALLOW, OnUnavailable.DENY)
        for names in required
    ]

    found = evaluated(prechecked(policy=policies[0]), floor(policy=policies[1]))

    assert found.reason is None
    assert found.tolerated == tuple(tolerated)


def test_what_the_first_demand_tolerated_is_no_part_of_the_second_s_refusal(
    service: Service,
) -> None:
    service.answer_all(observation(agent_card_signed=Status.UNKNOWN))
    tolerant = Policy(STRICT.required_proven, tolerate_unknown_required=True)

    assert evaluated(prechecked(policy=tolerant)).tolerated == ("agent_card_signed",)
    found = evaluated(prechecked(policy=tolerant), floor(policy=STRICT))

    assert (found.reason, found.source) == (Reason.REQUIRED_CHECK_UNKNOWN, Source.FLOOR)
    assert found.tolerated == ()


@pytest.mark.parametrize(
    ("policies", "seconds"), [((STRICT, LENIENT), 290), ((LENIENT, STRICT), 50)]
)
def test_a_refusal_lasts_as_long_as_the_evidence_of_the_layer_that_refuses(
    policies: tuple[Policy, Policy], seconds: int, service: Service
) -> None:
    service.answer_all(
        observation(agent_card_signed=Status.UNKNOWN, endpoint_reachable=Status.UNKNOWN).aged(10.0)
    )

    found = evaluated(
        prechecked(policy=policies[0], cache_ttl_seconds=300.0),
        floor(policy=policies[1], cache_ttl_seconds=60.0),
    )

    assert found.next_step == f"retry_after {seconds} s"


# What is no refusal


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "error", [RuntimeError("unforeseen"), Refusal(Reason.BINDING_CHANGED), OSError(5)]
)
def test_what_is_unforeseen_passes_through(error: Exception, count: int, service: Service) -> None:
    service.answer_all(error)

    with pytest.raises(type(error)) as caught:
        evaluated(*[prechecked(policy=LENIENT), floor(policy=LENIENT)][:count])

    assert caught.value is error
    assert len(service.asked) == 1


def test_cancellation_passes_through(service: Service) -> None:
    service.answer_all(asyncio.CancelledError())

    async def cancelled() -> str:
        try:
            await evaluate([prechecked(policy=LENIENT), floor(policy=LENIENT)])
        except asyncio.CancelledError:
            return "cancelled"
        return "evaluated"

    assert asyncio.run(cancelled()) == "cancelled"
    assert len(service.asked) == 1
