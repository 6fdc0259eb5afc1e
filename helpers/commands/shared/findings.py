"""What `lint` can find beside invalid settings: the closed vocabulary of its findings.

Rules of this module:

1. Every finding is one member of `Finding`, with a sentence that says what is so and one that
   mends it. Beside them stand a subject (a server's name, a file, a variable or a URL) and a
   detail that says where or which.
2. A finding is a warning, unless it is one of STOPS_THE_GATE: these are problems, because the
   gate does not run, or nobody can tell whether it does and by which settings. What makes the
   settings invalid is a member of `Problem`.

The module imports nothing of the framework and nothing of the other rooms.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...terms import Term


class Finding(Term):
    """What can be worth saying: value, sentence, remedy."""

    sentence: str
    remedy: str

    # Which settings are in force
    PROFILE_UNKNOWN = (
        "profile_unknown",
        "There is no agent profile of this name.",
        "Write the name of a folder in agents or usr/agents.",
    )
    OTHER_FILE_INVALID = (
        "other_file_invalid",
        "This file is not valid; it is not in force here.",
        "Mend it before it comes into force for another agent, or remove it.",
    )
    NOT_PROTECTED_HERE = (
        "not_protected_here",
        "The global settings protect this server, and those in force here do not.",
        "List the server in the file in force, or set floor to true in the global config.json.",
    )

    # What the settings say
    KEY_REPEATED = (
        "key_repeated",
        "The file repeats a key; Agent Zero keeps the last one and drops the rest.",
        "Keep the one that is meant.",
    )
    FLOOR_GIVES_WAY = (
        "floor_gives_way",
        "This file sets floor, but it gives way to a global config.json and to updates.",
        "Set floor in the global config.json.",
    )
    FIXTURE_IGNORED = (
        "fixture_ignored",
        "The file names a local service that the global file does not name, so it is ignored, "
        "and the service that the global file names is asked.",
        "Name the same fixture_guild_origin in the global config.json, or remove it here.",
    )
    PRIVATE_HOSTS_IGNORED = (
        "private_hosts_ignored",
        "The file permits private endpoints, and the global file does not, so that is ignored.",
        "Set allow_private_hosts to true in the global config.json as well, or remove it here.",
    )
    UNAVAILABLE_ALLOWED = (
        "unavailable_allowed",
        "policy.on_unavailable is allow: a call goes on without any usable evidence.",
        "Write deny or allow_unreachable, unless that is meant.",
    )
    ENVIRONMENT_OVERRIDES = (
        "environment_overrides",
        "This variable overrides a default; the commands do not read its value.",
        "Write a global config.json; no variable changes that.",
    )

    # What the settings protect
    URL_REFUSED = (
        "url_refused",
        "The gate refuses the approved URL.",
        "Write another URL, here and in the MCP settings: one that begins with http:// or https://, "
        "then has a host, and no user part, ? or #.",
    )
    URL_NOT_CANONICAL = (
        "url_not_canonical",
        "The gate refuses the approved URL: it is not written in its one spelling.",
        "Here and in the MCP settings: scheme and host in lower case, no default port, a path "
        "that begins with / and has no . or .. in it, percent-encodings in upper case and only "
        "where they are needed.",
    )
    URL_PRIVATE = (
        "url_private",
        "The gate refuses the approved URL: it is private.",
        "Set allow_private_hosts to true, in this file and in the global config.json, and name a "
        "local service in fixture_guild_origin of the global one.",
    )
    SERVICE_REFUSES_PORT = (
        "service_refuses_port",
        "The public service refuses this port, so every call will be refused.",
        "Serve the endpoint on port 80, 443, 8080 or 8443.",
    )
    SERVICE_REFUSES_LENGTH = (
        "service_refuses_length",
        "The public service refuses a URL of more than 500 characters, so every call will be "
        "refused.",
        "Serve the endpoint under a shorter URL.",
    )
    NO_TOOL_PINNED = (
        "no_tool_pinned",
        "The table of pinned tools is empty, so every tool is refused.",
        "Fill it from the output of the command pin, or leave tools out.",
    )

    # How that agrees with the MCP settings
    MCP_UNREADABLE = (
        "mcp_unreadable",
        "The MCP settings in this file cannot be read as plain JSON; Agent Zero may still read "
        "them, but what it makes of them cannot be told here.",
        "Write them as plain JSON, without comments.",
    )
    SERVER_NOT_CONFIGURED = (
        "server_not_configured",
        "No MCP server carries the protected name.",
        "Add the server to the MCP settings, or mend or remove its name in protected_servers. Where "
        "only a project has it, run lint with that project.",
    )
    SERVER_DISABLED = (
        "server_disabled",
        "Only a disabled MCP server carries the protected name.",
        "Enable it in the MCP settings, or remove its name from protected_servers.",
    )
    NAME_REPEATED = (
        "name_repeated",
        "More than one MCP server carries this name, so every call will be refused.",
        "Rename or remove all but one in the MCP settings.",
    )
    NAMES_ALIKE = (
        "names_alike",
        "More than one MCP server carries this name once it is normalised, so every call will be "
        "refused.",
        "Rename or remove all but one in the MCP settings.",
    )
    SERVER_LOCAL = (
        "server_local",
        "The MCP server is a local one, without a URL, so every call will be refused.",
        "Remove its name from protected_servers, or give it a URL in the MCP settings.",
    )
    URL_DIFFERS = (
        "url_differs",
        "The MCP settings name another URL than the approved one, so every call will be refused.",
        "Find out which of the two is right; then make both files say the same, byte for byte.",
    )
    TLS_NOT_VERIFIED = (
        "tls_not_verified",
        "The MCP settings do not have TLS verified, so every call will be refused.",
        "Set verify to true, or leave it out.",
    )
    TYPE_NOT_NAMED = (
        "type_not_named",
        "The MCP settings name no type, so Agent Zero connects by SSE.",
        'Write "type": "streamable-http" if that is what the server speaks, or "type": "sse".',
    )
    HEADER_NAMES_HOST = (
        "header_names_host",
        "A header in the MCP settings names another host, or sends calls elsewhere, so every call "
        "will be refused.",
        "Remove the header.",
    )
    HEADER_NOT_LISTED = (
        "header_not_listed",
        "The MCP settings have a header that the entry does not list, so every call will be refused.",
        "Find out who wrote it; then add its name to headers of the entry, or remove the header.",
    )
    HEADERS_UNREADABLE = (
        "headers_unreadable",
        "The headers in the MCP settings are not an object, so every call will be refused.",
        "Write an object of names and values, or leave headers out.",
    )
    PROTECTED_BY_URL = (
        "protected_by_url",
        "The server is not listed, but has an approved URL, so it is protected too.",
        "Nothing, if that is meant.",
    )

    # Whether the gate runs at all
    PLUGIN_MISSING = (
        "plugin_missing",
        "The plugin is not there, so nothing is checked.",
        "Put it into the folder usr/plugins/agent_guild_preflight, with its plugin.yaml.",
    )
    PLUGIN_MISPLACED = (
        "plugin_misplaced",
        "This folder holds the plugin, but not where it works.",
        "Move it to usr/plugins/agent_guild_preflight, or remove it.",
    )
    HOOK_MISSING = (
        "hook_missing",
        "The plugin's hook is not there, so nothing is checked.",
        "Install the plugin anew.",
    )
    SWITCHED_OFF = (
        "switched_off",
        "This file switches the plugin off, so nothing is checked.",
        "Remove the file, or switch the plugin on in Agent Zero.",
    )
    SWITCH_OVERRULED = (
        "switch_overruled",
        "This file switches the plugin off, but a more specific one switches it on here.",
        "Nothing, if that is meant; for other agents the plugin is off.",
    )
    HOOK_REPLACED = (
        "hook_replaced",
        "This file takes the place of the plugin's hook, so nothing is checked.",
        "Find out who wrote it; remove or rename it.",
    )
    HOOK_IMITATED = (
        "hook_imitated",
        "This file can give its hook the name of the plugin's own, so perhaps nothing is checked.",
        "Find out who wrote it, and read it; remove it unless it does something else.",
    )
    SETTINGS_HOOKED = (
        "settings_hooked",
        "The framework runs this file when it reads settings, so perhaps other settings are in "
        "force than the files say, or none.",
        "Find out who wrote it, and read it; remove it unless it leaves this plugin's settings alone.",
    )
    SHARED_WITH_NONE = (
        "shared_with_none",
        "The framework confuses agents without a project or profile with those of one that is named "
        "none; this file, which is for the others, counts for both, so perhaps nothing is checked.",
        "Rename the project or the profile that is named none, and restart Agent Zero.",
    )
    SHADOWED_ELSEWHERE = (
        "shadowed_elsewhere",
        "For agents of another project or profile this file switches the plugin off, takes the "
        "place of its hook, or may change its settings.",
        "Run lint with that project or profile to see more.",
    )

    # What the endpoints do, with --network
    REDIRECT_SLASH = (
        "redirect_slash",
        "The endpoint redirects to the same URL with a slash at its end.",
        "Write the slash here and in the MCP settings.",
    )
    REDIRECT_PATH = (
        "redirect_path",
        "The endpoint redirects to another path.",
        "Find out which; approve that URL if it is the right one.",
    )
    REDIRECT_ORIGIN = (
        "redirect_origin",
        "The endpoint redirects to another scheme, host or port; Agent Zero follows, and what is "
        "there is not checked.",
        "Find out where it leads; approve that URL if it is the right one.",
    )
    REDIRECT_UNCLEAR = (
        "redirect_unclear",
        "The endpoint redirects to itself, or to what is no URL.",
        "Have the server's operator mend it.",
    )
    NO_ANSWER = (
        "no_answer",
        "The endpoint gave no HTTP answer.",
        "See whether the server runs and can be reached from here.",
    )


# While one of these is so, nobody can tell that the gate runs by the settings that are shown.
MAY_STOP_THE_GATE: Final = frozenset(
    {Finding.HOOK_IMITATED, Finding.SETTINGS_HOOKED, Finding.SHARED_WITH_NONE}
)

# While one of these is so, the gate does not run, or nobody can tell.
STOPS_THE_GATE: Final = MAY_STOP_THE_GATE | {
    Finding.PLUGIN_MISSING,
    Finding.HOOK_MISSING,
    Finding.SWITCHED_OFF,
    Finding.HOOK_REPLACED,
}


class Found(NamedTuple):
    """One finding.

    Attributes:
        finding: what is so.
        subject: of what; ready to be shown.
        detail: where or which; ready to be shown, empty for none.
    """

    finding: Finding
    subject: str
    detail: str = ""

    @property
    def is_problem(self) -> bool:
        return self.finding in STOPS_THE_GATE
