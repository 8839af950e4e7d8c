"""Which runs of a trace hold a text anywhere: in what they were given, what they found, or an error.

Comes in: an index and a text. Goes out: numbers of runs. Reads the file once from its beginning to its end without
parsing a line that does not hold the text; upper and lower case are alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from stitchcuda.traces.index import TraceIndex
from stitchcuda.traces.lines import parse_line

__all__ = ["runs_with"]

PARTS = ("inputs", "outputs", "error")


def runs_with(index: TraceIndex, text: str) -> list[int]:
    """Numbers of the runs that hold ``text``, in starting order; a long text that many runs pass on counts for each."""
    wanted = json.dumps(text, ensure_ascii=False)[1:-1].lower()
    numbers = {row.id: row.number for row in index.rows()}
    if not wanted:
        return []
    references = [f'"{name}"' for name in _blobs_with(index, text.lower())]
    found = set()
    for raw in _lines(index):
        lowered = raw.decode("utf-8", errors="replace").lower()
        if wanted not in lowered and not any(name in lowered for name in references):
            continue
        fields = parse_line(raw)
        # The hit may lie in what places the run, its id for example.
        parts = {key: fields[key] for key in PARTS if fields.get(key)} if fields is not None else {}
        if fields is not None and _holds(parts, [wanted, *references]) and fields["id"] in numbers:
            found.add(numbers[fields["id"]])
    return sorted(found)


def _holds(value: object, wanted: Iterable[str]) -> bool:
    lowered = json.dumps(value, ensure_ascii=False, separators=(",", ":")).lower()
    return any(one in lowered for one in wanted)


def _lines(index: TraceIndex) -> Iterator[bytes]:
    with index.trace.open("rb") as stream:
        yield from stream


def _blobs_with(index: TraceIndex, text: str) -> Iterator[str]:
    for path in sorted((index.run_dir / "blobs").glob("*.txt")):
        if text in path.read_bytes().decode("utf-8", errors="replace").lower():
            yield f"blobs/{path.name}"
