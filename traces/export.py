"""Traces for other programs: JSON lines or Parquet with one row per run, and OpenTelemetry spans.

Comes in: run folders. Goes out: a file. Values by reference are brought back; inputs and outputs are JSON text in
Parquet, because their shape differs from run to run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from stitchcuda.core.errors import SettingsError, ToolchainError, boundary
from stitchcuda.core.files import write_text
from stitchcuda.traces.blobs import read_blobs
from stitchcuda.traces.draw import is_plumbing
from stitchcuda.traces.index import TraceIndex
from stitchcuda.traces.messages import answer_of, prompt_of

__all__ = ["FORMATS", "Format", "export_runs", "flat_runs", "otlp_request"]

Format = Literal["jsonl", "parquet", "otlp"]
FORMATS: tuple[Format, ...] = ("jsonl", "parquet", "otlp")
_BATCH = 512


def flat_runs(index: TraceIndex, *, everything: bool = False, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """One plain row per run, in starting order; ``kind`` keeps runs of one type, for example ``llm``."""
    for row, record in index.records(sorted(index.rows(), key=lambda row: row.number)):
        if (not everything and is_plumbing(row)) or (kind is not None and row.run_type != kind):
            continue
        inputs = read_blobs(record.inputs, index.run_dir)
        outputs = read_blobs(record.outputs, index.run_dir)
        yield {
            **row.as_json(),
            "run_dir": str(index.run_dir),
            "tags": list(record.tags),
            "metadata": record.metadata,
            "prompt": [{"role": role, "content": text} for role, text in prompt_of(inputs)],
            "answer": answer_of(outputs or {}),
            "inputs": inputs,
            "outputs": outputs,
            "error": read_blobs(record.error, index.run_dir),
        }


def export_runs(
    folders: list[Path], out: Path, form: Format, *, everything: bool = False, kind: str | None = None
) -> int:
    """Write the runs of ``folders`` to ``out``; returns how many.

    Raises:
        SettingsError: a folder has no trace, or ``out`` cannot be written.
        ToolchainError: Parquet is asked for and pyarrow is not installed.
    """
    with boundary(SettingsError, f"cannot write {out}", OSError):
        out.parent.mkdir(parents=True, exist_ok=True)
        if form == "parquet":
            return _parquet(folders, out, everything, kind)
        if form == "otlp":
            return _otlp(folders, out, everything)
        count = 0
        temporary = out.with_name(f".{out.name}.part")
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            for row in _all(folders, everything, kind):
                stream.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
                count += 1
        temporary.replace(out)
        return count


def _all(folders: list[Path], everything: bool, kind: str | None) -> Iterator[dict[str, Any]]:
    for folder in folders:
        with TraceIndex(folder) as index:
            yield from flat_runs(index, everything=everything, kind=kind)


def _parquet(folders: list[Path], out: Path, everything: bool, kind: str | None) -> int:
    try:
        pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ToolchainError(
            "Parquet needs pyarrow, which is not installed; pip install pyarrow, or export as jsonl"
        ) from None
    numbers = {"number": pa.int64(), "prompt_tokens": pa.int64(), "completion_tokens": pa.int64()}
    numbers |= {"start_s": pa.float64(), "end_s": pa.float64(), "duration_s": pa.float64(), "hidden": pa.bool_()}
    numbers |= {"cost_usd": pa.float64()}
    schema: Any = None
    writer: Any = None
    count = 0
    temporary = out.with_name(f".{out.name}.part")
    batch: list[dict[str, Any]] = []

    def flush() -> None:
        if writer is not None and batch:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            batch.clear()

    for row in _all(folders, everything, kind):
        plain = {
            key: value if key in numbers or value is None or isinstance(value, str) else json.dumps(value)
            for key, value in row.items()
        }
        if writer is None:
            schema = pa.schema([(key, numbers.get(key, pa.string())) for key in plain])
            writer = pq.ParquetWriter(temporary, schema, compression="zstd")
        batch.append(plain)
        count += 1
        if len(batch) >= _BATCH:
            flush()
    if writer is None:
        raise SettingsError("there are no runs to export")
    flush()
    writer.close()
    temporary.replace(out)
    return count


def _otlp(folders: list[Path], out: Path, everything: bool) -> int:
    resource_spans: list[dict[str, Any]] = []
    count = 0
    for folder in folders:
        with TraceIndex(folder) as index:
            request, found = otlp_request(index, everything=everything)
        resource_spans += request["resourceSpans"]
        count += found
    write_text(out, json.dumps({"resourceSpans": resource_spans}))
    return count


_OTEL_LIMIT_CHARS = 8192


def otlp_request(index: TraceIndex, *, everything: bool = False) -> tuple[dict[str, Any], int]:
    """The trace as one OTLP/JSON ``ExportTraceServiceRequest``, and how many spans it has.

    Ids are cut from LangSmith's: the trace's 32 hex digits as they are, a span's last 16.
    """
    rows = index.rows()
    shown = {row.id: row for row in rows if everything or not is_plumbing(row)}
    parents = {row.id: row.parent_id for row in rows}
    spans = []
    for row, record in index.records(shown.values()):
        parent = row.parent_id
        while parent is not None and parent not in shown:
            parent = parents.get(parent)
        attributes: dict[str, Any] = {
            "langsmith.span.kind": row.run_type,
            "input.value": json.dumps(read_blobs(record.inputs, index.run_dir))[:_OTEL_LIMIT_CHARS],
            "output.value": json.dumps(read_blobs(record.outputs, index.run_dir))[:_OTEL_LIMIT_CHARS],
            "stitchcuda.value": row.value,
            "stitchcuda.number": row.number,
        }
        if row.prompt_tokens is not None:
            attributes["gen_ai.usage.input_tokens"] = row.prompt_tokens
            attributes["gen_ai.usage.output_tokens"] = row.completion_tokens or 0
        spans.append(
            {
                "traceId": row.trace_id.replace("-", ""),
                "spanId": _span_id(row.id),
                **({"parentSpanId": _span_id(parent)} if parent else {}),
                "name": row.name,
                "kind": 3 if row.run_type == "llm" else 1,
                "startTimeUnixNano": str(round(row.start_s * 1e6) * 1000),
                "endTimeUnixNano": str(round((row.end_s or row.start_s) * 1e6) * 1000),
                "attributes": [{"key": key, "value": _otel_value(value)} for key, value in attributes.items()],
                "status": {"code": 2, "message": row.error} if row.status == "error" else {"code": 1},
            }
        )
    service = {"key": "service.name", "value": {"stringValue": "stitchcuda"}}
    scope = {"scope": {"name": "stitchcuda.traces"}, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [scope]}]}, len(spans)


def _span_id(id: str) -> str:
    return id.replace("-", "")[-16:]


def _otel_value(value: Any) -> dict[str, Any]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
