"""The index beside a trace: values, growth, damage, cuts at any byte, and size."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stitchcuda.core.errors import SettingsError
from stitchcuda.traces import read_trace
from stitchcuda.traces.draw import place, tree_line
from stitchcuda.traces.index import INDEX_NAME, RunRow, TraceIndex

START = "2026-12-01T12:00:{:02d}.000000+00:00"


def post(
    id: str, name: str, *, parent: str | None = None, at: int = 0, kind: str = "chain", **more: Any
) -> dict[str, Any]:
    place = f"{at:02d}{id}"
    order = place if parent is None else f"00root.{place}" if parent == "root" else f"00root.01{parent}.{place}"
    return {
        "event": "post",
        "id": id,
        "trace_id": "root",
        "parent_run_id": parent,
        "dotted_order": order,
        "name": name,
        "run_type": kind,
        "start_time": START.format(at),
        "inputs": {},
        "tags": [],
        **more,
    }


def patch(
    started: dict[str, Any], at: int, outputs: Any = None, error: str | None = None, **more: Any
) -> dict[str, Any]:
    kept = {key: value for key, value in started.items() if key not in ("inputs", "tags", "event")}
    return {**kept, "event": "patch", "end_time": START.format(at), "outputs": outputs, "error": error, **more}


def write(folder: Path, lines: list[dict[str, Any]], mode: str = "w") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "trace.jsonl"
    with path.open(mode) as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    return path


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    root = post("root", "solve")
    coder = post("coder", "coder", parent="root", at=1)
    edge = post("edge", "after_coder", parent="coder", at=2)
    model = post("model", "ChatOpenAI", parent="coder", at=2, kind="llm")
    build = post("build", "evaluator.build", parent="root", at=4, kind="tool")
    failed = {"ok": False, "extensions": [{"diagnostics": [{"severity": "error", "line": 7, "message": "no k"}]}]}
    answer = {"generations": [[{"message": {"kwargs": {"content": "Use a\nwarp."}}}]]}
    return [
        root,
        coder,
        model,
        patch(model, 3, answer, prompt_tokens=11, completion_tokens=5),
        edge,
        patch(edge, 3, {"output": "verifier"}),
        patch(coder, 3, {"candidate": {"id": 1, "summary": "One kernel."}}),
        build,
        patch(build, 6, {"output": failed}),
        patch(root, 7, None, "ValueError('no such op')\n\nTraceback (most recent call last): …"),
    ]


def rows_of(folder: Path) -> list[RunRow]:
    with TraceIndex(folder) as index:
        return index.rows()


def test_rows_tell_what_matters(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    write(tmp_path, lines)
    drawing = [tree_line(placed) for placed in place(rows_of(tmp_path))]
    assert drawing == [
        "    1  solve  7.0 s  ERROR ValueError('no such op')",
        "    2  ├─ coder  2.0 s  candidate 1: One kernel.",
        "    3  │  └─ ChatOpenAI  1.0 s  11→5 tokens  Use a warp.",
        "    5  └─ evaluator.build  2.0 s  failed: line 7: no k",
    ]
    assert "after_coder" in "".join(tree_line(placed) for placed in place(rows_of(tmp_path), everything=True))


def test_the_index_follows_a_growing_trace(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    write(tmp_path, lines[:3])
    assert [row.status for row in rows_of(tmp_path)] == ["unfinished"] * 3
    write(tmp_path, lines[3:], "a")
    grown = rows_of(tmp_path)
    fresh_dir = tmp_path / "fresh"
    write(fresh_dir, lines)
    assert grown == rows_of(fresh_dir)
    with TraceIndex(tmp_path) as index:
        record = index.record(index.find("coder"))
    assert record is not None
    assert record.outputs == {"candidate": {"id": 1, "summary": "One kernel."}}


def test_a_replaced_trace_and_a_damaged_index_are_noticed(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    path = write(tmp_path, lines)
    expected = rows_of(tmp_path)
    path.write_text(path.read_text().replace("solve", "other"))
    assert rows_of(tmp_path)[0].name == "other"
    path.write_text(path.read_text().replace("other", "solve"))
    assert rows_of(tmp_path) == expected
    (tmp_path / INDEX_NAME).write_bytes(b"not a database" * 400)
    assert rows_of(tmp_path) == expected
    path.write_text("")
    assert rows_of(tmp_path) == []


def test_a_cut_at_any_byte_shows_what_was_whole(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    whole = write(tmp_path / "whole", lines).read_bytes()
    cut = tmp_path / "cut"
    cut.mkdir()
    for at in range(0, len(whole) + 1, 23):
        (cut / "trace.jsonl").write_bytes(whole[:at])
        (cut / INDEX_NAME).unlink(missing_ok=True)
        rows = rows_of(cut)
        records = {record.id: record.status for record in read_trace(cut / "trace.jsonl")}
        assert {row.id: row.status for row in rows} == records
        # Going on after the cut, as a resumed run does, with the index of the cut file in place.
        with (cut / "trace.jsonl").open("ab") as stream:
            stream.write(b"\n" + json.dumps(post("later", "solve")).encode() + b"\n")
        assert "later" in {row.id for row in rows_of(cut)}


def test_runs_are_found_by_number_and_parts_of_ids(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    write(tmp_path, lines)
    with TraceIndex(tmp_path) as index:
        assert index.find("3").name == index.find("#3").name == index.find("mod").name == index.find("odel").name
        for wanted in ("99", "o", "zzz"):
            with pytest.raises(SettingsError, match=f"number or id '{wanted}'"):
                index.find(wanted)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    write(tmp_path, lines)
    tmp_path.chmod(0o555)
    try:
        assert len(rows_of(tmp_path)) == 5
    finally:
        tmp_path.chmod(0o755)


def test_an_index_that_another_process_holds_is_not_waited_for_long(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    import sqlite3

    write(tmp_path, lines[:3])
    rows_of(tmp_path)
    write(tmp_path, lines[3:], "a")
    holder = sqlite3.connect(tmp_path / INDEX_NAME)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert len(rows_of(tmp_path)) == 5
    finally:
        holder.close()


def test_twenty_thousand_runs_are_listed_at_once(tmp_path: Path) -> None:
    """In CPU time, so that a busy machine does not matter; ``benchmarks/traces.py`` measures 50,000."""
    state = {"plan": {"summary": "x" * 400}}
    many: list[dict[str, Any]] = []
    for number in range(20_000):
        run = post(f"{number:08d}", f"step {number % 7}", parent=None if number == 0 else "00000000", at=number % 60)
        many += [{**run, "inputs": state}, patch(run, 59, state)]
    write(tmp_path, many)
    with TraceIndex(tmp_path):
        pass
    started = time.process_time()
    placed = list(place(rows_of(tmp_path)))
    taken_s = time.process_time() - started
    assert len(placed) == 20_000
    assert taken_s < 1.0
