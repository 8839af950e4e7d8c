"""The lines of a ``trace.jsonl`` with their places in the file, whatever a kill left at its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

__all__ = ["Line", "merge_lines", "parse_line", "read_lines"]


class Line(NamedTuple):
    """One whole line: where it lies, and what it says."""

    offset: int
    length: int
    fields: dict[str, Any]


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """The run event on a line; ``None`` for a torn line or one that is not a run's."""
    try:
        value = orjson.loads(raw)
    except ValueError:
        try:
            value = json.loads(raw)  # takes a lone surrogate's escape, which the fast parser refuses
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) and isinstance(value.get("id"), str) else None


def read_lines(path: Path, start: int = 0) -> Iterator[Line]:
    """Yield the run events from byte ``start`` on. The last line counts although its line feed is missing."""
    offset = start
    with path.open("rb") as stream:
        stream.seek(start)
        for raw in stream:
            fields = parse_line(raw)
            if fields is not None:
                yield Line(offset, len(raw), fields)
            offset += len(raw)


def merge_lines(merged: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Add what a later line says of the same run; a missing value does not overwrite a known one."""
    merged.update({key: value for key, value in fields.items() if value is not None})
    return merged
