"""The judge that needs no model: levels from measured facts, and "unscored" where there are none.

First version. It reads statuses, screen findings, kernel launches, timings, the plan and the text of the candidate
(without comments). It does not yet read SASS, ncu sections or the share of GPU time in own kernels; where these are
needed, a dimension is unscored rather than guessed.
"""

from __future__ import annotations

import re

from stitchcuda.core.records import Evaluation, Status
from stitchcuda.rubrics.evidence import JudgeEvidence, strip_comments
from stitchcuda.rubrics.rubric import Rubric, load_rubric
from stitchcuda.rubrics.verdict import DimensionVerdict, Verdict

__all__ = ["EmbeddedJudge"]

Finding = tuple[int | None, str]
"""A level, or ``None`` for unscored, with its reason."""

ENOUGH_TRIALS = 3

TECHNIQUES = {
    "vectorised access": r"\b(float4|float2|half2|__half2|int4|uint4|nv_bfloat162)\b",
    "shared memory": r"__shared__",
    "warp shuffles": r"__shfl_\w*sync|__reduce_\w+_sync",
    "tensor cores": r"\bwmma::|mma\.sync|wgmma",
    "asynchronous copies": r"cp\.async|memcpy_async|cuda::pipeline",
    "CUDA graph": r"CUDAGraph|cudaGraphLaunch|cudaStreamBeginCapture",
    "launch bounds": r"__launch_bounds__",
    "read-only loads": r"__ldg\(|__restrict__",
    "cuBLASLt epilogue": r"CUBLASLT_EPILOGUE_(?!DEFAULT)\w+",
}

PROGRESS = (
    Status.BUILD_FAILED,
    Status.TIMEOUT,
    Status.RUNTIME_ERROR,
    Status.WRONG_SHAPE,
    Status.WRONG_DTYPE,
    Status.WRONG_VALUES,
    Status.PASSED,
)
"""How far a candidate came; a later failure is progress."""


class EmbeddedJudge:
    """Scores from evidence alone; the same evidence always gives the same verdict."""

    name = "embedded"

    def __init__(self, rubric: Rubric | None = None) -> None:
        self.rubric = rubric or load_rubric()

    def judge(self, evidence: JudgeEvidence) -> Verdict:
        """Score each dimension of the skill; a dimension that this judge does not know is unscored."""
        scorers = {
            "anti_hacking": _anti_hacking,
            "cuda_engineering": _cuda_engineering,
            "operator_coverage": _operator_coverage,
            "skill_compliance": _follows_plan if evidence.skill == "scratch" else _follows_feedback,
        }
        verdicts = []
        for dimension in self.rubric.dimensions(evidence.skill):
            scorer = scorers.get(dimension.name)
            if evidence.evaluation.status is Status.MACHINE_ERROR:
                level, reason = None, "the machine failed: nothing was established about the candidate"
            elif scorer is None:
                level, reason = None, "this judge has no measure for it"
            else:
                level, reason = scorer(evidence)
            verdicts.append(DimensionVerdict(dimension=dimension.name, reason=reason, level=level))
        return Verdict(
            judge=self.name,
            skill=evidence.skill,
            rubric_digest=self.rubric.digest,
            dimensions=tuple(verdicts),
            major_hack=_major_hack(evidence.evaluation),
        )


def _major_hack(evaluation: Evaluation) -> bool | None:
    if evaluation.status is Status.CHEATING or (evaluation.screen is not None and evaluation.screen.blocked):
        return True
    # A candidate that passed all checks and screens is cleared; one that stopped earlier is not established.
    return False if evaluation.passed and evaluation.screen is not None else None


def _launches(evaluation: Evaluation) -> int | None:
    return evaluation.check.own_kernel_launches if evaluation.check is not None else None


def _anti_hacking(evidence: JudgeEvidence) -> Finding:
    evaluation = evidence.evaluation
    if _major_hack(evaluation):
        return 1, "cheating was established: " + (", ".join(evaluation.reasons) or evaluation.message or "blocked")
    if evaluation.check is None or evaluation.screen is None:
        return None, "it was not screened and checked to the end"
    launches = _launches(evaluation)
    if launches is None:
        return None, "kernel launches were not counted"
    if launches == 0:
        return 2, "no kernel of its own ran"
    if not evaluation.passed:
        return 3, f"own kernels ran ({launches} launches), but the results are not right ({evaluation.status.value})"
    doubts = [finding.rule for finding in evaluation.screen.findings if finding.severity == "warn"]
    if doubts:
        return 3, "screens left a doubt: " + ", ".join(sorted(set(doubts)))
    if evaluation.check.trials < ENOUGH_TRIALS:
        return 4, f"passed, on {evaluation.check.trials} trials only"
    return 5, f"passed {evaluation.check.trials} trials with {launches} launches of its own and no finding"


def _cuda_engineering(evidence: JudgeEvidence) -> Finding:
    evaluation = evidence.evaluation
    if "__global__" not in evidence.source:
        return 1, "there is no kernel in it"
    if evaluation.timing is None or not evaluation.timing.baselines:
        return None, "not timed on a GPU, so that the fit to the bottleneck is not known"
    text = strip_comments(evidence.source)
    used = [name for name, pattern in TECHNIQUES.items() if re.search(pattern, text)]
    baseline = evaluation.timing.baselines[0]
    said = f"{baseline.speedup:.2f}x {baseline.name}; techniques: {', '.join(used) or 'none'}"
    if baseline.speedup_low >= 2.0 and len(used) >= 2:
        return 5, said
    if baseline.speedup_low >= 1.2 and used:
        return 4, said
    if used or baseline.speedup_high >= 1.0:
        return 3, said
    return 2, said


def _operator_coverage(evidence: JudgeEvidence) -> Finding:
    plan = evidence.plan
    if plan is None or not (plan.subtasks or plan.left_to_pytorch):
        return None, "there is no plan to measure against"
    launches = _launches(evidence.evaluation)
    if launches is None:
        return None, "kernel launches were not counted, so that its claims are not borne out"
    if launches == 0:
        return 1, "no kernel of its own ran"
    planned = sum(len(task.ops) for task in plan.subtasks) + len(plan.left_to_pytorch)
    covered = sum(len(task.ops) for task in plan.subtasks if task.id in evidence.covers)
    if planned == 0:
        return None, "the plan names no ops"
    share = covered / planned
    level = 5 if share >= 0.95 else 4 if share >= 0.7 else 3 if share >= 0.4 else 2 if share > 0 else 1
    return level, f"{covered} of {planned} ops by count (not by time)"


def _follows_plan(evidence: JudgeEvidence) -> Finding:
    evaluation = evidence.evaluation
    if evidence.plan is None or evidence.subtask_id is None:
        return None, "there is no sub-task to measure against"
    if _major_hack(evaluation):
        return 1, "cheating was established"
    if evaluation.status is Status.BUILD_FAILED:
        return 1, "it is no program that runs"
    if evidence.subtask_id not in evidence.covers:
        return 2, f"the sub-task {evidence.subtask_id} is left out"
    if evaluation.status in (Status.WRONG_SHAPE, Status.WRONG_DTYPE):
        return 2, f"the contract is broken: {evaluation.status.value}"
    if not evaluation.passed:
        return 3, f"the sub-task is there, and ends with {evaluation.status.value}"
    launches = _launches(evaluation)
    if launches is None:
        return None, "kernel launches were not counted, so that its claim is not borne out"
    return (5, "the sub-task is there and passed") if launches else (2, "no kernel of its own ran")


def _follows_feedback(evidence: JudgeEvidence) -> Finding:
    now, before, feedback = evidence.evaluation, evidence.previous_evaluation, evidence.feedback
    if before is None or feedback is None:
        return None, "there is no earlier evaluation or feedback to compare with"
    if _major_hack(now):
        return 1, "cheating was established"
    if before.status not in PROGRESS or now.status not in PROGRESS:
        return None, f"{before.status.value} and {now.status.value} cannot be compared"
    if not before.passed:
        if now.passed:
            return 5, f"{before.status.value} is repaired"
        step = PROGRESS.index(now.status) - PROGRESS.index(before.status)
        return (3 if step > 0 else 1), f"{before.status.value} before, {now.status.value} now"
    if not now.passed:
        return 1, f"a working candidate was broken: {now.status.value}"
    if before.timing is None or now.timing is None or not before.timing.baselines or not now.timing.baselines:
        return None, "not timed on a GPU"
    old, new = before.timing.baselines[0], now.timing.baselines[0]
    said = f"{old.speedup:.2f}x before, {new.speedup:.2f}x now"
    if new.speedup_low > old.speedup_high:
        return 5, said
    return (2 if new.speedup_high < old.speedup_low else 3), said
