"""Trace the runs of a served graph, whose folder is known only after its first step.

Comes in: callbacks of all runs of a server, mixed. Goes out: ``trace.jsonl`` in the folder of each. What happens before
a run has a folder is held, already encoded; a run that ends without one leaves nothing.

LangChain calls a plain tracer from its thread pool during asynchronous runs: nothing here touches the event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from stitchcuda.traces.blobs import HeldBlobs
from stitchcuda.traces.encode import Encoder
from stitchcuda.traces.redact import Redactor
from stitchcuda.traces.trace_file import TraceFile, line_of
from stitchcuda.traces.tracer import EventTracer

__all__ = ["FOLDER_KEY", "ServedTracer"]

FOLDER_KEY = "run_dir"
"""The key of the state that names the run folder."""
HELD_LINES = 2000
"""Lines kept of a run that has no folder yet; a run has a handful."""


class _Held:
    """The beginning of a run, until its folder is known."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.blobs = HeldBlobs()
        self.lines: list[bytes] = []
        self._encoder = Encoder(redactor, self.blobs)

    def append(self, event: dict[str, Any]) -> None:
        if len(self.lines) < HELD_LINES:
            self.lines.append(line_of(self._encoder, event))


class ServedTracer(EventTracer):
    """One for a whole server: give it to the compiled graph with ``with_config``.

    Args:
        secrets: asked once a run for the strings that must never be written.
    """

    def __init__(self, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        super().__init__()
        self._secrets = secrets
        self._runs: dict[str, _Held | TraceFile] = {}
        self._lock = threading.Lock()

    def _append(self, line: dict[str, Any]) -> None:
        trace_id = str(line["trace_id"])
        with self._lock:
            place = self._runs.get(trace_id)
            if place is None:
                place = self._runs[trace_id] = _Held(Redactor(self._secrets()))
            if isinstance(place, _Held) and (folder := _folder_in(line)) is not None:
                held, place = place, TraceFile(folder, place.redactor)
                place.append_lines(held.lines, held.blobs.texts)
                self._runs[trace_id] = place
            if line["event"] == "patch" and line["parent_run_id"] is None:
                del self._runs[trace_id]
            place.append(line)


def _folder_in(line: Mapping[str, Any]) -> Path | None:
    """The run folder that a step's state names. What a whole run is given is a stranger's word and does not count."""
    if line["run_type"] != "chain":
        return None
    given = line.get("inputs") if line["parent_run_id"] is not None else None
    for values in (line.get("outputs"), given):
        if isinstance(values, Mapping):
            folder = values.get(FOLDER_KEY)
            if isinstance(folder, str) and folder:
                return Path(folder)
    return None
