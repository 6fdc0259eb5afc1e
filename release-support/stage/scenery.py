"""What the demo starts, and ends: servers, a web page, the service, a host with the plugin."""

from __future__ import annotations

import contextlib
import http.server
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from . import tool_server
from .boot import SUPPORT, boot
from .tap import Tap

if TYPE_CHECKING:
    from .scenes import Stage


@contextlib.contextmanager
def set_up() -> Iterator[Stage]:
    """Start everything, with the plugin installed in a host that lives in a temporary folder."""
    with contextlib.ExitStack() as everything:
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        root = Path(everything.enter_context(folder))
        notes = everything.enter_context(tool_server.running())
        archive = everything.enter_context(tool_server.running())
        guild_origin = everything.enter_context(_local_guild())
        web_port = everything.enter_context(_web_page())
        boot(root)
        from .chats import Operator
        from .scenes import Stage

        yield Stage(
            Operator(root),
            everything.enter_context(Tap(notes)),
            everything.enter_context(Tap(archive)),
            web_port,
            guild_origin,
        )


@contextlib.contextmanager
def _local_guild() -> Iterator[str]:
    """Run the preflight service in a process of its own; give its origin."""
    command = [sys.executable, str(SUPPORT / "local_guild"), "--port", "0"]
    # In a session of its own: Ctrl-C is for the demo, which ends it.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


@contextlib.contextmanager
def _web_page() -> Iterator[int]:
    """Serve one HTML page at every path; give the port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>Welcome</title><p>Nothing to call here."
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
