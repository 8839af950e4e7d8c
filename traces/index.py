"""An index beside a trace: one row per run with what listings need, and where the run's lines lie.

Comes in: a run folder with a ``trace.jsonl`` that may still grow. Goes out: rows in starting order, and single runs
in full without reading the rest of the file. The index (``trace.index.sqlite``) is derived: it is brought up to date
when the trace grew, and made anew when the trace was replaced, when it is damaged or of another version; in a folder
that cannot be written it is kept in memory.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from stitchcuda.core.errors import SettingsError
from stitchcuda.traces.lines import Line, merge_lines, parse_line, read_lines
from stitchcuda.traces.records import HIDDEN_TAG, RunRecord, tokens_of
from stitchcuda.traces.values import cost_of, error_line, value_of

__all__ = ["RunRow", "TraceIndex"]

FORMAT = "4"
HEAD_BYTES = 512
TRACE_NAME, INDEX_NAME = "trace.jsonl", "trace.index.sqlite"

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
  number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, parent_id TEXT, trace_id TEXT,
  name TEXT, run_type TEXT, start_s REAL, end_s REAL, status TEXT, hidden INTEGER,
  prompt_tokens INTEGER, completion_tokens INTEGER, cost_usd REAL, value TEXT, error TEXT, lines TEXT
);
"""
_COLUMNS = (
    "number, id, parent_id, trace_id, name, run_type, start_s, end_s, status, hidden, "
    "prompt_tokens, completion_tokens, cost_usd, value, error, lines"
)


class RunRow(NamedTuple):
    """What a listing shows of a run. Times are seconds since 1970, UTC."""

    number: int
    """Counted from 1 in the order in which the runs started; stays when the trace grows."""
    id: str
    parent_id: str | None
    trace_id: str
    name: str
    run_type: str
    start_s: float
    end_s: float | None
    status: str
    """``success``, ``error`` or ``unfinished``."""
    hidden: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    """What the chat calls of this step cost; ``None`` where it says nothing, or without a price table."""
    value: str
    error: str
    lines: str
    """``offset:length`` of the run's lines, separated by spaces."""

    @property
    def duration_s(self) -> float | None:
        return None if self.end_s is None else self.end_s - self.start_s

    def as_json(self) -> dict[str, Any]:
        fields = self._asdict()
        del fields["lines"]
        return {**fields, "hidden": bool(self.hidden), "duration_s": self.duration_s}


class TraceIndex:
    """The up-to-date index of one run folder's trace; a context manager.

    Raises:
        SettingsError: the folder has no trace.
    """

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.trace = run_dir / TRACE_NAME
        if not self.trace.is_file():
            raise SettingsError(f"{run_dir} holds no trace ({TRACE_NAME} is missing); give a run folder")
        try:
            self._connection = self._open(run_dir / INDEX_NAME)
        except sqlite3.OperationalError:  # a folder that cannot be written, or another process holds the index
            self._connection = self._fresh(sqlite3.connect(":memory:"))
            self._update()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def _open(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=1.0)
        try:
            self._connection = connection
            if not self._fits():
                self._fresh(connection)
            self._update()
        except sqlite3.OperationalError:
            connection.close()
            raise
        except sqlite3.DatabaseError:  # damaged, or no database at all
            connection.close()
            path.unlink(missing_ok=True)
            self._connection = connection = self._fresh(sqlite3.connect(path, timeout=1.0))
            self._update()
        return connection

    @staticmethod
    def _fresh(connection: sqlite3.Connection) -> sqlite3.Connection:
        with closing(connection.cursor()) as cursor:
            # Derived data: after a crash it is made anew, so that no write has to wait for the disk.
            cursor.executescript(
                f"PRAGMA synchronous=OFF; DROP TABLE IF EXISTS meta; DROP TABLE IF EXISTS runs; {_SCHEMA}"
            )
        connection.commit()
        return connection

    def _meta(self) -> dict[str, str]:
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()
        return dict(self._connection.execute("SELECT key, value FROM meta")) if tables[0] else {}

    def _fits(self) -> bool:
        """Whether the index is of this format and the trace begins and ends where it did, and only grew."""
        meta = self._meta()
        size = int(meta.get("bytes", 0))
        if meta.get("format") != FORMAT or self.trace.stat().st_size < size:
            return False
        return meta.get("print") == self._print(size)

    def _print(self, size: int) -> str:
        with self.trace.open("rb") as stream:
            head = stream.read(min(HEAD_BYTES, size))
            stream.seek(max(0, size - HEAD_BYTES))
            return hashlib.sha256(head + stream.read(min(HEAD_BYTES, size))).hexdigest()

    def _update(self) -> None:
        start = int(self._meta().get("bytes", 0))
        end = start
        if self.trace.stat().st_size == start:
            return
        added: dict[str, dict[str, Any]] = {}
        for line in read_lines(self.trace, start):
            _apply(added, line)
            end = line.offset + line.length
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            if int(self._meta().get("bytes", 0)) != start:
                return  # another process was faster
            known = dict(self._connection.execute("SELECT id, lines FROM runs")) if start else {}
            number = len(known)
            rows = []
            for id, fields in added.items():
                if id in known:
                    self._extend(id, known[id], fields)
                    continue
                if (row := _row(number + 1, fields)) is not None:
                    number += 1
                    rows.append(row)
            marks = ",".join("?" * len(RunRow._fields))
            self._connection.executemany(f"INSERT INTO runs ({_COLUMNS}) VALUES ({marks})", rows)
            meta = {"format": FORMAT, "bytes": str(end), "print": self._print(end)}
            self._connection.executemany("REPLACE INTO meta VALUES (?, ?)", meta.items())

    def _extend(self, id: str, lines: str, fields: dict[str, Any]) -> None:
        """A run that was unfinished when it was indexed has more lines now."""
        merged: dict[str, Any] = {}
        for part in self._read(lines):
            merge_lines(merged, part)
        places = f"{lines} {fields['lines']}"
        row = _row(0, {**_compact(merged), **_without_none(fields), "lines": places})
        if row is not None:
            names = [name for name in RunRow._fields if name not in ("number", "id")]
            assignments = ", ".join(f"{name} = ?" for name in names)
            values = [getattr(row, name) for name in names]
            self._connection.execute(f"UPDATE runs SET {assignments} WHERE id = ?", [*values, id])

    def _read(self, lines: str) -> Iterator[dict[str, Any]]:
        with self.trace.open("rb") as stream:
            for place in lines.split():
                offset, length = place.split(":")
                stream.seek(int(offset))
                fields = parse_line(stream.read(int(length)))
                if fields is not None:
                    yield fields

    def rows(self) -> list[RunRow]:
        """All runs in starting order, so that children stand behind their parents."""
        found = self._connection.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY number")
        return list(map(RunRow._make, found))

    def count(self) -> int:
        number: int = self._connection.execute("SELECT count(*) FROM runs").fetchone()[0]
        return number

    def find(self, wanted: str) -> RunRow:
        """The run with this number, id, or unique beginning or end of an id.

        Raises:
            SettingsError: there is none, or there are several.
        """
        select = f"SELECT {_COLUMNS} FROM runs WHERE "
        if re.fullmatch(r"#?\d{1,7}", wanted):
            found = self._connection.execute(select + "number = ?", (int(wanted.lstrip("#")),)).fetchall()
            if found:
                return RunRow._make(found[0])
        condition = "id = ?1 OR substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1"
        found = self._connection.execute(f"{select}{condition} LIMIT 2", (wanted,)).fetchall()
        if len(found) != 1:
            many = "several runs have" if found else "no run has"
            raise SettingsError(f"{self.trace}: {many} the number or id {wanted!r}; `trace show` lists them")
        return RunRow._make(found[0])

    def record(self, row: RunRow) -> RunRecord | None:
        """The run in full; ``None`` when the file was changed below the index."""
        merged: dict[str, Any] = {}
        for fields in self._read(row.lines):
            if fields["id"] == row.id:
                merge_lines(merged, fields)
        try:
            return RunRecord.model_validate(merged)
        except ValidationError:
            return None

    def records(self, rows: Iterable[RunRow]) -> Iterator[tuple[RunRow, RunRecord]]:
        """Several runs in full, one after the other."""
        for row in rows:
            if (record := self.record(row)) is not None:
                yield row, record


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _compact(fields: dict[str, Any]) -> dict[str, Any]:
    """What the index keeps of a line; the large parts are dropped at once, a long trace would not fit in memory."""
    run_type = fields.get("run_type") or ""
    outputs = fields.get("outputs")
    error = fields.get("error")
    kept = {
        key: fields.get(key)
        for key in ("id", "parent_run_id", "trace_id", "dotted_order", "name", "run_type", "start_time", "end_time")
    }
    if "tags" in fields:
        kept["hidden"] = int(HIDDEN_TAG in (fields["tags"] or ()))
    if outputs is not None:
        kept |= {"value": value_of(run_type, outputs), "cost_usd": cost_of(outputs)}
    if error is not None:
        kept["error"] = error_line(error)
    for key in ("prompt_tokens", "completion_tokens"):
        kept[key] = fields.get(key)
    if run_type == "llm" and isinstance(outputs, dict) and kept["prompt_tokens"] is None:
        tokens = tokens_of(outputs)
        kept |= {"prompt_tokens": tokens.prompt_tokens, "completion_tokens": tokens.completion_tokens}
    return kept


def _apply(added: dict[str, dict[str, Any]], line: Line) -> None:
    kept = _compact(line.fields)
    place = f"{line.offset}:{line.length}"
    earlier = added.get(kept["id"])
    if earlier is None:
        added[kept["id"]] = {**kept, "lines": place}
    else:
        place = f"{earlier['lines']} {place}"
        earlier.update(_without_none(kept), lines=place)


def _seconds(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


def _row(number: int, fields: dict[str, Any]) -> RunRow | None:
    """The row of a run; ``None`` for a line that has no place in a tree."""
    start_s, end_s = _seconds(fields.get("start_time")), _seconds(fields.get("end_time"))
    texts = [str(fields[key]) for key in ("trace_id", "dotted_order", "name", "run_type") if fields.get(key)]
    if start_s is None or len(texts) != 4:
        return None
    trace_id, _, name, run_type = texts
    error = fields.get("error") or ""
    status = "error" if error else "unfinished" if end_s is None else "success"
    return RunRow(
        number,
        fields["id"],
        fields.get("parent_run_id"),
        trace_id,
        name,
        run_type,
        start_s,
        end_s,
        status,
        fields.get("hidden", 0),
        fields.get("prompt_tokens"),
        fields.get("completion_tokens"),
        fields.get("cost_usd"),
        fields.get("value") or "",
        error,
        fields["lines"],
    )
