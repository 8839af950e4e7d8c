"""The embedded engines as pure functions of their evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stitchcuda.codegen import Trace, parse_schedule
from stitchcuda.core.records import (
    BaselineTiming,
    BuildReport,
    CandidateSource,
    CheckReport,
    Diagnostic,
    Evaluation,
    ExtensionBuild,
    Feedback,
    OutputCheck,
    Plan,
    Status,
    SubTask,
    TimingReport,
    TimingStats,
)
from stitchcuda.nodes.engines.embedded import EmbeddedCoder, EmbeddedPlanner, EmbeddedVerifier
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import (
    Attempt,
    Citation,
    CoderEvidence,
    DeviceFacts,
    PlannerEvidence,
    ProblemFacts,
    VerifierEvidence,
)

SOURCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 512)

    def forward(self, x):
        y = torch.tanh(self.linear(x)) * 2.0
        return torch.softmax(y @ y.t(), dim=-1) + 1.0, F.relu(x)


def get_inputs():
    return [torch.randn(128, 256)]


def get_init_inputs():
    return []
"""
GPU = DeviceFacts(device="cuda:0", name="GPU")


@pytest.fixture(scope="module")
def problem(trace_of: Callable[[str], Trace]) -> ProblemFacts:
    return ProblemFacts(name="small", source=SOURCE, trace=trace_of(SOURCE).model_dump(mode="json"))


@pytest.fixture
async def plan(problem: ProblemFacts) -> Plan:
    evidence = PlannerEvidence(
        problem=problem, device=GPU, policy="libraries", citations=(Citation(source="notes.md", text="…", score=1.0),)
    )
    return (await EmbeddedPlanner().plan(evidence))[0]


async def write(problem: ProblemFacts, plan: Plan, subtask: SubTask | None, **given: Any) -> CandidateSource:
    evidence = CoderEvidence(problem=problem, device=GPU, policy="libraries", plan=plan, subtask=subtask, **given)
    return (await EmbeddedCoder().write(evidence))[0]


async def diagnose(problem: ProblemFacts, plan: Plan, evaluation: Evaluation, **given: Any) -> Feedback:
    given = {"proposed_kind": "repair", "candidate": CandidateSource(source="")} | given
    evidence = VerifierEvidence(
        problem=problem,
        device=GPU,
        policy="libraries",
        plan=plan,
        subtask=plan.subtasks[0],
        evaluation=evaluation,
        **given,
    )
    return (await EmbeddedVerifier().diagnose(evidence))[0]


def attempt(number: int, status: str, candidate: CandidateSource) -> Attempt:
    return Attempt(candidate_id=number, status=status, choices=candidate.choices, covers=candidate.covers)


async def test_plan_lists_the_largest_saving_first_and_what_is_left(plan: Plan) -> None:
    assert [task.title for task in plan.subtasks] == ["tanh + mul", "softmax + add", "relu"]
    assert any(line.startswith("linear: a matrix product") for line in plan.left_to_pytorch)
    assert "float32[128, 512] → float32[128, 512]" in plan.subtasks[0].contract
    assert plan.subtasks[0].citations == ("notes.md",)


async def test_without_an_op_graph_the_plan_is_empty_and_says_why() -> None:
    problem = ProblemFacts(name="odd", source=SOURCE, trace_error="forward looks at a tensor's value")
    plan, _ = await EmbeddedPlanner().plan(PlannerEvidence(problem=problem, device=GPU, policy="libraries"))
    assert plan.subtasks == ()
    assert "forward looks at a tensor's value" in plan.left_to_pytorch[0]
    with pytest.raises(EngineFailure, match="forward looks at"):
        await write(problem, plan, None)


async def test_subtasks_are_implemented_one_by_one_and_kept(problem: ProblemFacts, plan: Plan) -> None:
    first = await write(problem, plan, plan.subtasks[0])
    second = await write(problem, plan, plan.subtasks[1], previous=first)
    assert first.covers == (plan.subtasks[0].id,)
    assert second.covers == (plan.subtasks[0].id, plan.subtasks[1].id)
    assert "fused_tanh_mul" in second.source
    assert "fused_softmax_add" in second.source
    assert "torch.relu(x)" in second.source
    assert second == await write(problem, plan, plan.subtasks[1], previous=first)


async def test_repair_goes_scalar_and_then_back_to_pytorch(problem: ProblemFacts, plan: Plan) -> None:
    first = await write(problem, plan, plan.subtasks[0])
    broken = await write(problem, plan, plan.subtasks[1], previous=first)
    told = Feedback(kind="repair", evidence=("wrong_values",))
    scalar = await write(problem, plan, plan.subtasks[1], previous=broken, feedback=told)
    changed = [group for group in broken.choices if broken.choices[group] != scalar.choices[group]]
    assert [parse_schedule(scalar.choices[group]).vec for group in changed] == [1]
    dropped = await write(problem, plan, plan.subtasks[1], previous=scalar, feedback=told)
    assert [dropped.choices[group] for group in changed] == ["pytorch"]
    assert "torch.softmax(" in dropped.source
    assert "left to PyTorch" in dropped.summary
    assert dropped.covers == broken.covers
    # The sub-task that passed before is untouched.
    assert "fused_tanh_mul" in dropped.source


async def test_nothing_left_to_write_is_said(problem: ProblemFacts, plan: Plan) -> None:
    told = Feedback(kind="repair")
    candidate = await write(problem, plan, plan.subtasks[0])
    candidate = await write(problem, plan, plan.subtasks[0], previous=candidate, feedback=told)
    with pytest.raises(EngineFailure, match="left to PyTorch"):
        await write(problem, plan, plan.subtasks[0], previous=candidate, feedback=told)


async def test_optimising_tries_each_choice_once_and_ends(problem: ProblemFacts, plan: Plan) -> None:
    candidate = await write(problem, plan, plan.subtasks[0])
    history = [attempt(1, "passed", candidate)]
    seen = [candidate.choices]
    message = ""
    while not message:
        try:
            trial = await write(problem, plan, None, previous=candidate, history=tuple(history))
        except EngineFailure as failure:
            message = str(failure)
        else:
            assert trial.choices not in seen
            seen.append(trial.choices)
            history.append(attempt(len(seen), "passed", trial))
    assert "at its end" in message
    assert len(seen) >= 5
    feedback = await diagnose(
        problem, plan, timed(1.5), candidate=candidate, proposed_kind="optimise", history=tuple(history)
    )
    assert feedback.kind == "accept"


async def test_build_error_is_given_with_file_and_line(problem: ProblemFacts, plan: Plan) -> None:
    diagnostic = Diagnostic(severity="error", message='identifier "foo" is undefined', file="cuda.cu", line=12)
    extension = ExtensionBuild(name="k", ok=False, target="sm_90", diagnostics=(diagnostic,))
    evaluation = Evaluation(
        candidate_id=1,
        status=Status.BUILD_FAILED,
        device="cuda:0",
        message="the extension does not compile",
        build=BuildReport(ok=False, extensions=(extension,)),
    )
    feedback = await diagnose(problem, plan, evaluation)
    assert feedback.kind == "repair"
    assert 'sm_90: cuda.cu:12: identifier "foo" is undefined' in feedback.evidence


@pytest.mark.parametrize(
    ("fraction", "relative", "cause"),
    [(0.001, 2.0, "border"), (1.0, 2.0, "wrong formula"), (0.3, 1e-4, "accuracy"), (0.3, 3.0, "index arithmetic")],
)
async def test_mismatch_names_output_size_and_cause(
    problem: ProblemFacts, plan: Plan, fraction: float, relative: float, cause: str
) -> None:
    output = OutputCheck(
        trial="scaled_3",
        output="out[1]",
        ok=False,
        status=Status.WRONG_VALUES,
        max_abs_error=0.5,
        max_rel_error=relative,
        mismatched_fraction=fraction,
    )
    evaluation = wrong(CheckReport(ok=False, status=Status.WRONG_VALUES, outputs=(output,)))
    feedback = await diagnose(problem, plan, evaluation)
    assert any("out[1] with inputs 'scaled_3'" in fact and "largest error 0.5" in fact for fact in feedback.evidence)
    assert cause in feedback.instruction


async def test_the_same_failure_again_and_again_asks_for_a_new_plan(problem: ProblemFacts, plan: Plan) -> None:
    candidate = await write(problem, plan, plan.subtasks[0])
    failures = tuple(attempt(number, "wrong_values", candidate) for number in range(1, 5))
    assert (await diagnose(problem, plan, wrong(), history=failures[:3])).kind == "repair"
    assert (await diagnose(problem, plan, wrong(), history=failures)).kind == "replan"
    evidence = PlannerEvidence(problem=problem, device=GPU, policy="libraries", previous_plan=plan, history=failures)
    new, _ = await EmbeddedPlanner().plan(evidence)
    assert plan.subtasks[0].title not in [task.title for task in new.subtasks]
    assert any("own kernels failed before" in line for line in new.left_to_pytorch)


async def test_timings_are_told_with_their_interval(problem: ProblemFacts, plan: Plan) -> None:
    candidate = await write(problem, plan, plan.subtasks[0])
    given = {"candidate": candidate, "history": (attempt(1, "passed", candidate),), "proposed_kind": "optimise"}
    feedback = await diagnose(problem, plan, timed(1.5), **given)
    assert feedback.kind == "optimise"
    assert "1.50x eager (1.40 to 1.60)" in feedback.evidence


def wrong(check: CheckReport | None = None) -> Evaluation:
    return Evaluation(candidate_id=1, status=Status.WRONG_VALUES, device="cuda:0", check=check)


def timed(speedup: float) -> Evaluation:
    stats = TimingStats(median_ms=1.0, p25_ms=1.0, p75_ms=1.0, calls=10)
    base = BaselineTiming(
        name="eager", stats=stats, speedup=speedup, speedup_low=speedup - 0.1, speedup_high=speedup + 0.1
    )
    timing = TimingReport(candidate=stats, baselines=(base,), rounds=10)
    return Evaluation(candidate_id=1, status=Status.PASSED, device="cuda:0", timing=timing)
