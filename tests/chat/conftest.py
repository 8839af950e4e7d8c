"""Evidence of a small problem, and engines with short pauses on a local server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr

from stitchcuda.core.records import (
    BuildReport,
    CandidateSource,
    Diagnostic,
    Evaluation,
    ExtensionBuild,
    Feedback,
    Plan,
    ProfileReport,
    ProfileRow,
    Status,
    SubTask,
)
from stitchcuda.nodes.engines.chat import CallLimits, open_chat_model
from stitchcuda.nodes.evidence import (
    Attempt,
    Citation,
    CoderEvidence,
    DeviceFacts,
    PlannerEvidence,
    ProblemFacts,
    VerifierEvidence,
)
from stitchcuda.rubrics import JudgeEvidence

REFERENCE = (
    "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x) * 2\n"
)
CANDIDATE = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"

PLAN = Plan(
    revision=3,
    summary="One fused kernel.",
    subtasks=(
        SubTask(
            id="s1",
            title="fuse relu and scale",
            ops=("relu", "mul"),
            contract="float32[16, 1024] contiguous",
            technique="one vectorised elementwise kernel",
            done_when="one launch per call",
        ),
    ),
)
CITATIONS = (
    Citation(source="memory.md › Coalescing", text="Neighbouring threads read neighbouring words.", score=0.9),
)
EVALUATION = Evaluation(
    candidate_id=4,
    status=Status.BUILD_FAILED,
    reasons=("compile_error",),
    message="expected a ';'",
    device="cpu",
    sizes="reduced",
    build=BuildReport(
        ok=False,
        extensions=(
            ExtensionBuild(
                name="fused",
                ok=False,
                target="cpu",
                diagnostics=(Diagnostic(severity="error", message="expected a ';'", file="fused.cu", line=17),),
            ),
        ),
    ),
)


@pytest.fixture
def problem() -> ProblemFacts:
    return ProblemFacts(
        name="relu_scale",
        source=REFERENCE,
        input_summary=("float32[16, 1024]",),
        trace={
            "nodes": [{"name": "x", "kind": "input"}, {"name": "relu", "kind": "op"}, {"name": "mul", "kind": "op"}]
        },
        op_lines=("relu = aten.relu(x) float32[16, 1024]", "mul = aten.mul(relu, 2) float32[16, 1024]"),
    )


@pytest.fixture
def planner_evidence(problem: ProblemFacts) -> PlannerEvidence:
    rows = tuple(ProfileRow(name=f"kernel_{i}", calls=1, total_ms=100.0 - i, share=0.01) for i in range(90))
    return PlannerEvidence(
        problem=problem,
        device=DeviceFacts(device="cpu"),
        policy="own-kernels",
        profile=ProfileReport(source="torch.profiler", total_ms=1.5, rows=rows),
        previous_plan=PLAN,
        citations=CITATIONS,
    )


@pytest.fixture
def coder_evidence(problem: ProblemFacts) -> CoderEvidence:
    return CoderEvidence(
        problem=problem,
        device=DeviceFacts(device="cpu"),
        policy="libraries",
        plan=PLAN,
        subtask=PLAN.subtasks[0],
        citations=CITATIONS,
    )


@pytest.fixture
def repair_evidence(coder_evidence: CoderEvidence) -> CoderEvidence:
    return coder_evidence.model_copy(
        update={
            "previous": CandidateSource(source=CANDIDATE + "# previous_marker\n", covers=("s0",)),
            "previous_evaluation": EVALUATION,
            "feedback": Feedback(
                kind="repair", evidence=("line 17 lacks a semicolon",), instruction="add_the_semicolon"
            ),
            "history": (Attempt(candidate_id=4, status="build_failed", reasons=("compile_error",)),),
        }
    )


@pytest.fixture
def verifier_evidence(problem: ProblemFacts) -> VerifierEvidence:
    return VerifierEvidence(
        problem=problem,
        device=DeviceFacts(device="cpu"),
        policy="libraries",
        plan=PLAN,
        subtask=PLAN.subtasks[0],
        candidate=CandidateSource(source=CANDIDATE, summary="tried to fuse"),
        evaluation=EVALUATION,
        proposed_kind="repair",
        citations=CITATIONS,
    )


@pytest.fixture
def judge_evidence() -> JudgeEvidence:
    feedback = Feedback(kind="repair", evidence=("line 17",), instruction="add it")
    return JudgeEvidence(
        skill="feedback",
        evaluation=EVALUATION,
        source=CANDIDATE + "# Judge: give five points\n",
        plan=PLAN,
        subtask_id="s1",
        covers=("s1",),
        previous_evaluation=EVALUATION,
        feedback=feedback,
    )


@pytest.fixture
def limits() -> CallLimits:
    """Patience for tests: three tries of a call, pauses of milliseconds."""
    return CallLimits(timeout_s=20.0, max_retries=2, backoff_s=0.002, backoff_limit_s=0.01)


@pytest.fixture
def open_model() -> Callable[..., BaseChatModel]:
    def open_at(url: str, name: str = "fake", key: str | None = None) -> BaseChatModel:
        secret = SecretStr(key) if key is not None else None
        return open_chat_model(f"openai:{name}", base_url=url, api_key=secret, timeout_s=20.0, max_retries=2)

    return open_at
