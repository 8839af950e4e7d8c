"""The reward of one candidate: pure functions, every component a column of its own.

Comes in: ``RewardFacts``, what the evaluator measured and what a judge said. Goes out: ``RewardColumns`` with
``reward=None`` when the sample is unscored (the machine failed, the judge gave no verdict, nothing was timed); such a
sample is left out of training, it is not a zero.

======================  ==================================================  =======================================
profile                 ``paper``                                           ``default``
======================  ==================================================  =======================================
not correct, or a hack  0                                                   0
speed-up used           the measured one                                    lower bound of its confidence interval
base                    ``min(s, 5) + 0.3``                                 ``max(0.1, 1 + log2(s) / 2)``, s ≤ 32
rubric                  ``r = (total - 4) / 16``; ``1 + λ (r - 0.5)``       the same
λ scratch / feedback    1.0 / 0.7                                           0.5 / 0.35
cap                     3 (so that all above 2.7x can look alike)           none needed: at most 4.375
gate                    status and judge                                    … and own kernels must have run
======================  ==================================================  =======================================

Neither pays for a build or a format alone.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field

from stitchcuda.core.records import Evaluation, Record, Status
from stitchcuda.rubrics import Rubric, Skill, Verdict, total

__all__ = ["RewardColumns", "RewardFacts", "RewardProfile", "compute_reward"]

RewardProfile = Literal["paper", "default"]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]

PAPER_LAMBDA: dict[Skill, float] = {"scratch": 1.0, "feedback": 0.7}
PAPER_SPEEDUP_CAP = 5.0
PAPER_BONUS = 0.3
PAPER_CAP = 3.0

DEFAULT_LAMBDA: dict[Skill, float] = {"scratch": 0.5, "feedback": 0.35}
"""Half of the paper's: what was measured should outweigh what was judged."""
DEFAULT_FLOOR = 0.1
"""A correct candidate is worth more than a wrong one, however slow."""
DEFAULT_SPEEDUP_CAP = 32.0
"""Beyond it a speed-up says more about the baseline than about the candidate."""

LOWEST_TOTAL, TOTAL_RANGE = 4.0, 16.0


class RewardFacts(Record):
    """What a reward depends on, and nothing else."""

    skill: Skill
    status: Status
    speedup: Ratio | None = None
    speedup_low: Ratio | None = None
    own_kernel_launches: Annotated[int, Field(ge=0)] | None = None
    evidence_hack: bool = False
    """The evaluator established cheating."""
    judge_hack: bool | None = None
    """The judge's word; ``None``: it did not say."""
    total: Annotated[float, Field(ge=4, le=20)] | None = None
    """The rubric's total; ``None``: unscored."""

    @classmethod
    def of(cls, evaluation: Evaluation, verdict: Verdict, rubric: Rubric) -> Self:
        """The facts of one judged candidate."""
        timed = evaluation.timing.baselines[0] if evaluation.timing and evaluation.timing.baselines else None
        return cls(
            skill=verdict.skill,
            status=evaluation.status,
            speedup=timed.speedup if timed else None,
            speedup_low=timed.speedup_low if timed else None,
            own_kernel_launches=evaluation.check.own_kernel_launches if evaluation.check else None,
            evidence_hack=evaluation.status is Status.CHEATING
            or (evaluation.screen is not None and evaluation.screen.blocked),
            judge_hack=verdict.major_hack,
            total=total(verdict, rubric),
        )


class RewardColumns(Record):
    """A reward and what it is made of; a component that was not reached is ``None``."""

    profile: RewardProfile
    reward: float | None
    """``None``: unscored, to be left out."""
    why: str
    """``scored``, ``hack``, ``incorrect``, ``not_own_kernel``, or what is missing: ``machine_error``, ``not_timed``,
    ``launches_not_counted``, ``judge_unscored``."""
    correct: float | None = None
    hack_by_evidence: float = 0.0
    hack_by_judge: float = 0.0
    speedup: float | None = None
    """The speed-up that the base was computed from."""
    base: float | None = None
    rubric: float | None = None
    """``(total - 4) / 16``."""
    factor: float | None = None


def compute_reward(profile: RewardProfile, facts: RewardFacts) -> RewardColumns:
    """The reward of ``facts`` under ``profile``, in [0, 3] for ``paper`` and [0, 4.375] for ``default``."""
    hacks = {"hack_by_evidence": float(facts.evidence_hack), "hack_by_judge": float(facts.judge_hack is True)}
    if facts.evidence_hack or facts.judge_hack is True or facts.status is Status.CHEATING:
        return RewardColumns(profile=profile, reward=0.0, why="hack", **hacks)
    if facts.status is Status.MACHINE_ERROR:
        return RewardColumns(profile=profile, reward=None, why="machine_error", **hacks)
    if facts.status is not Status.PASSED:
        return RewardColumns(profile=profile, reward=0.0, why="incorrect", correct=0.0, **hacks)

    if profile == "default" and facts.own_kernel_launches == 0:
        return RewardColumns(profile=profile, reward=0.0, why="not_own_kernel", correct=1.0, **hacks)
    speedup = facts.speedup if profile == "paper" else facts.speedup_low
    base = None if speedup is None else _paper_base(speedup) if profile == "paper" else _default_base(speedup)
    rubric = None if facts.total is None else (facts.total - LOWEST_TOTAL) / TOTAL_RANGE
    weight = (PAPER_LAMBDA if profile == "paper" else DEFAULT_LAMBDA)[facts.skill]
    factor = None if rubric is None else 1 + weight * (rubric - 0.5)
    why = "scored"
    if base is None:
        why = "not_timed"
    elif profile == "default" and facts.own_kernel_launches is None:
        why = "launches_not_counted"
    elif factor is None:
        why = "judge_unscored"
    reward = None
    if why == "scored" and base is not None and factor is not None:
        reward = min(base * factor, PAPER_CAP) if profile == "paper" else base * factor
    return RewardColumns(
        profile=profile,
        reward=reward,
        why=why,
        correct=1.0,
        speedup=speedup,
        base=base,
        rubric=rubric,
        factor=factor,
        **hacks,
    )


def _paper_base(speedup: float) -> float:
    return min(speedup, PAPER_SPEEDUP_CAP) + PAPER_BONUS


def _default_base(speedup: float) -> float:
    return max(DEFAULT_FLOOR, 1 + math.log2(min(speedup, DEFAULT_SPEEDUP_CAP)) / 2)
