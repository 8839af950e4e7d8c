"""Read a trace: one record per run, merged from its lines.

Comes in: ``trace.jsonl``, possibly cut at any byte. Goes out: ``RunRecord`` values in the order in which the runs
started. A run without an end line (a kill, or it is still going) has ``end_time=None``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from stitchcuda.core.records import Record
from stitchcuda.traces.lines import merge_lines, read_lines

__all__ = ["RunRecord", "Tokens", "read_trace", "tokens_of"]

HIDDEN_TAG = "langsmith:hidden"


class Tokens(Record):
    """Token counts of an LLM run; ``None`` where the endpoint did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


class RunRecord(Record):
    """One run in LangSmith's schema. Unknown fields are skipped: a newer version may have written the file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    trace_id: str
    parent_run_id: str | None = None
    dotted_order: str
    name: str
    run_type: str
    """``chain``, ``llm``, ``tool``, ``retriever``, …"""
    start_time: datetime
    end_time: datetime | None = None
    inputs: dict[str, Any] = Field(default={})
    outputs: dict[str, Any] | None = None
    error: str | dict[str, Any] | None = None
    """A stack trace; by reference when it is long."""
    tags: tuple[str, ...] = ()
    extra: dict[str, Any] = Field(default={})
    events: tuple[dict[str, Any], ...] = ()
    session_name: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def status(self) -> Literal["success", "error", "unfinished"]:
        if self.error is not None:
            return "error"
        return "success" if self.end_time is not None else "unfinished"

    @property
    def duration_s(self) -> float | None:
        return (self.end_time - self.start_time).total_seconds() if self.end_time is not None else None

    @property
    def metadata(self) -> dict[str, Any]:
        value = self.extra.get("metadata")
        return value if isinstance(value, dict) else {}

    @property
    def hidden(self) -> bool:
        """Whether the run is the framework's own plumbing."""
        return HIDDEN_TAG in self.tags

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            total_tokens=self.total_tokens,
        )


def read_trace(path: Path) -> list[RunRecord]:
    """The runs of ``path`` in starting order; a line that is torn or not a run's is skipped."""
    merged: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return []
    for line in read_lines(path):
        merge_lines(merged.setdefault(line.fields["id"], {}), line.fields)
    records = []
    for fields in merged.values():
        try:
            records.append(RunRecord.model_validate(fields))
        except ValidationError:
            continue
    # Fixed-width times lead the dotted order, so that it sorts by start and groups children under parents.
    return sorted(records, key=lambda record: (record.start_time, record.dotted_order))


def tokens_of(outputs: Mapping[str, Any] | None) -> Tokens:
    """Token counts in the outputs of an LLM run, wherever the model class put them."""
    prompt = completion = total = 0
    found = False
    for message in _messages(outputs or {}):
        usage = message.get("usage_metadata")
        if isinstance(usage, Mapping):
            found = True
            prompt += int(usage.get("input_tokens") or 0)
            completion += int(usage.get("output_tokens") or 0)
            total += int(usage.get("total_tokens") or 0)
    if not found:
        llm_output = (outputs or {}).get("llm_output")
        usage = llm_output.get("token_usage") if isinstance(llm_output, Mapping) else None
        if not isinstance(usage, Mapping):
            return Tokens()
        prompt = int(usage.get("prompt_tokens") or 0)
        completion = int(usage.get("completion_tokens") or 0)
        total = int(usage.get("total_tokens") or 0)
    return Tokens(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total or prompt + completion)


def _messages(outputs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for batch in outputs.get("generations") or []:
        for generation in batch if isinstance(batch, list) else []:
            message = generation.get("message") if isinstance(generation, Mapping) else None
            fields = message.get("kwargs", message) if isinstance(message, Mapping) else None
            if isinstance(fields, Mapping):
                found.append(fields)
    return found
