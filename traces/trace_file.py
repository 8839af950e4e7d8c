"""The file that a trace is written to: one whole line at a time, at its end.

Comes in: run events as dicts of any values. Goes out: ``<run_dir>/trace.jsonl`` and ``blobs/``.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

from stitchcuda.traces.blobs import BlobStore
from stitchcuda.traces.encode import Encoder
from stitchcuda.traces.redact import Redactor

__all__ = ["TraceFile", "line_of"]

logger = logging.getLogger(__name__)


def line_of(encoder: Encoder, event: dict[str, Any]) -> bytes:
    """One event as a line."""
    text = json.dumps(encoder.encode(event), ensure_ascii=False, separators=(",", ":"))
    # A lone surrogate becomes \udcNN, which is also JSON's own escape for it.
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


class TraceFile:
    """Appends to the trace of one run folder, which is created with the first event."""

    def __init__(self, run_dir: Path, redactor: Redactor) -> None:
        self.path = run_dir / "trace.jsonl"
        self.lost_events = 0
        """Events that could not be written (disk full, folder gone); the run itself goes on."""
        self.blobs = BlobStore(run_dir)
        self._encoder = Encoder(redactor, self.blobs)
        self._lock = threading.Lock()

    def append(self, event: dict[str, Any]) -> None:
        """Write one event; a failure is counted, and told once."""
        try:
            with self._lock:
                self._write(line_of(self._encoder, event))
        except OSError as error:
            self._lost(1, error)

    def append_lines(self, lines: list[bytes], blobs: list[str]) -> None:
        """Write lines that were encoded earlier, after the large texts that they refer to."""
        try:
            with self._lock:
                for text in blobs:
                    self.blobs.put(text)
                self._write(b"".join(lines))
        except OSError as error:
            self._lost(len(lines), error)

    def _lost(self, events: int, error: OSError) -> None:
        if self.lost_events == 0:
            logger.warning("the trace %s is incomplete from here: %s", self.path, error)
        self.lost_events += events

    def _write(self, data: bytes) -> None:
        """One ``write`` at the end of the file, after closing a line that an earlier kill tore."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data
            while data:
                data = data[os.write(handle, data) :]
        finally:
            os.close(handle)
