"""A chat Coder's first candidate from the embedded engine (``seed_embedded``).

The seed implements everything that the embedded engine can, and counts as the base that the chat model improves: it
covers no sub-task of the plan, so that all of them stay open. ``own_ops`` tells what it does all the same: where
nothing is timed, a chat candidate must do more than that to become the best.
"""

from __future__ import annotations

import asyncio

from stitchcuda.core.records import CandidateSource, Status
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import State
from stitchcuda.nodes.engines.embedded.coder import write_candidate
from stitchcuda.nodes.engines.embedded.opening import open_problem
from stitchcuda.nodes.engines.embedded.planner import make_plan
from stitchcuda.nodes.engines.embedded.tuning import LEFT
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence, PlannerEvidence

__all__ = ["SEED_ATTEMPTS", "seed_candidate", "wants_seed"]

SEED_ATTEMPTS = 3
"""So often the embedded engine may mend its own candidate before the chat model gets it as it is."""


def wants_seed(state: State, context: Context) -> bool:
    """Whether the next candidate is the embedded engine's: the first one, and repairs of it."""
    if not context.seed_embedded or context.coder == "embedded":
        return False
    attempts, candidate, decision = state.get("attempts", []), state.get("candidate"), state.get("decision")
    if not attempts:
        return True
    mends = decision is not None and decision.kind == "repair" and attempts[-1].status != Status.PASSED
    return mends and candidate is not None and candidate.author == "embedded" and len(attempts) < SEED_ATTEMPTS


async def seed_candidate(evidence: CoderEvidence) -> CandidateSource:
    """The embedded engine's whole program, or its repair of ``evidence.previous``.

    Raises:
        EngineFailure: the embedded engine has nothing for this problem.
    """
    return await asyncio.to_thread(_seed, evidence)


def _seed(evidence: CoderEvidence) -> CandidateSource:
    plan = make_plan(PlannerEvidence(problem=evidence.problem, device=evidence.device, policy=evidence.policy))
    own = evidence.model_copy(update={"plan": plan, "subtask": None})
    source = evidence.previous
    if source is not None:
        source = write_candidate(own)
    else:
        for task in plan.subtasks:
            source = write_candidate(
                own.model_copy(
                    update={"subtask": task, "previous": source, "previous_evaluation": None, "feedback": None}
                )
            )
    if source is None:
        raise EngineFailure(plan.summary)
    done = {group_id for group_id, choice in source.choices.items() if choice != LEFT}
    own_ops = [op for group in open_problem(evidence.problem).groups if group.id in done for op in group.ops]
    count = f"{len(done)} fused group" + ("s" if len(done) != 1 else "")
    told = source.summary if evidence.previous is not None else f"{count} by the embedded engine."
    return source.model_copy(
        update={"covers": (), "own_ops": tuple(dict.fromkeys(own_ops)), "summary": f"Seed: {told}"}
    )
