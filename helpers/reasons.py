"""The closed vocabulary that every room speaks.

Rules of this module:

1. Every way a call can be refused is one member of `Reason`; some carry a
   `SubReason`, which belongs to exactly one reason.
2. Each reason names its stage, its next step, one fixed sentence, and what an operator
   does about it. The denial, the chat log, the record, the commands and the documentation
   use these and no text beside them. A sub-reason may have a remedy of its own, which then
   takes the place of its reason's.
3. Nothing here is computed from input. A new way to refuse begins with a member here.

The module imports nothing of the framework, and of the other rooms only `terms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from .terms import Term


class Stage(StrEnum):
    """Where in the way of a call a refusal is decided, in the order of that way."""

    CONFIGURATION = "configuration"
    DISPATCH = "dispatch"
    ENDPOINT = "endpoint"
    BINDING = "binding"
    EVIDENCE = "evidence"
    POLICY = "policy"
    RECHECK = "re-check"
    EXECUTION = "execution"
    ANY = "any"


class NextStep(Term):
    """Who or what can change the outcome. `sentence` is shown to the model."""

    sentence: str

    OPERATOR = (
        "operator",
        "Do not repeat this call; only the operator can change this. Tell the user.",
    )
    RETRY_LATER = "retry_later", "The same call may be tried again later."
    RETRY_AFTER = "retry_after", "The same call gives the same answer until then."


class Reason(Term):
    """Why a call was refused: value, stage, next step, sentence, remedy.

    The remedy says to the operator what to do; no model is shown it.

    What the evidence shows may change the next step, see `Judgement.next_step`.
    """

    stage: Stage
    next_step: NextStep
    sentence: str
    remedy: str

    INVALID_CONFIGURATION = (
        "invalid_configuration",
        Stage.CONFIGURATION,
        NextStep.OPERATOR,
        "The gate's settings cannot be read or do not validate.",
        "Run lint; it names every key that is wrong and what mends it.",
    )
    DISPATCH_MISMATCH = (
        "dispatch_mismatch",
        Stage.DISPATCH,
        NextStep.RETRY_LATER,
        "The announced tool and the bound tool are not the same call.",
        "Nothing, if it stays rare: two calls met on one agent. If it repeats, look for a "
        "hook or a plugin that renames tools.",
    )
    ENDPOINT_REFUSED = (
        "endpoint_refused",
        Stage.ENDPOINT,
        NextStep.OPERATOR,
        "The approved URL must not be disclosed or is not written in its one spelling.",
        "Write the URL in its one spelling, here and in the MCP settings; for a private host set "
        "allow_private_hosts and a local service. See the sub-reason.",
    )
    SERVER_NOT_CONFIGURED = (
        "server_not_configured",
        Stage.BINDING,
        NextStep.OPERATOR,
        "No live MCP server carries the protected name.",
        "Add the server to the MCP settings, enable it, or remove its name from protected_servers.",
    )
    SERVER_AMBIGUOUS = (
        "server_ambiguous",
        Stage.BINDING,
        NextStep.OPERATOR,
        "More than one live MCP server carries the protected name.",
        "Rename or remove one of the servers in the MCP settings.",
    )
    SERVER_NOT_REMOTE = (
        "server_not_remote",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The protected name belongs to a server that is not a remote one.",
        "Remove the name from protected_servers, or give the server a URL in the MCP settings.",
    )
    URL_MISMATCH = (
        "url_mismatch",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The MCP settings name another URL than the approved one.",
        "Find out who changed the URL; then make both files say the same, byte for byte.",
    )
    TRANSPORT_ALTERED = (
        "transport_altered",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The URL is the approved one, but TLS verification is off, or a header sends the call "
        "elsewhere or is not permitted.",
        "Set verify to true in the server's MCP settings, and remove the header there; lint names it.",
    )
    TOOL_NOT_EXPOSED = (
        "tool_not_exposed",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The server does not expose this tool now.",
        "See whether the server can be reached and whether the tool is disabled; then "
        "reload the MCP settings.",
    )
    TOOL_NOT_PINNED = (
        "tool_not_pinned",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The server's tools are pinned, and this one is not among them.",
        "Read the tool's definition; if you approve it, add its digest from the command pin.",
    )
    TOOL_AMBIGUOUS = (
        "tool_ambiguous",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The server exposes more than one tool of this name, and its tools are pinned.",
        "Have the server's operator name each tool once.",
    )
    DEFINITION_CHANGED = (
        "definition_changed",
        Stage.BINDING,
        NextStep.OPERATOR,
        "The tool's name, description or input schema is not the one that was pinned.",
        "Compare with the command pin; pin the new definition only after reading it.",
    )
    EVIDENCE_UNAVAILABLE = (
        "evidence_unavailable",
        Stage.EVIDENCE,
        NextStep.RETRY_LATER,
        "The preflight service gave no usable answer.",
        "Try again later; see the sub-reason. on_unavailable says what a missing answer means.",
    )
    EVIDENCE_INCONSISTENT = (
        "evidence_inconsistent",
        Stage.EVIDENCE,
        NextStep.RETRY_LATER,
        "The preflight service gave an answer that breaks its own contract.",
        "Try again later. If it stays, the service has changed its contract: update the plugin.",
    )
    DO_NOT_DELEGATE = (
        "do_not_delegate",
        Stage.POLICY,
        NextStep.RETRY_LATER,
        "The endpoint was seen not to do what it is listed for.",
        "The command check shows which of the service's checks failed; repair the server.",
    )
    REQUIRED_CHECK_FAILED = (
        "required_check_failed",
        Stage.POLICY,
        NextStep.RETRY_LATER,
        "A check that the policy requires has failed.",
        "The command check shows which one; repair the server, or change policy.required_proven.",
    )
    REQUIRED_CHECK_UNKNOWN = (
        "required_check_unknown",
        Stage.POLICY,
        NextStep.RETRY_LATER,
        "A check that the policy requires could not be made.",
        "The command check shows which one; tolerate_unknown_required permits what could not be "
        "checked.",
    )
    CAUTION_NOT_PERMITTED = (
        "caution_not_permitted",
        Stage.POLICY,
        NextStep.OPERATOR,
        "The verdict asks for caution, and the policy does not permit that.",
        "The command check shows what failed; set policy.on_caution to allow if you accept that.",
    )
    BINDING_CHANGED = (
        "binding_changed",
        Stage.RECHECK,
        NextStep.RETRY_LATER,
        "The server's settings changed while the call was being checked.",
        "Find out what changed the server's settings just then.",
    )
    BINDING_CHANGED_DURING_CALL = (
        "binding_changed_during_call",
        Stage.EXECUTION,
        NextStep.OPERATOR,
        "The tool ran, and its result is withheld: the server's settings changed meanwhile, or "
        "nobody can tell where the call went.",
        "Find out what changed the server's settings just then, or which plugin answers in the "
        "tool's place; assume that the call was made.",
    )
    INTERNAL_ERROR = (
        "internal_error",
        Stage.ANY,
        NextStep.OPERATOR,
        "The gate met a condition that it does not know.",
        "Report it, with what explain --last shows as unforeseen: an exception's class and a line of "
        "the plugin.",
    )


class SubReason(Term):
    """The finer cause of three of the reasons: value, the reason it belongs to, sentence.

    `remedy` says what to do, as for a reason.
    """

    reason: Reason
    sentence: str

    SCHEME = "scheme", Reason.ENDPOINT_REFUSED, "The scheme is not http or https."
    USERINFO = "userinfo", Reason.ENDPOINT_REFUSED, "The URL holds a user part."
    QUERY = "query", Reason.ENDPOINT_REFUSED, "The URL holds a question mark."
    FRAGMENT = "fragment", Reason.ENDPOINT_REFUSED, "The URL holds a number sign."
    FORBIDDEN_CHARACTER = (
        "forbidden_character",
        Reason.ENDPOINT_REFUSED,
        "The URL holds a character that no URL may hold.",
    )
    HOST_MISSING = "host_missing", Reason.ENDPOINT_REFUSED, "The URL names no host."
    HOST_SYNTAX = (
        "host_syntax",
        Reason.ENDPOINT_REFUSED,
        "The host is not a well-formed name or address.",
    )
    HOST_NOT_PUBLIC = "host_not_public", Reason.ENDPOINT_REFUSED, "The host is not a public one."
    NUMBER_LIKE_HOST = (
        "number_like_host",
        Reason.ENDPOINT_REFUSED,
        "The host is an address in disguise: a number, or a short, octal or hexadecimal form.",
    )
    PORT = "port", Reason.ENDPOINT_REFUSED, "The port is not a number from 1 to 65535."
    NOT_CANONICAL = (
        "not_canonical",
        Reason.ENDPOINT_REFUSED,
        "The URL is not written in its one spelling.",
    )
    TOO_LONG = "too_long", Reason.ENDPOINT_REFUSED, "The URL has more than 2,048 characters."
    PRIVATE_NEEDS_LOCAL_SERVICE = (
        "private_needs_local_service",
        Reason.ENDPOINT_REFUSED,
        "A private endpoint is only told to a local preflight service, and none is in force.",
    )

    RESOLVE = "resolve", Reason.EVIDENCE_UNAVAILABLE, "The service's name did not resolve."
    CONNECT = "connect", Reason.EVIDENCE_UNAVAILABLE, "No connection to the service."
    TLS = "tls", Reason.EVIDENCE_UNAVAILABLE, "The TLS handshake with the service failed."
    TIMEOUT = (
        "timeout",
        Reason.EVIDENCE_UNAVAILABLE,
        "The deadline passed before the answer was whole.",
    )
    HTTP_STATUS = "http_status", Reason.EVIDENCE_UNAVAILABLE, "The status was not 200."
    REDIRECT = (
        "redirect",
        Reason.EVIDENCE_UNAVAILABLE,
        "The service redirected; redirects are not followed.",
    )
    MEDIA_TYPE = "media_type", Reason.EVIDENCE_UNAVAILABLE, "The answer was not application/json."
    CONTENT_ENCODING = "content_encoding", Reason.EVIDENCE_UNAVAILABLE, "The answer was encoded."
    TOO_LARGE = "too_large", Reason.EVIDENCE_UNAVAILABLE, "The answer was larger than 1 MiB."
    STALE = (
        "stale",
        Reason.EVIDENCE_UNAVAILABLE,
        "A cache on the way answered instead of the service.",
    )
    CLOCK = (
        "clock",
        Reason.EVIDENCE_UNAVAILABLE,
        "The answer is dated in the future: this machine's clock is behind, or the service's ahead.",
    )
    PROTOCOL = "protocol", Reason.EVIDENCE_UNAVAILABLE, "The answer was not whole, correct HTTP."

    ENCODING = "encoding", Reason.EVIDENCE_INCONSISTENT, "The answer is not plain UTF-8."
    JSON = "json", Reason.EVIDENCE_INCONSISTENT, "The answer is not one JSON text."
    DUPLICATE_KEY = "duplicate_key", Reason.EVIDENCE_INCONSISTENT, "An object repeats a key."
    DEPTH = (
        "depth",
        Reason.EVIDENCE_INCONSISTENT,
        "The answer is nested more than 16 deep, or has more than 10,000 brackets.",
    )
    NUMBER = (
        "number",
        Reason.EVIDENCE_INCONSISTENT,
        "A number is not finite or has no sensible size.",
    )
    SHAPE = "shape", Reason.EVIDENCE_INCONSISTENT, "A field is missing or of another type."
    TARGET = "target", Reason.EVIDENCE_INCONSISTENT, "The answer is about another URL."
    CHECK_SET = (
        "check_set",
        Reason.EVIDENCE_INCONSISTENT,
        "A known check is missing, one is there twice, or a name is malformed.",
    )
    STATUS = (
        "status",
        Reason.EVIDENCE_INCONSISTENT,
        "A check has a status that the contract does not know.",
    )
    SUMMARY = "summary", Reason.EVIDENCE_INCONSISTENT, "The summary lists contradict the checks."
    VERDICT = (
        "verdict",
        Reason.EVIDENCE_INCONSISTENT,
        "The verdict is not the one that the checks compute.",
    )

    @property
    def remedy(self) -> str:
        """What an operator does about it: its own remedy, or its reason's."""
        return OWN_REMEDIES.get(self, self.reason.remedy)


# Where the remedy of the reason would not help.
OWN_REMEDIES: Final[Mapping[SubReason, str]] = {
    SubReason.STALE: "Take the cache out of the way to the service: a proxy of this network, or one "
    "before the service. If there is none, this machine's clock is ahead: set it.",
    SubReason.CLOCK: "Set this machine's clock, and see that something keeps it right (NTP). If it is "
    "right, the service's is wrong: try again later.",
}


class Refusal(Exception):
    """The base of every refusal that a room raises.

    Attributes:
        reason: why, always.
        sub_reason: the finer cause, or None where the reason has none.

    The message is those two words and nothing else, so that an accidental log of the
    exception cannot carry remote text or a URL.
    """

    def __init__(self, reason: Reason, sub_reason: SubReason | None = None) -> None:
        super().__init__(
            reason.value if sub_reason is None else f"{reason.value}/{sub_reason.value}"
        )
        self.reason = reason
        self.sub_reason = sub_reason
