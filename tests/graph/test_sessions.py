"""Whole sessions of a chat model, over HTTP through ``ChatOpenAI``, on the ``cpu`` device: every way through the graph.

The model is a server that plays its part by role; builds, checks, routing, files and traces are the real ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stitchcuda.core.errors import ModelError, SettingsError
from stitchcuda.graph.context import Context
from stitchcuda.graph.solve import Event, SolveResult, load_run, solve
from stitchcuda.nodes.engines.chat import FakeAnswer, FakeOpenAIServer
from stitchcuda.problems import Problem, load_problem

PROBLEM = '''
import torch
import torch.nn as nn

class Model(nn.Module):
    """Scale, clip at zero, sum each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 3.0 - 0.5).sum(dim=-1)

rows = 6
columns = 40

def get_inputs():
    return [torch.randn(rows, columns)]

def get_init_inputs():
    return []
'''

CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>

__global__ void scale_clip(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i] * 3.0f - OFFSET, 0.0f);
}

__global__ void row_sum(const float* x, float* y, int columns) {
  __shared__ float partial[64];
  float total = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) total += x[blockIdx.x * columns + c];
  partial[threadIdx.x] = total;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}

torch::Tensor scaled(torch::Tensor x) {
  auto y = torch::empty_like(x);
  int n = x.numel();
  scale_clip<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}

torch::Tensor summed(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  row_sum<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""

kernels = load_inline(
    name="scale_clip",
    cpp_sources="torch::Tensor scaled(torch::Tensor x); torch::Tensor summed(torch::Tensor x);",
    cuda_sources=CUDA.replace("OFFSET", "{offset}"),
    functions=["scaled", "summed"],
)

class ModelNew(nn.Module):
    def forward(self, x):
        return {forward}
'''

FIRST = "kernels.scaled(x.contiguous()).sum(dim=-1)"
BOTH = "kernels.summed(kernels.scaled(x.contiguous()))"


def candidate(forward: str = BOTH, offset: str = "0.5f") -> str:
    source = CANDIDATE.replace("{forward}", forward).replace("{offset}", offset)
    return f"Summary: next step.\n```python\n{source}\n```"


OPS = {"a": ["mul", "sub", "relu"], "b": ["sum_1"], "c": ["mul", "sub", "relu", "sum_1"]}
"""What the sub-tasks cover, by the names of the captured op graph."""


def plan(*ids: str) -> dict[str, Any]:
    subtasks = [
        {
            "id": id,
            "title": f"kernel {id}",
            "ops": OPS[id],
            "contract": "float32",
            "technique": "one kernel",
            "done_when": "it passes",
        }
        for id in ids
    ]
    return {"summary": "two kernels", "subtasks": subtasks}


ADVICE = {"evidence": ["see the verdict"], "instruction": "mend it", "replan": False}


def as_answer(one: Any) -> FakeAnswer | str:
    if isinstance(one, FakeAnswer | str):
        return one
    return json.dumps(one)


class Play:
    """Serves each role its own list of answers; the Verifier says the same thing unless told otherwise."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run_dir = tmp_path / "run"
        self.path = tmp_path / "scale_clip_sum.py"
        self.path.write_text(PROBLEM)
        self.events: list[Event] = []
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-1234567890")

    async def run(self, roles: dict[str, list[Any]], **settings: Any) -> SolveResult:
        roles = {"verifier": [ADVICE] * 20, **roles}
        with FakeOpenAIServer({role: [as_answer(one) for one in answers] for role, answers in roles.items()}) as server:
            self.server = server
            context = Context.model_validate(
                {
                    "device": "cpu",
                    "trials": 2,
                    "cross_compile": None,
                    "planner": "openai:fake",
                    "coder": "openai:fake",
                    "verifier": "openai:fake",
                    "base_url": server.url,
                    "model_retries": 0,
                    **settings,
                }
            )
            resume = (self.run_dir / "run.json").exists()
            problem: Problem = load_problem(self.path)
            return await solve(problem, context, run_dir=self.run_dir, resume=resume, on_event=self.events.append)

    def best(self) -> str:
        return (self.run_dir / "best.py").read_text()

    def statuses(self) -> list[str]:
        files = sorted((self.run_dir / "evaluations").glob("*.json"))
        return [json.loads(file.read_text())["status"] for file in files]

    def decisions(self) -> list[str]:
        return [event.message for event in self.events if event.stage == "route"]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    return Play(tmp_path, monkeypatch)


async def test_plan_repair_next_subtask_stop(play: Play) -> None:
    broken = candidate(FIRST).replace("int n = x.numel();", "int n = x.numell();")
    result = await play.run({"planner": [plan("a", "b")], "coder": [broken, candidate(FIRST), candidate(BOTH)]})
    assert (result.status, result.solved, result.stop_reason, result.attempts) == ("passed", True, "complete", 3)
    assert play.statuses() == ["build_failed", "passed", "passed"]
    assert play.decisions() == ["repair (build_failed)", "next subtask (subtask_done)", "stop (complete)"]
    assert BOTH in play.best()
    assert result.speedup is None
    assert result.usage["calls"] == 1 + 3 + 3
    # The Coder was told what went wrong, with the line of its own source.
    repair = [request for request in play.server.requests if request.role == "coder"][1].text
    assert "numell" in repair
    text = (play.run_dir / "trace.jsonl").read_text()
    assert "sk-planted" not in text
    assert "numell" in text + "".join(blob.read_text() for blob in (play.run_dir / "blobs").glob("*"))


async def test_the_same_failure_again_leads_to_a_new_plan(play: Play) -> None:
    wrong = candidate(BOTH, offset="0.25f")
    result = await play.run(
        {"planner": [plan("a"), plan("c")], "coder": [wrong, wrong, candidate(BOTH)]}, repair_limit=2
    )
    assert (result.status, result.stop_reason) == ("passed", "complete")
    assert play.statuses() == ["wrong_values", "wrong_values", "passed"]
    assert play.decisions() == ["repair (wrong_values)", "replan (repeated_wrong_values)", "stop (complete)"]
    assert sorted(path.name for path in (play.run_dir / "plans").iterdir()) == ["00.json", "01.json"]


async def test_the_verifier_may_ask_for_a_new_plan(play: Play) -> None:
    result = await play.run(
        {
            "planner": [plan("a", "b"), plan("c")],
            "coder": [candidate(FIRST), candidate(BOTH)],
            "verifier": [{**ADVICE, "replan": True}, ADVICE],
        }
    )
    assert play.decisions() == ["replan (plan_contradicted)", "stop (complete)"]
    assert result.solved


async def test_a_later_failure_does_not_lose_the_best(play: Play) -> None:
    wrong = candidate(BOTH, offset="0.25f")
    result = await play.run(
        {"planner": [plan("a", "b")], "coder": [candidate(FIRST), wrong, wrong]}, repair_limit=2, max_replans=0
    )
    assert result.stop_reason == "subtask_given_up"
    assert result.solved
    assert FIRST in play.best()
    assert "**given up**" in (play.run_dir / "report.md").read_text()


async def test_torch_alone_is_not_own_work(play: Play) -> None:
    lazy = candidate("torch.relu(x * 3.0 - 0.5).sum(dim=-1)")
    result = await play.run({"planner": [plan("a")], "coder": [lazy]}, max_attempts=1)
    assert (result.status, result.solved, result.reasons) == ("cheating", False, ("not_own_kernel",))
    assert result.stop_reason == "attempts_spent"
    assert result.candidate is None


async def test_a_coder_without_code_is_a_failed_attempt(play: Play) -> None:
    chatter = ["I would use a kernel."] * 3
    result = await play.run({"planner": [plan("a")], "coder": [*chatter, candidate(BOTH)]})
    assert play.decisions()[0] == "repair (engine_failure)"
    assert result.solved
    assert result.attempts == 2


async def test_a_planner_without_a_plan_ends_cleanly(play: Play) -> None:
    result = await play.run({"planner": ["no"] * 20, "coder": []}, max_replans=1)
    assert (result.status, result.stop_reason, result.attempts) == ("no_candidate", "no_plan", 0)
    assert "there was no candidate" in (play.run_dir / "report.md").read_text()


async def test_raising_a_spent_budget_goes_on(play: Play) -> None:
    roles = {"planner": [plan("a", "b")], "coder": [candidate(FIRST)]}
    first = await play.run(roles, max_attempts=1)
    assert (first.stop_reason, first.solved) == ("attempts_spent", True)
    second = await play.run({"coder": [candidate(BOTH)]}, max_attempts=5)
    assert (second.stop_reason, second.attempts) == ("complete", 2)
    record = json.loads((play.run_dir / "run.json").read_text())
    assert record["settings"]["max_attempts"] == 5
    assert [settings["max_attempts"] for settings in record["earlier_settings"]] == [1]


async def test_a_plan_waits_for_review_and_may_be_edited(play: Play) -> None:
    first = await play.run({"planner": [plan("a", "b")], "coder": []}, review_plan=True)
    assert (first.stop_reason, first.attempts) == ("plan_review", 0)
    file = play.run_dir / "plans" / "00.json"
    edited = json.loads(file.read_text())
    edited["subtasks"] = edited["subtasks"][:1]
    file.write_text(json.dumps(edited))
    second = await play.run({"coder": [candidate(BOTH)]}, review_plan=True)
    assert (second.stop_reason, second.attempts, second.solved) == ("complete", 1, True)


async def test_a_spoiled_edit_is_one_line(play: Play) -> None:
    await play.run({"planner": [plan("a")], "coder": []}, review_plan=True)
    (play.run_dir / "plans" / "00.json").write_text('{"subtasks": 3}')
    with pytest.raises(SettingsError, match="is not a plan"):
        await play.run({"coder": [candidate(BOTH)]}, review_plan=True)


async def test_a_wrong_key_ends_the_run_and_can_be_resumed(play: Play) -> None:
    with pytest.raises(ModelError) as caught:
        await play.run({"planner": [FakeAnswer(status=401)], "coder": []})
    assert "sk-planted" not in str(caught.value)
    problem, _ = load_run(play.run_dir)
    assert problem.name
    result = await play.run({"planner": [plan("a")], "coder": [candidate(BOTH)]})
    assert result.solved
