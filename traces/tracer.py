"""Write every run of a LangChain or LangGraph call to ``trace.jsonl`` as it happens.

Comes in: callbacks. Goes out: one JSON line per event, ``post`` when a run starts and ``patch`` when it ends, in
the schema of LangSmith's ingest endpoint. A file that was cut anywhere is readable up to there, and a resumed run
appends to it. LangSmith's own tracing, if it is on, is not touched.

Not thread-bound: LangChain calls a plain tracer from its thread pool during asynchronous runs, so that file access
never blocks the event loop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from stitchcuda.traces.records import tokens_of
from stitchcuda.traces.redact import Redactor
from stitchcuda.traces.trace_file import TraceFile

__all__ = ["EventTracer", "JsonlTracer"]


class EventTracer(BaseTracer):
    """Turns what LangChain tells of runs into events; where they go is left to ``_append``."""

    log_missing_parent = False

    def __init__(self, *, session_name: str = "stitchcuda", metadata: dict[str, Any] | None = None) -> None:
        super().__init__(_schema_format="original+chat")
        self._session_name = session_name
        self._metadata = dict(metadata or {})
        self._posted_inputs: dict[str, int] = {}

    @abstractmethod
    def _append(self, line: dict[str, Any]) -> None:
        """Take one event."""

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


class JsonlTracer(EventTracer):
    """A callback handler that appends LangSmith-schema run records to ``<run_dir>/trace.jsonl``.

    Args:
        run_dir: The run's folder; created on the first event.
        secrets: Strings that must never be written, for example the API key in use.
        session_name: LangSmith's project name, for a later push.
        metadata: Added to ``extra.metadata`` of every root run, for example the problem's name.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        secrets: Iterable[str] = (),
        session_name: str = "stitchcuda",
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(session_name=session_name, metadata=metadata)
        self._file = TraceFile(Path(run_dir), Redactor(secrets))
        self.path = self._file.path

    @property
    def lost_events(self) -> int:
        """Events that could not be written (disk full, folder gone); the run itself goes on."""
        return self._file.lost_events

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is buffered, so nothing is left to do; for use in a ``with`` statement."""

    def _append(self, line: dict[str, Any]) -> None:
        self._file.append(line)


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
