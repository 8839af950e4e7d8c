"""The page of a run on the loopback address: always current, and large traces unpacked piece by piece.

Comes in: a run folder. Goes out: ``/`` (the page), ``/overview``, ``/run/<number>`` and ``/search?text=…`` (JSON). Only
requests that name the loopback address are answered, so that no web page elsewhere can read a trace through its own
name.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stitchcuda.core.errors import SettingsError, StitchError, boundary, one_line
from stitchcuda.traces.index import TraceIndex
from stitchcuda.traces.page import details, overview, render
from stitchcuda.traces.search import runs_with

__all__ = ["PageServer", "handler_for"]

HOSTS = frozenset({"127.0.0.1", "localhost"})


class PageServer:
    """Serves one run's page until it is closed.

    Raises:
        SettingsError: the folder has no trace, or the port is taken.
    """

    def __init__(self, run_dir: Path, port: int = 0) -> None:
        with TraceIndex(run_dir):
            pass
        with boundary(SettingsError, f"cannot serve on port {port}", OSError):
            self._server = ThreadingHTTPServer(("127.0.0.1", port), handler_for(run_dir))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def serve_forever(self) -> None:
        """Answer until ``close`` is called from another thread, or the process is interrupted."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def handler_for(run_dir: Path) -> type[BaseHTTPRequestHandler]:
    """What answers the requests for one run's page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Host", "").partition(":")[0] not in HOSTS:
                self._answer(403, "text/plain", b"only on the loopback address\n")
                return
            path = self.path.partition("?")[0]
            try:
                if path == "/":
                    self._answer(200, "text/html; charset=utf-8", render({}).encode())
                elif path == "/overview":
                    with TraceIndex(run_dir) as index:
                        self._json(overview(index))
                elif path.startswith("/run/"):
                    with TraceIndex(run_dir) as index:
                        self._json(details(index, index.find(path.removeprefix("/run/"))))
                elif path == "/search":
                    wanted = parse_qs(urlsplit(self.path).query).get("text", [""])[0]
                    with TraceIndex(run_dir) as index:
                        self._json(runs_with(index, wanted))
                else:
                    self._answer(404, "text/plain", b"not here\n")
            except StitchError as error:
                self._answer(404, "text/plain", one_line(error).encode())

        def _json(self, value: Any) -> None:
            self._answer(200, "application/json", json.dumps(value).encode())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are no news."""

    return Handler
