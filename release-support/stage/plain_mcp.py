"""A small MCP server in this process, whose tools a test chooses and changes.

It answers over streamable HTTP with plain JSON, at any path, on a free loopback port. What it
does not know it does not answer; it keeps no session.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any


class PlainMcp(http.server.ThreadingHTTPServer):
    """The server.

    Attributes:
        tools: what it says when it is asked for its tools, in the form of the protocol.
    """

    daemon_threads = True

    def __init__(self, *tools: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tools = list(tools)

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def running(*tools: dict[str, Any]) -> Iterator[PlainMcp]:
    """Run a server.

    Args:
        tools: its tools, in the form of the protocol.

    Yields:
        The server.
    """
    with PlainMcp(*tools) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PlainMcp

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = self._result(message)
        if result is None:
            self._answer(202, b"")
            return
        response = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self._answer(200, json.dumps(response).encode())

    def do_GET(self) -> None:
        self._answer(404, b"")

    def _result(self, message: dict[str, Any]) -> dict[str, Any] | None:
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "plain", "version": "1"},
                }
            case "tools/list":
                return {"tools": self.server.tools}
        return None

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
