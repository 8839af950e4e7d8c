"""The attempts of a run, put together from its trace: code, plan, verdict; and what differs between two of them.

Comes in: the index of a run folder. Goes out: one ``AttemptView`` per candidate, also for one whose evaluation was cut
off.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.records import Record
from stitchcuda.traces.blobs import read_blobs
from stitchcuda.traces.index import TraceIndex

__all__ = ["AttemptDiff", "AttemptView", "diff_attempts", "plan_text", "read_attempts", "verdict_text"]


class AttemptView(Record):
    """One candidate: what was asked, what was written, what came of it."""

    candidate_id: int
    run_number: int
    """Number of the Coder's run in the trace."""
    verdict_number: int | None = None
    """Number of the Verifier's run in the trace."""
    summary: str = ""
    status: str = "unfinished"
    speedup: float | None = None
    source: str = ""
    subtask: str = ""
    plan: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    feedback: dict[str, Any] = {}


class AttemptDiff(Record):
    """Unified diffs, empty where nothing differs."""

    a: int
    b: int
    code: str
    plan: str
    verdict: str


def read_attempts(index: TraceIndex) -> list[AttemptView]:
    """The attempts in order. A candidate that a resumed run evaluated again has its last verdict."""
    found: dict[int, dict[str, Any]] = {}
    wanted = [row for row in index.rows() if row.run_type == "chain" and row.name in ("coder", "verifier")]
    for row, record in index.records(sorted(wanted, key=lambda row: row.number)):
        outputs = read_blobs(record.outputs or {}, index.run_dir)
        inputs = record.inputs
        candidate = _dict((outputs if row.name == "coder" else inputs).get("candidate"))
        id = candidate.get("id")
        if not isinstance(id, int):
            continue
        one = found.setdefault(id, {"candidate_id": id, "run_number": row.number})
        if row.name == "coder":
            plan = _dict(read_blobs(inputs.get("plan"), index.run_dir))
            one |= {
                "summary": str(candidate.get("summary") or ""),
                "source": _source(index.run_dir, candidate),
                "plan": plan,
                "subtask": ", ".join(map(str, candidate.get("covers") or [])),
            }
        elif evaluation := _dict(outputs.get("evaluation")):
            baselines = _dict(evaluation.get("timing")).get("baselines") or [{}]
            one |= {
                "verdict_number": row.number,
                "status": str(evaluation.get("status")),
                "speedup": baselines[0].get("speedup"),
                "evaluation": evaluation,
                "feedback": _dict(outputs.get("feedback")),
            }
    return [AttemptView.model_validate(found[id]) for id in sorted(found)]


def diff_attempts(index: TraceIndex, a: int, b: int) -> AttemptDiff:
    """What changed from attempt ``a`` to attempt ``b``.

    Raises:
        SettingsError: the trace has no such attempt.
    """
    attempts = {attempt.candidate_id: attempt for attempt in read_attempts(index)}
    for wanted in (a, b):
        if wanted not in attempts:
            there = ", ".join(map(str, attempts)) or "none"
            raise SettingsError(f"{index.trace}: there is no attempt {wanted}; there are: {there}")
    old, new = attempts[a], attempts[b]
    return AttemptDiff(
        a=a,
        b=b,
        code=_diff(old.source, new.source, f"candidates/{a:02d}.py", f"candidates/{b:02d}.py"),
        plan=_diff(plan_text(old.plan), plan_text(new.plan), f"plan of attempt {a}", f"plan of attempt {b}"),
        verdict=_diff(verdict_text(old), verdict_text(new), f"verdict on attempt {a}", f"verdict on attempt {b}"),
    )


def plan_text(plan: Mapping[str, Any]) -> str:
    """A plan as lines that can be compared."""
    lines = [f"revision {plan.get('revision', 0)}", str(plan.get("summary") or "")]
    for task in plan.get("subtasks") or []:
        lines.append(f"{task.get('id')}: {task.get('title')}")
        lines += [
            f"  {key}: {task[key]}" for key in ("technique", "contract", "memory_limit", "done_when") if task.get(key)
        ]
    lines += [f"left to PyTorch: {item}" for item in plan.get("left_to_pytorch") or []]
    return "\n".join(line for line in lines if line)


def verdict_text(attempt: AttemptView) -> str:
    """A verdict as lines that can be compared; no times, they differ always."""
    evaluation = attempt.evaluation
    lines = [f"status: {attempt.status}"]
    lines += [f"reason: {reason}" for reason in evaluation.get("reasons") or []]
    lines += [f"message: {evaluation['message']}"] if evaluation.get("message") else []
    lines += [f"speedup: {attempt.speedup:.2f}x"] if attempt.speedup is not None else []
    for extension in _dict(evaluation.get("build")).get("extensions") or []:
        lines.append(f"build {extension.get('name')}: {'ok' if extension.get('ok') else 'failed'}")
        lines += [
            f"  {one.get('severity')} line {one.get('line')}: {one.get('message')}"
            for one in extension.get("diagnostics") or []
        ]
    lines += [
        f"screen: {one.get('severity')} {one.get('rule')} line {one.get('line')}: {one.get('message')}"
        for one in _dict(evaluation.get("screen")).get("findings") or []
    ]
    for output in _dict(evaluation.get("check")).get("outputs") or []:
        mark = "ok" if output.get("ok") else f"{output.get('status')} {output.get('message')}"
        lines.append(f"check {output.get('trial')} {output.get('output')}: {mark}")
    for baseline in _dict(evaluation.get("timing")).get("baselines") or []:
        lines.append(f"time {baseline.get('name')}: {baseline.get('speedup'):.2f}x")
    feedback = attempt.feedback
    lines += [f"feedback: {feedback.get('kind')}: {feedback.get('instruction')}"] if feedback else []
    return "\n".join(lines)


def _diff(old: str, new: str, old_name: str, new_name: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
    return "\n".join(lines)


def _source(run_dir: Path, candidate: Mapping[str, Any]) -> str:
    path = run_dir / str(candidate.get("path") or "")
    # A trace may come from elsewhere: a path in it must not lead out of the run folder.
    if not path.is_file() or not path.resolve().is_relative_to(run_dir.resolve()):
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
