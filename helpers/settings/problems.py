"""What can be wrong with the settings, and with which key.

Rules of this module:

1. Every problem is one member of `Problem`, with a sentence that says what is wrong and one
   that mends it. There is no text beside them.
2. A problem names the path of its key, never a value. A key is the operator's free text, so
   a path is shown as printable ASCII, cut to size.

The module imports nothing of the framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..reasons import Reason, Refusal
from ..terms import Term

if TYPE_CHECKING:
    from ..binding.approval import Approval

MAX_PATH_CHARACTERS: Final = 80


class Problem(Term):
    """What can be wrong with one key; the value is the sentence that says so.

    Attributes:
        remedy: the sentence that mends it.
    """

    remedy: str

    UNREADABLE = (
        "cannot be read as plain JSON, or is gone",
        "Write one JSON object, in UTF-8 and without comments, that Agent Zero may read.",
    )
    TAKEN_FOR_PATTERN = (
        "is under a folder, project or profile with *, ? or [ in its name, which Agent Zero takes "
        "for a pattern",
        "Rename the folder, the project or the profile.",
    )
    NOT_AN_OBJECT = "must be an object, {...}", "Write an object, or leave the key out."
    UNKNOWN_KEY = "is not a setting", "Remove the key, or write the name of a setting."
    NOT_A_SERVER = (
        "must be an approved URL, or an object that has one as url",
        'Write "<URL>", or {"url": "<URL>", "tools": {"<tool>": "sha256:<digest>"}}.',
    )
    NOT_TEXT = "must be a text", "Write the URL in quotation marks."
    NOT_BOOLEAN = "must be true or false", "Write true or false, without quotation marks."
    NOT_A_NUMBER = "must be a number of seconds", "Write a number, without quotation marks."
    OUT_OF_RANGE = (
        "is outside its limits",
        "Write a number within the limits: timeout_seconds 0.1 to 15; "
        "cache_ttl_seconds 0 to 86400.",
    )
    NOT_A_CHOICE = (
        "is none of the permitted values",
        "Write deny or allow; on_unavailable may also be allow_unreachable.",
    )
    NOT_CHECK_NAMES = (
        "must be a list of known check names, each at most once",
        "Write a list of: endpoint_reachable, protocol_handshake, agent_card_resolves, "
        "agent_card_signed, payment_claim_holds, independent_evidence.",
    )
    NOT_LOCAL_ORIGIN = (
        "must be http://127.0.0.1:<port> or http://[::1]:<port>",
        "Write the origin of a service on this machine, with nothing after the port.",
    )
    NAME_UNUSABLE = (
        "is not usable as a server name",
        "Write the name as it stands in the MCP settings, at most 128 characters.",
    )
    NAME_TWICE = (
        "is the same server name as another once normalised",
        "Keep one of the two; Agent Zero takes them for the same server.",
    )
    NOT_A_DIGEST = (
        "must be sha256: and 64 hexadecimal digits in lower case",
        'Copy the digest from the output of the command pin; with "tools": {} it can run.',
    )
    NOT_HEADER_NAMES = (
        "must be a list of header names, each at most once",
        'Write a list such as ["authorization"]; [] permits no header, and null permits any.',
    )
    FLOOR_ELSEWHERE = (
        "counts in the global config.json only",
        "Remove the key from this file, or move it to the global config.json.",
    )


class InvalidConfiguration(Refusal):
    """The settings do not validate.

    Attributes:
        problems: every problem as (key path, problem).
        protected_servers: the protected names with what is approved for them, as far as these
            can be read; None when it cannot be told which servers are protected.
    """

    def __init__(
        self,
        problems: tuple[tuple[str, Problem], ...],
        protected_servers: Mapping[str, Approval] | None,
    ) -> None:
        super().__init__(Reason.INVALID_CONFIGURATION)
        self.problems = problems
        self.protected_servers = protected_servers


def shown_path(path: str) -> str:
    """Return a key path as printable ASCII, cut to size."""
    text = path[: MAX_PATH_CHARACTERS + 1].encode("unicode_escape").decode("ascii")
    return text if len(text) <= MAX_PATH_CHARACTERS else text[: MAX_PATH_CHARACTERS - 3] + "..."
