"""Mine run folders: each call of the Coder becomes a row, kept or rejected with a reason.

Comes in: run folders with ``trace.jsonl``, ``problem.json``, ``run.json``, ``candidates/``, ``evaluations/``. Goes out:
rows. A folder that cannot be read is reported and skipped; a row that cannot be completed is counted by reason.

First version: rows of chat engines carry their rendered prompt; those of the embedded engine have none, and a prompt
must be rendered from the row's plan and evidence. Degenerate problems are not recognised yet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from stitchcuda.core.errors import one_line
from stitchcuda.core.files import sha256_text
from stitchcuda.core.records import Candidate, Evaluation, Feedback, Plan, Record, Status
from stitchcuda.traces import RunRecord, read_blobs, read_trace
from stitchcuda.training.rows import Row
from stitchcuda.training.syntax import normalised_digest

__all__ = ["Mined", "mine_runs", "verdict_on_row"]

ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


class Mined(NamedTuple):
    """Everything that was found."""

    rows: list[Row]
    rejected: list[Row]
    incomplete: dict[str, int]
    """Calls of the Coder that give no row, by reason."""
    problems: list[str]
    """A line per folder that could not be read."""


class _Run(Record):
    """The fixed part of one run folder."""

    name: str
    problem: dict[str, Any]
    settings: dict[str, Any]
    machine: dict[str, Any]


def mine_runs(run_dirs: Iterable[Path]) -> Mined:
    """Rows of all folders; equal answers to the same problem and skill are kept once, the first one."""
    mined = Mined([], [], {}, [])
    incomplete: Counter[str] = Counter()
    seen: set[tuple[str, str, str]] = set()
    for run_dir in run_dirs:
        try:
            run = _read_run(run_dir)
        except (OSError, ValueError, KeyError, TypeError) as error:
            mined.problems.append(f"{run_dir}: no run that can be read: {one_line(error)}")
            continue
        records = read_trace(run_dir / "trace.jsonl")
        for row in _rows(run_dir, run, records, incomplete):
            key = (row.problem_sha256, row.skill, row.answer_digest)
            if row.kept and key in seen:
                row = row.model_copy(update={"kept": False, "why": "duplicate"})
            if row.kept:
                seen.add(key)
            (mined.rows if row.kept else mined.rejected).append(row)
    mined.incomplete.update(sorted(incomplete.items()))
    return mined


def verdict_on_row(skill: str, before: Evaluation | None, after: Evaluation) -> tuple[bool, str]:
    """Whether a row teaches something, and why (not).

    A scratch row (also the next sub-task on top of a working program) is kept when its candidate passed. A feedback row
    is kept when the next evaluation repaired the failure, or when the speed-up rose by more than its confidence
    interval.
    """
    if Status.MACHINE_ERROR in (after.status, before.status if before is not None else None):
        return False, "machine_error"
    if after.status is Status.CHEATING:
        return False, "cheating"
    if not after.passed:
        return False, "broke_it" if before is not None and before.passed else "failed"
    if skill == "scratch" or before is None:
        return True, "passed"
    if not before.passed:
        return True, "repaired"
    if before.timing is None or after.timing is None or not before.timing.baselines or not after.timing.baselines:
        return False, "not_timed"
    if after.timing.baselines[0].speedup_low > before.timing.baselines[0].speedup_high:
        return True, "faster"
    return False, "no_gain"


def _read_run(run_dir: Path) -> _Run:
    stored = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    problem = json.loads((run_dir / "problem.json").read_text(encoding="utf-8"))
    if not isinstance(problem["source"], str):
        raise ValueError("problem.json holds no source")
    return _Run(name=run_dir.name, problem=problem, settings=stored["settings"], machine=stored["machine"])


def _rows(run_dir: Path, run: _Run, records: Sequence[RunRecord], incomplete: Counter[str]) -> list[Row]:
    children: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.parent_run_id is not None:
            children.setdefault(record.parent_run_id, []).append(record)
    # A resumed run may hold the same step twice; the later one is what the folder's files belong to.
    calls: dict[int, tuple[RunRecord, Candidate]] = {}
    for record in records:
        if record.name != "coder" or record.run_type != "chain" or record.outputs is None:
            continue
        try:
            candidate = Candidate.model_validate(record.outputs["candidate"])
        except (KeyError, ValidationError):
            incomplete["no_candidate"] += 1
            continue
        calls[candidate.id] = (record, candidate)
    rows = []
    for record, candidate in calls.values():
        row, reason = _row(run_dir, run, record, candidate, {id: call[1] for id, call in calls.items()}, children)
        if row is None:
            incomplete[reason] += 1
        else:
            rows.append(row)
    return rows


def _row(
    run_dir: Path,
    run: _Run,
    record: RunRecord,
    candidate: Candidate,
    candidates: dict[int, Candidate],
    children: dict[str, list[RunRecord]],
) -> tuple[Row | None, str]:
    """The row of one call, or ``None`` and what is missing."""
    answer = _source(run_dir, candidate)
    evaluation = _evaluation(run_dir, candidate.id)
    if answer is None:
        return None, "source_missing_or_changed"
    if evaluation is None:
        return None, "not_evaluated"
    parent = candidates.get(candidate.parent_id) if candidate.parent_id is not None else None
    inputs = read_blobs(record.inputs, run_dir)
    feedback = inputs.get("feedback")
    answers = isinstance(feedback, dict) and feedback.get("kind") in ("repair", "optimise")
    skill = "feedback" if parent is not None and answers else "scratch"
    before = _evaluation(run_dir, parent.id) if parent is not None else None
    previous = _source(run_dir, parent) if parent is not None else None
    if parent is not None and (before is None or previous is None):
        return None, "parent_missing"
    kept, why = verdict_on_row(skill, before, evaluation)
    decision = inputs.get("decision")
    reference = run.problem["source"]
    try:
        row = Row(
            skill=skill,
            run=run.name,
            problem=str(run.problem.get("name", "")),
            problem_sha256=sha256_text(reference),
            level=run.problem.get("level"),
            reference=reference,
            candidate_id=candidate.id,
            parent_id=candidate.parent_id,
            author=candidate.author,
            answer=answer,
            answer_digest=normalised_digest(answer),
            messages=_messages(run_dir, record, children),
            plan=Plan.model_validate(inputs["plan"]) if inputs.get("plan") else None,
            subtask_id=decision.get("subtask_id") if isinstance(decision, dict) else None,
            covers=candidate.covers,
            previous=previous,
            previous_evaluation=before,
            feedback=Feedback.model_validate(feedback) if skill == "feedback" else None,
            evaluation=evaluation,
            device=evaluation.device,
            policy=evaluation.policy,
            machine=run.machine,
            kept=kept,
            why=why,
        )
    except ValidationError:
        return None, "other_schema"
    return row, ""


def _source(run_dir: Path, candidate: Candidate) -> str | None:
    try:
        text = (run_dir / candidate.path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if sha256_text(text) == candidate.sha256 else None


def _evaluation(run_dir: Path, candidate_id: int) -> Evaluation | None:
    path = run_dir / "evaluations" / f"{candidate_id:02d}.json"
    try:
        return Evaluation.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _messages(
    run_dir: Path, call: RunRecord, children: dict[str, list[RunRecord]]
) -> tuple[dict[str, str], ...] | None:
    """The prompt of the last answered LLM run below ``call``: the one whose answer was used."""
    found: RunRecord | None = None
    open_runs = [call]
    while open_runs:
        below = children.get(open_runs.pop().id, [])
        open_runs.extend(below)
        for record in below:
            if record.run_type == "llm" and record.status == "success":
                found = record if found is None or record.start_time > found.start_time else found
    if found is None:
        return None
    batches = read_blobs(found.inputs, run_dir).get("messages") or [[]]
    messages = []
    for message in batches[0]:
        fields = message.get("kwargs", message) if isinstance(message, dict) else {}
        content = fields.get("content", "")
        if not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
        messages.append({"role": ROLES.get(str(fields.get("type")), "user"), "content": content})
    return tuple(messages)
