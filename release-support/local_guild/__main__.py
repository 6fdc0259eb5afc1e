"""The command that runs the preflight service: `python release-support/local_guild`."""

import argparse
import re
import signal
import sys
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType

if not __package__:
    # Run as a folder: Python put the folder itself on the path, but its modules import each other
    # as a package.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

MISSING = (
    "local_guild: this Python has no {}; use the one that runs Agent Zero,"
    " or .venv/bin/python once release-support/demo has run"
)

try:
    from local_guild import service
    from local_guild.connection import tls_context
    from local_guild.credentials import CredentialsFor
except ModuleNotFoundError as missing:
    sys.exit(MISSING.format(missing.name))

DEFAULT_PORT = 8787
PLUGIN = Path(__file__).resolve().parents[2] / "plugin.yaml"
ROOMS = PLUGIN.parent / "helpers"
PACKAGE = "usr.plugins.agent_guild_preflight.helpers"
WITH_HEADERS = "approved URLs are probed with the headers that the MCP settings hold for them"


def main() -> None:
    """Read the command line and serve until Ctrl-C or SIGTERM.

    Exits 0 then, and 2 if the service cannot be started.
    """
    arguments = _parser().parse_args()
    if arguments.version:
        print(f"agent_guild_preflight {_version()}")
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    folder = arguments.credentials_of
    credentials_for = None if folder is None else _credentials_of(folder)
    try:
        listener = service.listen(arguments.host, arguments.port)
    except OSError as error:
        sys.exit(
            _complain(f"cannot listen on {arguments.host} port {arguments.port}: {error.strerror}")
        )
    with listener:
        try:
            tls_context()
        except OSError:
            sys.exit(_complain("SSL_CERT_FILE or SSL_CERT_DIR names no readable certificates"))
        said = f"local guild listens on {service.origin(listener)}"
        if credentials_for:
            said += f"\n{WITH_HEADERS}"
        service.serve(
            listener,
            ready=lambda: print(said, flush=True),
            credentials_for=credentials_for,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="local_guild",
        description="A preflight service for programs on this machine."
        " It probes the URL it is asked about and says what it saw.",
        epilog="example:\n"
        "  python release-support/local_guild --port 8787\n"
        "  curl -A agent_guild_preflight/0.1.0 \\\n"
        "    'http://127.0.0.1:8787/preflight?url=http%3A%2F%2F127.0.0.1%3A8000%2Fmcp'\n"
        "  python release-support/local_guild --port 8787 --credentials-of /a0",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help="port to listen on, 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        choices=service.LOOPBACK_ADDRESSES,
        default="127.0.0.1",
        help="loopback address (default: %(default)s)",
    )
    parser.add_argument(
        "--credentials-of",
        type=_agent_zero,
        metavar="FOLDER",
        help="probe approved URLs with the headers that the MCP settings of this Agent Zero folder"
        " hold for exactly that URL; they are read for each probe and sent nowhere else",
    )
    parser.add_argument(
        "--version", action="store_true", help="show the version of the plugin and end"
    )
    return parser


def _version() -> str:
    """Return the version that plugin.yaml states; without a parser, which not every Python has."""
    stated = re.search(r"^version: *(\S+)", PLUGIN.read_text(encoding="utf-8"), re.M)
    assert stated is not None
    return stated[1]


def _port(text: str) -> int:
    """A port number from the command line.

    Raises `ArgumentTypeError` if it is none.
    """
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def _agent_zero(text: str) -> Path:
    """An Agent Zero folder from the command line.

    Raises `ArgumentTypeError` if it is none.
    """
    try:
        root = Path(text).resolve()
        is_root = bool(text) and (root / "usr").is_dir()
    except (OSError, RuntimeError, ValueError):  # not ours to enter, a loop of links, no name
        is_root = False
    if not is_root:
        raise argparse.ArgumentTypeError(
            "it must be the Agent Zero folder, the one that has the folder usr"
        )
    return root


def _credentials_of(root: Path) -> CredentialsFor:
    """What reads the settings of an Agent Zero folder, with the plugin's own rooms."""
    sys.dont_write_bytecode = True  # the plugin's folder belongs to Agent Zero
    if PACKAGE not in sys.modules:
        _name_rooms()
    try:
        from local_guild import agent_zero
    except ModuleNotFoundError as missing:
        sys.exit(MISSING.format(missing.name))
    return partial(agent_zero.credentials_for, root)


def _name_rooms() -> None:
    """Let the plugin's rooms be imported by their one name, wherever its folder lies."""
    parts = PACKAGE.split(".")
    for count in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:count]))
        package.__path__ = [str(ROOMS)] if count == len(parts) else []
        sys.modules[package.__name__] = package


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def _complain(problem: str) -> int:
    """Print one line about a problem; returns the exit status that goes with it."""
    print(f"local_guild: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
