"""A trace for a terminal: its tree with durations and values, one run in full, matches of a search."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stitchcuda.traces.blobs import read_blobs
from stitchcuda.traces.index import RunRow, TraceIndex
from stitchcuda.traces.messages import answer_of, prompt_of
from stitchcuda.traces.records import RunRecord

__all__ = ["PLUMBING", "Placed", "cost_text", "duration_text", "full_text", "grep", "is_plumbing", "place", "tree_line"]

PLUMBING = ("after_", "follow", "LangGraph")
"""Beginnings of names of the framework's own steps: edges, and the shell around a sub-graph."""


class Placed:
    """A run with its place in the drawing."""

    __slots__ = ("children", "depth", "prefix", "row")

    def __init__(self, row: RunRow, depth: int, prefix: str, children: int) -> None:
        self.row, self.depth, self.prefix, self.children = row, depth, prefix, children


def is_plumbing(row: RunRow) -> bool:
    """Whether the run only belongs to the framework and did nothing worth a line."""
    return bool(row.hidden) or (row.run_type == "chain" and row.status != "error" and row.name.startswith(PLUMBING))


def place(rows: Sequence[RunRow], *, everything: bool = False, max_depth: int | None = None) -> Iterator[Placed]:
    """The runs as a tree, top down. Plumbing is left out and its children take its place, unless ``everything``."""
    ids = {row.id for row in rows}
    children: dict[str | None, list[RunRow]] = {}
    for row in rows:
        parent = row.parent_id if row.parent_id in ids and row.parent_id != row.id else None
        children.setdefault(parent, []).append(row)

    def shown(parent: str | None) -> list[RunRow]:
        found: list[RunRow] = []
        waiting = list(reversed(children.get(parent, ())))
        while waiting:
            row = waiting.pop()
            if not everything and is_plumbing(row):
                waiting.extend(reversed(children.get(row.id, ())))
            else:
                found.append(row)
        return found

    # An explicit stack: a trace that was made by hand may be deeper than Python's recursion limit.
    stack = [(row, 0, "", "") for row in reversed(shown(None))]
    while stack:
        row, depth, branch, below = stack.pop()
        inner = shown(row.id) if row.id in children else []
        yield Placed(row, depth, branch, len(inner))
        if max_depth is not None and depth >= max_depth:
            continue
        last = len(inner) - 1
        stack.extend(
            (child, depth + 1, below + ("└─ " if at == last else "├─ "), below + ("   " if at == last else "│  "))
            for at, child in reversed(list(enumerate(inner)))
        )


def duration_text(seconds: float | None) -> str:
    if seconds is None:
        return "…"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def cost_text(dollars: float) -> str:
    """Cents and more to the cent, less to two digits: ``$1.25``, ``$0.0031``."""
    return f"${dollars:.2f}" if dollars >= 0.1 else f"${dollars:.2g}" if dollars >= 0.0001 else f"${dollars:.1e}"


def tree_line(placed: Placed) -> str:
    """One run on one line: number, place, name, duration, tokens, cost, value or failure."""
    row = placed.row
    parts = [f"{row.number:>5}  {placed.prefix}{row.name}"]
    parts.append(duration_text(row.duration_s) if row.end_s is not None else "unfinished")
    if row.prompt_tokens or row.completion_tokens:
        parts.append(f"{row.prompt_tokens or 0}→{row.completion_tokens or 0} tokens")
    if row.cost_usd is not None:
        parts.append(cost_text(row.cost_usd))
    if row.error:
        parts.append(f"ERROR {row.error}")
    elif row.value:
        parts.append(row.value)
    return "  ".join(parts)


def full_text(index: TraceIndex, row: RunRow, record: RunRecord) -> str:
    """One run in full: prompts and answers as text, everything else as JSON with long texts written out."""
    inputs, outputs = read_blobs(record.inputs, index.run_dir), read_blobs(record.outputs or {}, index.run_dir)
    error = read_blobs(record.error, index.run_dir)
    lines = [
        f"#{row.number} {row.name} [{row.run_type}] {row.status}, {duration_text(row.duration_s)}",
        f"id {row.id}, started {record.start_time.isoformat(timespec='milliseconds')}",
    ]
    if row.prompt_tokens or row.completion_tokens:
        lines.append(f"tokens {row.prompt_tokens or 0} in, {row.completion_tokens or 0} out")
    if row.cost_usd is not None:
        lines.append(f"cost {cost_text(row.cost_usd)}")
    prompt = prompt_of(inputs)
    for role, text in prompt:
        lines += ["", f"--- {role} ---", text]
    if not prompt:
        lines += ["", "--- inputs ---", _pretty(inputs)]
    answer = answer_of(outputs)
    lines += ["", "--- answer ---", answer] if answer else ["", "--- outputs ---", _pretty(outputs)]
    if error is not None:
        lines += ["", "--- error ---", str(error)]
    return "\n".join(lines)


def _pretty(value: Any, indent: str = "") -> str:
    """JSON-like text; strings of several lines are written out below their key, not escaped."""
    if isinstance(value, dict):
        return "\n".join(_entry(f"{key}:", item, indent) for key, item in value.items()) or f"{indent}{{}}"
    if isinstance(value, list):
        return "\n".join(_entry("-", item, indent) for item in value) or f"{indent}[]"
    return indent + json.dumps(value, ensure_ascii=False)


def _entry(mark: str, value: Any, indent: str) -> str:
    if isinstance(value, str) and "\n" in value:
        return f"{indent}{mark} |\n" + "\n".join(f"{indent}    {line}" for line in value.splitlines())
    if isinstance(value, dict | list) and value:
        return f"{indent}{mark}\n{_pretty(value, indent + '  ')}"
    return f"{indent}{mark} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def grep(index: TraceIndex, matches: Callable[[str], bool]) -> Iterator[tuple[RunRow, str, str]]:
    """Lines that match, as ``(run, place, line)`` with places such as ``outputs.check.message``.

    A text that runs only pass on (the graph's state goes through every node) is told once, where it first stands: with
    the step that made it, since that one ends before the steps around it do.
    """
    moments: list[tuple[float, int, RunRow, tuple[str, ...]]] = [
        (row.start_s, row.number, row, ("inputs",)) for row in index.rows()
    ]
    moments += [
        (row.start_s if row.end_s is None else row.end_s, row.number, row, ("outputs", "error"))
        for _, _, row, _ in moments
    ]
    told: set[str] = set()
    for _, _, row, parts in sorted(moments, key=lambda moment: moment[:2]):
        record = index.record(row)
        for part in parts if record is not None else ():
            for path, text in _texts(read_blobs(getattr(record, part), index.run_dir), part):
                if text in told:
                    continue
                found = [line for line in text.splitlines() if matches(line)]
                if found:
                    told.add(text)
                yield from ((row, path, line.strip()) for line in found)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _texts(item, f"{path}[{position}]")
    elif isinstance(value, str):
        yield path, value
