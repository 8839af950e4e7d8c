"""The command line as a user meets it: arguments in, exit code and two streams out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROBLEM = """\
import torch
import torch.nn as nn

size = 8


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(size, size)]


def get_init_inputs():
    return []


REDUCED = {"size": 4}
"""


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout as exactly one JSON object: anything else on it fails to parse."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    from stitchcuda.cli.main import main

    def run(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to ``runs/`` where they are started, and read ``.env`` there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    path = tmp_path / "3_relu.py"
    path.write_text(PROBLEM)
    return path


@dataclass
class FakeSolve:
    """Stands where ``graph.solve.solve`` stands and leaves the same folder behind.

    ``outcomes`` maps a problem's name to a status, a speed-up, or an exception to raise; the rest pass.
    """

    outcomes: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str = "complete"
    usage: dict[str, int] = field(default_factory=lambda: {"calls": 0, "input_tokens": 0, "output_tokens": 0})
    cost_usd: float = 0.0
    cached: int = 0
    before_run_json: bool = False
    """Raise before anything is saved."""

    async def __call__(
        self, problem: Any, context: Any, *, run_dir: Path, resume: bool = False, on_event: Any = None
    ) -> Any:
        from stitchcuda.core.records import CandidateSource, Evaluation, Plan, Status, SubTask
        from stitchcuda.graph.solve import Event, SolveResult
        from stitchcuda.nodes.run_folder import RunFolder

        self.calls.append({"problem": problem, "context": context, "run_dir": run_dir, "resume": resume})
        outcome = self.outcomes.get(problem.name, "passed")
        run_dir.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # nothing else runs in this loop
        if isinstance(outcome, BaseException) and self.before_run_json:
            raise outcome
        folder = RunFolder(run_dir)
        folder.write_settings(context.model_dump(mode="json"), {})
        folder.write_problem(problem, None)
        task = SubTask(id="s1", title="fuse [all]", ops=("relu",), contract="", technique="one kernel", done_when="ok")
        folder.write_plan(Plan(summary="one sub-task", subtasks=(task,), left_to_pytorch=("mm: library",)))
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome == "hang":
            await asyncio.sleep(60)
        speedup = outcome if isinstance(outcome, float) else None
        status = Status.PASSED if speedup is not None else Status(outcome)
        passed = status is Status.PASSED
        evaluation = Evaluation(
            candidate_id=1, status=status, device="cpu", reasons=() if passed else ("x_reason",), message="[why] so"
        )
        candidate = folder.write_candidate(1, None, "embedded", CandidateSource(source="class ModelNew: ...\n"))
        folder.write_evaluation(evaluation)
        if passed:
            folder.write_best(candidate, evaluation)
        (run_dir / "report.md").write_text("# report\n")
        if on_event is not None:
            on_event(Event(stage="planner", message="one sub-task"))
            on_event(Event(stage="diagnose", message="done", attempt=1, status=status.value, speedup=speedup))
        return SolveResult(
            problem=problem.name,
            device="cpu",
            status=status.value,
            solved=passed and (speedup is None or speedup > 1.0),
            speedup=speedup,
            reasons=evaluation.reasons,
            stop_reason=self.stop_reason,
            attempts=1,
            candidate=str(run_dir / "best.py") if passed else None,
            run_dir=str(run_dir),
            report=str(run_dir / "report.md"),
            evaluation=evaluation,
            usage=self.usage,
            seconds=0.1,
            cost_usd=self.cost_usd,
            cached=self.cached,
        )


@pytest.fixture
def fake_solve(monkeypatch: pytest.MonkeyPatch) -> FakeSolve:
    import stitchcuda.graph.solve

    fake = FakeSolve()
    monkeypatch.setattr(stitchcuda.graph.solve, "solve", fake)
    return fake
