"""What is read of a run folder to show it: settings, plan, attempts, best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.records import Evaluation, Plan, Record

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Run", "attempt_table", "plan_lines", "read_run"]


class Run(Record):
    """One run, as far as its folder tells; also an unfinished one."""

    folder: str
    problem: str
    settings: dict[str, Any]
    plans: tuple[Plan, ...]
    evaluations: tuple[Evaluation, ...]
    best_id: int | None
    best: str | None
    """Path of ``best.py``."""
    report: str | None
    result: dict[str, Any] | None
    """What ``solve`` returned; ``None`` while the run is not finished."""


def read_run(folder: Path) -> Run:
    """Read a run folder, finished or not.

    Raises:
        SettingsError: there is no run in it, or a file of it cannot be read.
    """
    from stitchcuda.nodes.run_folder import RunFolder

    stored = RunFolder(folder)
    settings = stored.read_settings()
    problem = stored.read_problem()
    best = folder / "best.json"
    result = folder / "result.json"
    try:
        plans = tuple(Plan.model_validate_json(path.read_text("utf-8")) for path in _files(folder / "plans"))
        evaluations = tuple(
            Evaluation.model_validate_json(path.read_text("utf-8")) for path in _files(folder / "evaluations")
        )
        best_id = json.loads(best.read_text("utf-8"))["candidate"]["id"] if best.exists() else None
        outcome = json.loads(result.read_text("utf-8")) if result.exists() else None
    except (OSError, ValidationError, ValueError, KeyError) as error:
        raise SettingsError(f"{folder}: a file of the run cannot be read: {error}") from error
    return Run(
        folder=str(folder),
        problem=problem.name,
        settings=settings,
        plans=plans,
        evaluations=evaluations,
        best_id=best_id,
        best=str(folder / "best.py") if (folder / "best.py").exists() else None,
        report=str(folder / "report.md") if (folder / "report.md").exists() else None,
        result=outcome,
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if path.stem.isdigit())


def plan_lines(run: Run) -> list[str]:
    """The last plan as text, a line per sub-task."""
    if not run.plans:
        return ["no plan yet"]
    plan = run.plans[-1]
    lines = [f"plan (revision {plan.revision}): {plan.summary}"]
    lines += [f"  {task.id}  {task.title}: {task.technique}; done when {task.done_when}" for task in plan.subtasks]
    lines += [f"  left to PyTorch: {text}" for text in plan.left_to_pytorch]
    return lines


def attempt_table(run: Run) -> Table:
    """One row per evaluated candidate."""
    from stitchcuda.cli.output import add_row, new_table

    table = new_table("attempt", "status", "speed-up", "seconds", "what")
    for evaluation in run.evaluations:
        mark = " (best)" if evaluation.candidate_id == run.best_id else ""
        ratio = f"{evaluation.speedup:.2f}x" if evaluation.speedup is not None else ""
        why = " ".join((*evaluation.reasons, evaluation.message)).strip()
        status = evaluation.status.value + mark
        add_row(table, str(evaluation.candidate_id), status, ratio, f"{evaluation.seconds:.1f}", why)
    return table
