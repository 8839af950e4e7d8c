"""The Coder's step: one sub-task, always as a complete program."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from langgraph.runtime import Runtime

from stitchcuda.core.errors import one_line
from stitchcuda.core.records import Author, Candidate, Evaluation, SubTask
from stitchcuda.graph.context import Context
from stitchcuda.graph.routing import open_subtasks
from stitchcuda.graph.state import State
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence
from stitchcuda.nodes.progress import engine_call, say
from stitchcuda.nodes.workbench import workbench

__all__ = ["coder", "current_subtask"]


def current_subtask(state: State) -> SubTask | None:
    """The sub-task that the Coder works on: the decided one, else the first open one; ``None`` while optimising."""
    plan, decision = state.get("plan"), state.get("decision")
    if plan is None or (decision is not None and decision.kind == "optimise"):
        return None
    wanted = decision.subtask_id if decision is not None else None
    if wanted is None:
        remaining = open_subtasks(plan, state.get("attempts", []), state.get("skipped", []))
        wanted = remaining[0] if remaining else None
    return next((task for task in plan.subtasks if task.id == wanted), None)


def _start_from(state: State) -> tuple[Candidate | None, Evaluation | None]:
    """What the next candidate builds on: the failed one when repairing, else the best passed one."""
    decision, candidate, best = state.get("decision"), state.get("candidate"), state.get("best")
    if decision is not None and decision.kind == "repair" and candidate is not None:
        return candidate, state.get("evaluation")
    return (best.candidate, best.evaluation) if best is not None else (None, None)


async def coder(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Write the next candidate to the run folder."""
    started = time.monotonic()
    bench = await workbench(state, runtime)
    plan = state["plan"]
    assert plan is not None
    subtask = current_subtask(state)
    attempt = len(state.get("attempts", [])) + 1
    say("coder", f"attempt {attempt}: {subtask.title if subtask else 'the whole program'}", attempt=attempt)
    previous, previous_evaluation = _start_from(state)
    evidence = CoderEvidence(
        problem=await bench.facts(),
        device=state["device"],
        policy=bench.context.policy,
        plan=plan,
        subtask=subtask,
        previous=await bench.source(previous) if previous else None,
        previous_evaluation=previous_evaluation,
        feedback=state.get("feedback"),
        history=tuple(state.get("attempts", [])),
        citations=tuple(state.get("citations", ())),
    )
    cleared: dict[str, Any] = dict.fromkeys(
        ("build", "screen", "check", "timing", "candidate_profile", "evaluation", "feedback")
    )
    try:
        async with engine_call(
            bench.context.coder, "coder", subtask=subtask, builds_on=previous.id if previous else None
        ) as step:
            answer, usage = await (await bench.engines()).coder.write(evidence)
            step.outputs = {**answer.model_dump(), "usage": usage}
    except EngineFailure as failure:
        say("coder", f"attempt {attempt}: no candidate: {one_line(failure)}", attempt=attempt)
        return cleared | {
            "candidate": None,
            "engine_failure": one_line(failure),
            "feedback": state.get("feedback"),
            "usage": failure.usage,
            "seconds_spent": time.monotonic() - started,
        }
    author: Author = "embedded" if bench.context.coder == "embedded" else "chat"
    candidate = await asyncio.to_thread(
        bench.folder.write_candidate, attempt, previous.id if previous else None, author, answer
    )
    return cleared | {
        "candidate": candidate,
        "engine_failure": "",
        "usage": usage,
        "seconds_spent": time.monotonic() - started,
    }
