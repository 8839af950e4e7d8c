"""When the embedded engine writes in a chat Coder's place, and which sample is the best."""

from __future__ import annotations

from typing import Any

import pytest

from stitchcuda.core.records import (
    Author,
    BaselineTiming,
    Candidate,
    CandidateSource,
    Evaluation,
    Plan,
    Status,
    SubTask,
    TimingReport,
    TimingStats,
)
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import Best, Decision, State
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import Attempt, CoderEvidence, DeviceFacts, ProblemFacts
from stitchcuda.nodes.samples import rank
from stitchcuda.nodes.seeding import seed_candidate, wants_seed
from stitchcuda.nodes.verifier import better

SEEDED = Context(coder="openai:x", seed_embedded=True)


def after(author: Author, *statuses: str, step: Any = "repair") -> State:
    last = Candidate(id=len(statuses), parent_id=None, author=author, path="c.py", sha256="0" * 64)
    attempts = [Attempt(candidate_id=number, status=status) for number, status in enumerate(statuses, 1)]
    return State(attempts=attempts, candidate=last, decision=Decision(kind=step, reason="r"))


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (State(), True),
        (after("embedded", "wrong_values"), True),
        (after("embedded", "wrong_values", "build_failed"), True),
        (after("embedded", "wrong_values", "build_failed", "wrong_values"), False),  # the chat model mends it now
        (after("embedded", "passed", step="next_subtask"), False),
        (after("embedded", "wrong_values", step="replan"), False),
        (after("chat", "wrong_values"), False),
        (after("chat", "passed", "wrong_values"), False),
    ],
)
def test_the_embedded_engine_writes_first_and_mends_its_own(state: State, wanted: bool) -> None:
    assert wants_seed(state, SEEDED) is wanted
    assert not wants_seed(state, Context(coder="openai:x"))
    assert not wants_seed(state, Context(coder="embedded", seed_embedded=True))


async def test_a_problem_without_an_op_graph_has_no_seed() -> None:
    evidence = CoderEvidence.model_construct(
        problem=ProblemFacts(name="p", source="", trace_error="dynamic control flow"),
        device=DeviceFacts(device="cpu"),
        policy="libraries",
        previous=None,
    )
    with pytest.raises(EngineFailure, match="nothing can be covered"):
        await seed_candidate(evidence)


def test_samples_are_ranked_by_how_far_they_came() -> None:
    candidate = CandidateSource(source="")

    def of(status: Status) -> tuple[int, float, int]:
        return rank(candidate, Evaluation(candidate_id=1, status=status, device="cpu"))

    best_first = ["passed", "wrong_values", "wrong_shape", "runtime_error", "build_failed", "cheating"]
    ranks = [of(Status(status)) for status in best_first]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == len(ranks)
    assert {of(status) for status in Status} >= set(ranks)  # every status has a place


def one(id: int, covers: tuple[str, ...] = (), own_ops: tuple[str, ...] = (), speedup: float | None = None) -> Best:
    made = Candidate(id=id, parent_id=None, author="chat", path="c.py", sha256="0" * 64, covers=covers, own_ops=own_ops)
    stats = TimingStats(median_ms=1.0, p25_ms=1.0, p75_ms=1.0, calls=1)
    timing = None
    if speedup is not None:
        eager = BaselineTiming(name="eager", stats=stats, speedup=speedup, speedup_low=speedup, speedup_high=speedup)
        timing = TimingReport(candidate=stats, baselines=(eager,), rounds=1)
    return Best(
        candidate=made, evaluation=Evaluation(candidate_id=id, status=Status.PASSED, device="cpu", timing=timing)
    )


def task(id: str, *ops: str) -> SubTask:
    return SubTask(id=id, title=id, ops=ops, contract="", technique="", done_when="")


PLAN = Plan(subtasks=(task("a", "mul", "relu"), task("b", "sum_1"), task("c", "linear")))
SEED = one(1, own_ops=("mul", "relu", "sum_1"))


@pytest.mark.parametrize(
    ("best", "new", "winner"),
    [
        # Nothing is timed: the earlier one stays unless the new one does more of the plan.
        (SEED, one(2, ("a",)), 1),
        (SEED, one(2, ("a", "b")), 1),
        (SEED, one(2, ("a",), SEED.candidate.own_ops), 1),
        (SEED, one(2, ("c",), SEED.candidate.own_ops), 2),
        (SEED, one(2, ("a", "b", "c")), 2),
        (SEED, one(2, ("x", "y", "z")), 1),  # of no plan
        (one(1, ("a",)), one(2, ("b",)), 1),
        (one(1, ("a",)), one(2, ("a", "b")), 2),
        (one(1, own_ops=("mul",)), one(2, ("b",)), 2),  # half of a sub-task is none
        # Where there is a timing, the faster one.
        (one(1, own_ops=SEED.candidate.own_ops, speedup=1.5), one(2, ("a",), speedup=1.6), 2),
        (one(1, ("a",), speedup=1.5), one(2, ("a", "b", "c"), speedup=1.4), 1),
        (one(1, ("a",), speedup=1.5), one(2, ("a", "b"), speedup=1.5), 2),
    ],
)
def test_the_better_of_two_that_passed(best: Best, new: Best, winner: int) -> None:
    kept = better(best, new, PLAN)
    assert kept is not None
    assert kept.candidate.id == winner


def test_what_did_not_pass_is_never_the_best() -> None:
    failed = SEED.model_copy(
        update={"evaluation": Evaluation(candidate_id=2, status=Status.WRONG_VALUES, device="cpu")}
    )
    assert better(None, failed, PLAN) is None
    assert better(SEED, failed, PLAN) == SEED
    assert better(None, SEED, None) == SEED
