"""The step after a verdict: enter it in the history and decide where to go."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from stitchcuda.graph.context import Context
from stitchcuda.graph.routing import decide
from stitchcuda.graph.state import State
from stitchcuda.nodes.coder import current_subtask
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import Attempt
from stitchcuda.nodes.progress import say
from stitchcuda.nodes.verifier import as_attempt, spent_budget
from stitchcuda.nodes.workbench import settings_of

__all__ = ["route"]


async def route(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """One history entry per Coder's answer (also for none at all), and a decision."""
    context = settings_of(runtime)
    history = list(state.get("attempts", []))
    plan, evaluation, feedback = state.get("plan"), state.get("evaluation"), state.get("feedback")
    new: list[Attempt] = []
    if state.get("candidate") is not None and evaluation is not None:
        new.append(as_attempt(state, evaluation))
    elif plan is not None and (failure := state.get("engine_failure")):
        new.append(Attempt(candidate_id=len(history) + 1, status="engine_failure", summary=failure))
    subtask = current_subtask(state)
    skipped = list(state.get("skipped", []))
    usage = state.get("verifier_usage") if evaluation is not None else None
    seconds = state.get("verifier_seconds", 0.0) if evaluation is not None else 0.0
    budget = spent_budget({**state, "usage": state.get("usage", Usage()) + (usage or Usage())}, context)
    decision = decide(
        [*history, *new],
        plan,
        skipped,
        subtask.id if subtask else None,
        budget.model_copy(update={"seconds": budget.seconds + seconds}),
        timed=state["device"].device != "cpu",
        proposal=feedback.kind if feedback else None,
    )
    say("route", f"{decision.kind.replace('_', ' ')} ({decision.reason})", attempt=len(history) + len(new))
    return {
        "attempts": new,
        "decision": decision,
        "skipped": [*skipped, decision.skip] if decision.skip else skipped,
        "usage": usage or Usage(),
        "seconds_spent": seconds,
    }
