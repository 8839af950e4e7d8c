"""A run's trace as one HTML page that needs nothing else: tree, waterfall, every run in full, attempts and their diffs.

Comes in: a run folder. Goes out: a self-contained file, or the parts of it that ``serve`` answers with. Data lies in
the page as compressed blocks, a few hundred runs each, and a block is unpacked when one of its runs is
opened. A value that many runs pass on (the graph's state goes through every node) is kept once.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import SettingsError, boundary
from stitchcuda.core.files import write_text
from stitchcuda.core.records import Record
from stitchcuda.traces.attempts import AttemptView, plan_text, read_attempts, verdict_text
from stitchcuda.traces.blobs import read_blobs
from stitchcuda.traces.draw import cost_text, is_plumbing
from stitchcuda.traces.folders import summarise
from stitchcuda.traces.index import RunRow, TraceIndex
from stitchcuda.traces.messages import answer_of, prompt_of
from stitchcuda.traces.records import RunRecord

__all__ = ["Page", "details", "overview", "render", "write_page"]

SCRIPTS = ("highlight.js", "difference.js", "data.js", "tree.js", "detail.js", "attempts.js", "main.js")
BLOCK_RUNS = 256
SHARED_FROM_CHARS = 200
VALUE_LIMIT_CHARS = 400_000
PAGE_LIMIT_CHARS = 48_000_000
"""Of uncompressed details in a file; the values of later runs are left to the served page."""


class Page(Record):
    """What was written."""

    runs: int
    bytes: int
    cut: int
    """Values that are not whole in the page."""


def overview(index: TraceIndex) -> dict[str, Any]:
    """Everything but the details: the runs in short, and the attempts."""
    rows = index.rows()
    numbers = {row.id: row.number for row in rows}
    first_s = min((row.start_s for row in rows), default=0.0)
    run = summarise(index.run_dir)
    return {
        "run": {**run.model_dump(mode="json"), "cost": None if run.cost_usd is None else cost_text(run.cost_usd)},
        "block": BLOCK_RUNS,
        "start_s": first_s,
        "runs": [_short(row, numbers, first_s) for row in rows],
        "attempts": [_attempt(attempt) for attempt in read_attempts(index)],
    }


def _short(row: RunRow, numbers: Mapping[str, int], first_s: float) -> list[Any]:
    """In the order that ``data.js`` knows."""
    duration = row.duration_s
    return [
        row.number,
        numbers.get(row.parent_id or "", 0),
        row.name,
        row.run_type,
        round((row.start_s - first_s) * 1000, 2),
        None if duration is None else round(duration * 1000, 2),
        row.status,
        row.prompt_tokens,
        row.completion_tokens,
        row.value,
        row.error,
        int(is_plumbing(row)),
        None if row.cost_usd is None else cost_text(row.cost_usd),
    ]


def _attempt(attempt: AttemptView) -> dict[str, Any]:
    return {
        **attempt.model_dump(mode="json"),
        "plan_text": plan_text(attempt.plan),
        "verdict_text": verdict_text(attempt),
    }


class _Shared:
    """Replaces large values that an earlier run has already shown by ``{"$same": [number, part, key]}``."""

    def __init__(self) -> None:
        self._places: dict[bytes, list[Any]] = {}
        self.cut = 0
        self.chars = 0

    def part(self, number: int, name: str, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {key: self._value(value, [number, name, key]) for key, value in values.items()}

    def _value(self, value: Any, place: list[Any]) -> Any:
        text = json.dumps(value)
        if len(text) < SHARED_FROM_CHARS:
            self.chars += len(text)
            return value
        digest = hashlib.sha256(text.encode()).digest()
        if digest in self._places:
            return {"$same": self._places[digest]}
        if len(text) > VALUE_LIMIT_CHARS or self.chars > PAGE_LIMIT_CHARS:
            self.cut += 1
            return {"$cut": text[:2000], "chars": len(text)}
        self._places[digest] = place
        self.chars += len(text)
        return value


def details(index: TraceIndex, row: RunRow, shared: _Shared | None = None) -> dict[str, Any] | None:
    """One run in full; ``None`` when it cannot be read."""
    record = index.record(row)
    return None if record is None else _details(index.run_dir, row, record, shared)


def _details(run_dir: Path, row: RunRow, record: RunRecord, shared: _Shared | None) -> dict[str, Any]:
    inputs, outputs = read_blobs(record.inputs, run_dir), read_blobs(record.outputs or {}, run_dir)
    prompt, answer = prompt_of(inputs), answer_of(outputs)
    # A prompt is shown as messages; the same text in the framework's own shape would only double the page.
    inputs = {"messages": prompt} if prompt else inputs
    outputs = {"answer": answer, "llm_output": outputs.get("llm_output")} if answer else outputs
    return {
        "id": row.id,
        "start": record.start_time.isoformat(timespec="milliseconds"),
        "inputs": inputs if shared is None else shared.part(row.number, "inputs", inputs),
        "outputs": outputs if shared is None else shared.part(row.number, "outputs", outputs),
        "error": read_blobs(record.error, run_dir),
        "tags": list(record.tags),
        "metadata": record.metadata,
    }


def _blocks(index: TraceIndex, shared: _Shared) -> Iterator[tuple[int, str]]:
    """Numbered blocks of details, packed; run ``n`` lies in block ``(n - 1) // BLOCK_RUNS``."""
    block: dict[int, Any] = {}
    at = 0
    for row in sorted(index.rows(), key=lambda row: row.number):
        where = (row.number - 1) // BLOCK_RUNS
        if where != at:
            yield at, _pack(block)
            block, at = {}, where
        block[row.number] = details(index, row, shared)
    yield at, _pack(block)


def _pack(value: Any) -> str:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="backslashreplace")
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def render(blocks: Mapping[str, str]) -> str:
    """The page around packed ``blocks`` (element id to base64); without any, it asks its server."""
    assets = resources.files("stitchcuda.traces") / "assets"

    def text(name: str) -> str:
        return (assets / name).read_text(encoding="utf-8")

    data = "\n".join(f'<script type="application/gzip" id="{id}">{packed}</script>' for id, packed in blocks.items())
    script = "\n".join(text(name) for name in SCRIPTS)
    return (
        text("page.html")
        .replace("/*STYLE*/", text("page.css"))
        .replace("<!--DATA-->", data)
        .replace("/*SCRIPT*/", f'"use strict";\n{script}')
    )


def write_page(run_dir: Path, out: Path) -> Page:
    """Write the page of a run to one file.

    Raises:
        SettingsError: no trace, or ``out`` cannot be written.
    """
    shared = _Shared()
    with TraceIndex(run_dir) as index:
        blocks = {"overview": _pack(overview(index))}
        blocks |= {f"block-{number}": packed for number, packed in _blocks(index, shared)}
        runs = index.count()
    text = render(blocks)
    with boundary(SettingsError, f"cannot write {out}", OSError):
        write_text(out, text)
    return Page(runs=runs, bytes=len(text.encode()), cut=shared.cut)
