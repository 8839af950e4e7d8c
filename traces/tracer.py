"""Write every run of a LangChain or LangGraph call to ``trace.jsonl`` as it happens.

Comes in: callbacks. Goes out: one JSON line per event, ``post`` when a run starts and ``patch`` when it ends, in
the schema of LangSmith's ingest endpoint. A file that was cut anywhere is readable up to there, and a resumed run
appends to it. LangSmith's own tracing, if it is on, is not touched.

Not thread-bound: LangChain calls a plain tracer from its thread pool during asynchronous runs, so that file access
never blocks the event loop.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from stitchcuda.traces.blobs import BlobStore
from stitchcuda.traces.encode import Encoder
from stitchcuda.traces.records import tokens_of
from stitchcuda.traces.redact import Redactor

__all__ = ["JsonlTracer"]

logger = logging.getLogger(__name__)


class JsonlTracer(BaseTracer):
    """A callback handler that appends LangSmith-schema run records to ``<run_dir>/trace.jsonl``.

    Args:
        run_dir: The run's folder; created on the first event.
        secrets: Strings that must never be written, for example the API key in use.
        session_name: LangSmith's project name, for a later push.
        metadata: Added to ``extra.metadata`` of every root run, for example the problem's name.
    """

    log_missing_parent = False

    def __init__(
        self,
        run_dir: Path,
        *,
        secrets: Iterable[str] = (),
        session_name: str = "stitchcuda",
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(_schema_format="original+chat")
        self.path = Path(run_dir) / "trace.jsonl"
        self.lost_events = 0
        """Events that could not be written (disk full, folder gone); the run itself goes on."""
        self._session_name = session_name
        self._metadata = dict(metadata or {})
        self._encoder = Encoder(Redactor(secrets), BlobStore(Path(run_dir)))
        self._lock = threading.Lock()
        self._posted_inputs: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is buffered, so nothing is left to do; for use in a ``with`` statement."""

    @staticmethod
    def _add_child_run(parent_run: Run, child_run: Run) -> None:
        """Keep no children: the file has them, and a long run would hold its whole tree in memory."""

    def _persist_run(self, run: Run) -> None:
        """A root run ended; its lines are already written."""

    def _on_run_create(self, run: Run) -> None:
        self._posted_inputs[str(run.id)] = id(run.inputs)
        extra = dict(run.extra or {})
        if run.parent_run_id is None and self._metadata:
            extra["metadata"] = {**self._metadata, **(extra.get("metadata") or {})}
        self._append(
            {
                "event": "post",
                **self._identity(run),
                "session_name": self._session_name,
                "inputs": run.inputs,
                "tags": run.tags or [],
                "extra": extra,
                "serialized": run.serialized,
            }
        )

    def _on_run_update(self, run: Run) -> None:
        line: dict[str, Any] = {
            "event": "patch",
            **self._identity(run),
            "end_time": run.end_time,
            "outputs": run.outputs,
            "error": run.error,
            "events": _without_tokens(run.events),
        }
        if self._posted_inputs.pop(str(run.id), None) != id(run.inputs):
            # Streamed inputs are complete only at the end.
            line["inputs"] = run.inputs
        if run.run_type in ("llm", "chat_model"):
            line |= tokens_of(run.outputs).model_dump()
        self._append(line)

    @staticmethod
    def _identity(run: Run) -> dict[str, Any]:
        """What places a run in the tree; on every line, so that one lost line loses one event, not the run."""
        return {
            "id": run.id,
            "trace_id": run.trace_id,
            "parent_run_id": run.parent_run_id,
            "dotted_order": run.dotted_order,
            "name": run.name,
            # LangChain's internal word for an LLM run of the chat kind; LangSmith knows only "llm".
            "run_type": "llm" if run.run_type == "chat_model" else run.run_type,
            "start_time": run.start_time,
        }

    def _append(self, line: dict[str, Any]) -> None:
        try:
            with self._lock:
                text = json.dumps(self._encoder.encode(line), ensure_ascii=False, separators=(",", ":"))
                # A lone surrogate becomes \udcNN, which is also JSON's own escape for it.
                self._write(text.encode("utf-8", errors="backslashreplace") + b"\n")
        except OSError as error:
            self.lost_events += 1
            if self.lost_events == 1:
                logger.warning("the trace %s is incomplete from here: %s", self.path, error)

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


def _without_tokens(events: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """The events of a run with only the first of its streamed tokens: its time is the time to first token."""
    kept: list[dict[str, Any]] = []
    streamed = False
    for event in events or []:
        if event.get("name") == "new_token":
            if not streamed:
                kept.append({"name": "new_token", "time": event.get("time")})
            streamed = True
        else:
            kept.append(event)
    return kept
