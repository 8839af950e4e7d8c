"""How fast the page of a long trace answers, in a real browser and in real time.

    python benchmarks/trace_page.py [--runs 50000] [--json]

Headless Chromium opens the page, once as a file that holds everything and once served, and times keys and searches from
the event to the frame after it. Target: a key and a search in the tree at most 100 ms.
"""

from __future__ import annotations

import argparse
import json
import queue
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stitchcuda.traces.page import render, write_page
from stitchcuda.traces.serve import handler_for

TARGET_MS = 100.0
WAIT_S = 120.0

DRIVER = f"<script>{Path(__file__).with_suffix('.js').read_text(encoding='utf-8')}</script>"


def measure(run_dir: Path, chromium: str) -> dict[str, dict[str, Any]]:
    """What the page says of itself, by ``file`` and ``served``: ``[milliseconds of work, to the next frame]``."""
    page = run_dir / "page.html"
    write_page(run_dir, page)
    texts = {"/file": page.read_text(encoding="utf-8"), "/": render({})}
    answers: queue.Queue[dict[str, Any]] = queue.Queue()

    class Handler(handler_for(run_dir)):  # type: ignore[misc]
        def do_GET(self) -> None:  # noqa: N802
            if self.path in texts:
                text = texts[self.path].replace("</body>", DRIVER + "</body>")
                self._answer(200, "text/html; charset=utf-8", text.encode())
            else:
                super().do_GET()

        def do_POST(self) -> None:  # noqa: N802
            answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(200, "text/plain", b"")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = {}
    try:
        for name, path in (("file", "/file"), ("served", "/")):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
                command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"]
                command += [f"--user-data-dir={profile}", "--remote-debugging-port=0"]
                browser = subprocess.Popen(
                    [*command, f"http://127.0.0.1:{server.server_address[1]}{path}"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                try:
                    found[name] = answers.get(timeout=WAIT_S)
                finally:
                    browser.terminate()
                    browser.wait(20)
    finally:
        server.shutdown()
        server.server_close()
    return found


def slowest_ms(said: dict[str, Any]) -> float:
    """The slowest key or search in the tree, to the frame after it."""
    return max(value[1] for name, value in said.items() if isinstance(value, list) and name not in NOT_KEYS)


NOT_KEYS = ("ready", "search in everything")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium is not installed", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as folder:
        runpy.run_path(str(Path(__file__).with_name("traces.py")))["write_trace"](Path(folder), arguments.runs)
        found = measure(Path(folder), chromium)
    failed = [said["failure"] for said in found.values() if "failure" in said]
    met = not failed and all(slowest_ms(said) <= TARGET_MS for said in found.values())
    if arguments.json:
        print(json.dumps({"target_ms": TARGET_MS, "met": met, **found}))
        return 0 if met else 1
    for name, said in found.items():
        print(f"{name}: {said.get('runs', 0):,} runs, {said.get('rows', 0)} rows drawn, {said.get('failure', '')}")
        for key, value in said.items():
            if isinstance(value, list):
                print(f"  {key:32} {value[0]:7.1f} ms of work {value[1]:7.1f} ms to the next frame")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
