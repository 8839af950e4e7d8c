"""Run folders in short: what was solved, how it ended, what it cost.

Comes in: a folder with run folders somewhere below it (a batch, ``runs/``, or one run). Goes out: one summary per run
folder, also for unfinished ones; a file that cannot be read leaves its fields unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.records import Record

__all__ = ["FolderSummary", "find_run_folders", "summarise"]

DEEPEST = 4
MARKS = frozenset({"run.json", "trace.jsonl"})
UNFINISHED = "unfinished"


class FolderSummary(Record):
    """One run folder. ``None`` where nothing is known."""

    path: str
    problem: str
    level: int | None = None
    id: int | None = None
    status: str = UNFINISHED
    """The last or best candidate's status; ``unfinished`` while there is no result."""
    speedup: float | None = None
    attempts: int | None = None
    stop_reason: str = ""
    device: str = ""
    seconds: float | None = None
    chat_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Of the chat calls; ``None`` without any, or without a price table."""
    started: datetime | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def find_run_folders(root: Path) -> list[Path]:
    """The run folders at and below ``root``, sorted by path; does not look into run folders.

    Raises:
        SettingsError: there is no such folder.
    """
    if not root.is_dir():
        raise SettingsError(f"there is no folder {root}; give a run folder or a folder of them")
    return sorted(_search(root, 0))


def _search(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # a folder that may not be read holds nothing to show
        return
    if any(entry.name in MARKS for entry in entries):
        yield folder
    elif depth < DEEPEST:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _search(folder / entry.name, depth + 1)


def summarise(run_dir: Path) -> FolderSummary:
    """What the small files of a run folder say; its trace is not read."""
    problem, settings, result = (_json(run_dir / name) for name in ("problem.json", "run.json", "result.json"))
    usage = _dict(result.get("usage"))
    evaluations = sorted((run_dir / "evaluations").glob("*.json"))
    device = _dict(result.get("device")).get("device") or _dict(settings.get("settings")).get("device") or ""
    return FolderSummary(
        path=str(run_dir),
        problem=str(problem.get("name") or run_dir.name),
        level=_int(problem.get("level")),
        id=_int(problem.get("id")),
        status=str(result.get("status") or UNFINISHED),
        speedup=_float(result.get("speedup")),
        attempts=_int(result.get("attempts")) if result else len(evaluations),
        stop_reason=str(result.get("stop_reason") or ""),
        device=str(device),
        seconds=_float(result.get("seconds")),
        chat_calls=_int(usage.get("calls")) or 0,
        input_tokens=_int(usage.get("input_tokens")) or 0,
        output_tokens=_int(usage.get("output_tokens")) or 0,
        cost_usd=_float(usage.get("cost_usd")) or None,  # 0 is what a run without prices says
        started=_time(settings.get("created")),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        return _dict(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _time(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
