"""When the embedded engine writes in a chat Coder's place, and which sample is the best."""

from __future__ import annotations

from typing import Any

import pytest

from stitchcuda.core.records import Author, Candidate, CandidateSource, Evaluation, Status
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import Decision, State
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import Attempt, CoderEvidence, DeviceFacts, ProblemFacts
from stitchcuda.nodes.samples import rank
from stitchcuda.nodes.seeding import seed_candidate, wants_seed

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
