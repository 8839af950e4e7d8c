"""Rewards: the published formula, the default one, and what must hold for any facts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchcuda.core.records import CheckReport, Evaluation, Status
from stitchcuda.rubrics import Skill, Verdict, load_rubric
from stitchcuda.training import RewardFacts, RewardProfile, compute_reward

PROFILES: tuple[RewardProfile, ...] = ("paper", "default")
profiles = st.sampled_from(PROFILES)
skills = st.sampled_from(("scratch", "feedback"))
speedups = st.floats(1e-3, 1e4, allow_nan=False)
totals = st.floats(4, 20)


def passed(speedup: float, total: float | None = 12.0, skill: Skill = "scratch", **changes: object) -> RewardFacts:
    fields: dict[str, object] = {
        "skill": skill,
        "status": Status.PASSED,
        "speedup": speedup,
        "speedup_low": speedup,
        "own_kernel_launches": 1,
        "judge_hack": False,
        "total": total,
    }
    return RewardFacts.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("speedup", "total", "skill", "expected"),
    [
        (1.0, 12, "scratch", 1.3),  # r = 0.5: the base alone
        (1.0, 20, "scratch", 1.3 * 1.5),
        (1.0, 4, "scratch", 1.3 * 0.5),
        (1.0, 20, "feedback", 1.3 * 1.35),
        (1.0, 4, "feedback", 1.3 * 0.65),
        (2.7, 12, "scratch", 3.0),
        (100.0, 20, "scratch", 3.0),  # min(100, 5) + 0.3 = 5.3, capped
        (10.0, 4, "scratch", 5.3 * 0.5),
        (0.5, 16, "scratch", 0.8 * 1.25),
    ],
)
def test_the_paper_profile_by_hand(speedup: float, total: float, skill: Skill, expected: float) -> None:
    assert compute_reward("paper", passed(speedup, total, skill)).reward == pytest.approx(expected)


def test_the_default_profile_tells_fast_from_faster_and_uses_the_lower_bound() -> None:
    rewards = [compute_reward("default", passed(speedup)).reward for speedup in (1, 2, 4, 8, 16, 32)]
    assert rewards == pytest.approx([1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
    noisy = passed(4.0, speedup_low=1.0)
    assert compute_reward("default", noisy).reward == pytest.approx(1.0)
    assert compute_reward("paper", noisy).reward == pytest.approx(3.0)


def test_the_default_profile_needs_own_kernels_that_ran() -> None:
    none_ran = compute_reward("default", passed(3.0, own_kernel_launches=0))
    assert (none_ran.reward, none_ran.why) == (0.0, "not_own_kernel")
    unknown = compute_reward("default", passed(3.0, own_kernel_launches=None))
    assert (unknown.reward, unknown.why) == (None, "launches_not_counted")


@settings(deadline=None)
@given(profile=profiles, skill=skills, low=speedups, high=speedups, total=totals)
def test_monotone_in_speedup(profile: RewardProfile, skill: Skill, low: float, high: float, total: float) -> None:
    low, high = sorted((low, high))
    slower = compute_reward(profile, passed(low, total, skill)).reward
    faster = compute_reward(profile, passed(high, total, skill)).reward
    assert slower is not None
    assert faster is not None
    assert slower <= faster


@settings(deadline=None)
@given(profile=profiles, skill=skills, speedup=speedups, low=totals, high=totals)
def test_monotone_in_the_rubric(profile: RewardProfile, skill: Skill, speedup: float, low: float, high: float) -> None:
    low, high = sorted((low, high))
    worse = compute_reward(profile, passed(speedup, low, skill)).reward
    better = compute_reward(profile, passed(speedup, high, skill)).reward
    assert worse is not None
    assert better is not None
    assert worse <= better


anything = st.builds(
    RewardFacts,
    skill=skills,
    status=st.sampled_from(Status),
    speedup=st.none() | speedups,
    speedup_low=st.none() | speedups,
    own_kernel_launches=st.none() | st.integers(0, 5),
    evidence_hack=st.booleans(),
    judge_hack=st.none() | st.booleans(),
    total=st.none() | totals,
)


@settings(deadline=None, max_examples=300)
@given(profile=profiles, facts=anything)
def test_what_holds_for_any_facts(profile: RewardProfile, facts: RewardFacts) -> None:
    columns = compute_reward(profile, facts)
    hack = facts.evidence_hack or facts.judge_hack is True or facts.status is Status.CHEATING
    if hack:
        assert (columns.reward, columns.why) == (0.0, "hack")
    elif facts.status is Status.MACHINE_ERROR:
        assert columns.reward is None
    elif facts.status is not Status.PASSED:
        assert columns.reward == 0.0
    elif facts.total is None and columns.why != "not_own_kernel":
        assert columns.reward is None
    if columns.reward is None:
        assert columns.why in ("machine_error", "not_timed", "launches_not_counted", "judge_unscored")
    else:
        assert 0 <= columns.reward <= (3 if profile == "paper" else 4.375)
        assert (columns.reward > 0) == (columns.why == "scored")
    assert compute_reward(profile, facts) == columns


@pytest.mark.parametrize("field", ["speedup", "speedup_low", "total"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_impossible_numbers_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        RewardFacts.model_validate(passed(1.0).model_dump() | {field: value})


def test_facts_from_an_evaluation_and_a_failed_judge() -> None:
    evaluation = Evaluation(
        candidate_id=1,
        status=Status.PASSED,
        device="cpu",
        check=CheckReport(ok=True, status=Status.PASSED, own_kernel_launches=2),
    )
    rubric = load_rubric()
    verdict = Verdict(judge="m", skill="scratch", rubric_digest=rubric.digest, failure="no JSON")
    facts = RewardFacts.of(evaluation, verdict, rubric)
    assert facts.total is None
    assert facts.own_kernel_launches == 2
    assert compute_reward("paper", facts).why == "not_timed"
    timed = facts.model_copy(update={"speedup": 2.0, "speedup_low": 2.0})
    assert compute_reward("default", timed).why == "judge_unscored"
