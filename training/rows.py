"""A training row, and the files that rows lie in.

First version: JSON lines (``rows.jsonl``, ``rejected.jsonl``) beside ``stats.json``; Parquet comes with the trainer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.files import write_json, write_text
from stitchcuda.core.records import Author, Evaluation, Feedback, Plan, Policy, Record
from stitchcuda.rubrics import Skill

__all__ = ["SCHEMA_VERSION", "Row", "Stats", "read_rows", "stats", "write_rows"]

SCHEMA_VERSION: Literal[1] = 1


class Row(Record):
    """One call of the Coder: what it was given, what it answered, and what came of it."""

    schema_version: Literal[1] = SCHEMA_VERSION
    skill: Skill
    run: str
    """Name of the run folder."""
    problem: str
    problem_sha256: str
    level: int | None = None
    reference: str
    candidate_id: int
    parent_id: int | None
    author: Author
    answer: str
    """The candidate's source."""
    answer_digest: str
    """Equal for sources that differ in comments, docstrings and layout only."""
    messages: tuple[dict[str, str], ...] | None
    """The rendered prompt as ``role``/``content``; ``None`` for the embedded engine, which is given none."""
    plan: Plan | None
    subtask_id: str | None = None
    """The sub-task that was decided on; ``None`` for the first call, which takes the plan's first."""
    covers: tuple[str, ...] = ()
    previous: str | None
    """The source that the Coder started from; ``None`` when it started from nothing."""
    previous_evaluation: Evaluation | None
    feedback: Feedback | None
    evaluation: Evaluation
    device: str
    policy: Policy
    machine: dict[str, Any]
    kept: bool
    why: str
    """``passed``, ``repaired``, ``faster``; or why it was rejected."""


class Stats(Record):
    """What a set of rows holds."""

    rows: int
    problems: int
    by_skill: dict[str, int]
    by_status: dict[str, int]
    by_author: dict[str, int]
    by_level: dict[str, int]
    by_why: dict[str, int]
    answer_chars: dict[str, int]
    """Smallest, median and largest length of an answer."""


def stats(rows: Sequence[Row]) -> Stats:
    """Count ``rows``."""
    lengths = sorted(len(row.answer) for row in rows)
    return Stats(
        rows=len(rows),
        problems=len({row.problem_sha256 for row in rows}),
        by_skill=_count(row.skill for row in rows),
        by_status=_count(row.evaluation.status.value for row in rows),
        by_author=_count(row.author for row in rows),
        by_level=_count("none" if row.level is None else str(row.level) for row in rows),
        by_why=_count(row.why for row in rows),
        answer_chars={"min": lengths[0], "median": lengths[len(lengths) // 2], "max": lengths[-1]} if lengths else {},
    )


def write_rows(out_dir: Path, rows: Sequence[Row], rejected: Sequence[Row], split: Mapping[str, str]) -> None:
    """Write ``train.jsonl``, ``heldout.jsonl``, ``rejected.jsonl`` and ``stats.json``.

    Args:
        out_dir: Created if needed; files of an earlier call are replaced.
        rows: The kept rows.
        rejected: The others, with their reasons.
        split: Problem digest to ``train`` or ``heldout``.
    """
    parts = {name: [row for row in rows if split[row.problem_sha256] == name] for name in ("train", "heldout")}
    parts["rejected"] = list(rejected)
    for name, part in parts.items():
        write_text(out_dir / f"{name}.jsonl", "".join(row.model_dump_json() + "\n" for row in part))
    write_json(
        out_dir / "stats.json",
        {"schema_version": SCHEMA_VERSION, **{name: stats(part).model_dump() for name, part in parts.items()}},
    )


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSON-lines file.

    Raises:
        SettingsError: A line is not a row of this schema version.
    """
    rows = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                rows.append(Row.model_validate(json.loads(line)))
            except (ValueError, ValidationError) as error:
                raise SettingsError(f"{path}:{number} is no training row of schema {SCHEMA_VERSION}") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    return rows


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
