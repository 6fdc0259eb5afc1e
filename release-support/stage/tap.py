"""Counts what a server receives: a TCP forwarder in front of it, in threads.

A refused call must not reach the tool server with a single byte. Counting in front of the
server sees also what an HTTP server would not report.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Self


class Tap:
    """Forwards connections to a port on this machine and counts them.

    Attributes:
        port: where the tap listens, on 127.0.0.1.
        target_port: where it forwards to; may be changed, for new connections.
        connections: how many were made.
        received: the bytes that clients sent, joined in the order in which they came.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._watched: tuple[bytes, Callable[[], object]] | None = None
        self.port: int = self._listener.getsockname()[1]
        self.reset()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Count from zero, and watch for nothing."""
        with self._lock:
            self._watched = None
            self.connections = 0
            self.received = b""

    def count(self, words: bytes) -> int:
        """Return how often clients have sent these bytes."""
        with self._lock:
            return self.received.count(words)

    def once(self, words: bytes, action: Callable[[], object]) -> None:
        """Do something when clients have sent these bytes, before the server gets them."""
        with self._lock:
            self._watched = (words, action)

    def close(self) -> None:
        """Stop listening and close every connection."""
        with self._lock:
            sockets = [self._listener, *self._open]
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:  # the server has gone; the client shall see it go too
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._connect, args=(client, server), daemon=True).start()

    def _connect(self, client: socket.socket, server: socket.socket) -> None:
        """Forward both ways until both have ended; a suite makes more connections than may be open."""
        back = threading.Thread(target=self._forward, args=(server, client, False), daemon=True)
        back.start()
        self._forward(client, server, counted=True)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _forward(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counted:
                    self._note(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _note(self, data: bytes) -> None:
        action = None
        with self._lock:
            self.received += data
            if self._watched and self._watched[0] in self.received:
                (_, action), self._watched = self._watched, None
        if action is not None:
            action()
