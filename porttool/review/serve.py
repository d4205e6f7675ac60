"""The review page served to the browser of this machine, once, under an address nobody guesses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

HOST = "127.0.0.1"
IDLE_S = 120.0  # so long a browser may take to come
LINGER_S = 10.0  # so long the page can be loaded once more after that
_SILENT_S = 2.0  # a browser opens connections ahead and says nothing on them


def serve(
    page: str,
    opened: Callable[[str], None],
    *,
    idle_s: float = IDLE_S,
    linger_s: float = LINGER_S,
) -> bool:
    """Serve a page on loopback, hand its address to `opened`, and return whether it was fetched.

    Ends by itself: `linger_s` after it was last fetched, `idle_s` after the start if it never was.
    """
    server = _Server(page.encode())
    with server:
        opened(server.address)
        end = time.monotonic() + idle_s
        while (left := end - time.monotonic()) > 0:
            server.timeout = left
            before = server.num_fetched
            server.handle_request()
            if server.num_fetched > before:
                end = time.monotonic() + linger_s
    return server.num_fetched > 0


class _Server(HTTPServer):
    """One page under one random path."""

    def __init__(self, page: bytes) -> None:
        super().__init__((HOST, 0), _Handler)
        self.page = page
        self.path = f"/{secrets.token_urlsafe(18)}/"
        self.num_fetched = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a browser that went away half-way is still waited for."""

    @property
    def host(self) -> str:
        return f"{HOST}:{self.server_port}"

    @property
    def address(self) -> str:
        return f"http://{self.host}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    timeout = _SILENT_S
    server: _Server

    def do_GET(self) -> None:
        # A page of somebody else's, under a name that leads here, asks with its own host.
        asked = self.headers.get("Host")
        if self.path != self.server.path or asked != self.server.host:
            self.send_error(404)
            return
        self.send_response(200)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Length": str(len(self.server.page)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.page)
        self.server.num_fetched += 1

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: standard error is for what a person should read."""
