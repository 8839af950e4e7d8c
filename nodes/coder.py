"""The Coder's step: one sub-task, always as a complete program."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from langgraph.runtime import Runtime

from stitchcuda.core.errors import one_line
from stitchcuda.core.records import Author, Candidate, CandidateSource, Evaluation, SubTask
from stitchcuda.graph.context import Context
from stitchcuda.graph.routing import open_subtasks
from stitchcuda.graph.state import State
from stitchcuda.nodes.engines.deadline import until
from stitchcuda.nodes.engines.protocols import EngineFailure, SamplingCoder, Usage
from stitchcuda.nodes.evidence import CoderEvidence
from stitchcuda.nodes.progress import engine_call, say
from stitchcuda.nodes.samples import best_sample
from stitchcuda.nodes.seeding import seed_candidate, wants_seed
from stitchcuda.nodes.workbench import Workbench, workbench

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


async def _seed(state: State, bench: Workbench, evidence: CoderEvidence) -> CandidateSource | None:
    """The embedded engine's candidate where the settings ask for it; ``None`` otherwise, and when it has none."""
    if not wants_seed(state, bench.context):
        return None
    try:
        return await seed_candidate(evidence)
    except EngineFailure as failure:
        say("coder", f"no seed: {one_line(failure)}")
        return None


async def _write(bench: Workbench, evidence: CoderEvidence, attempt: int, ends: float) -> tuple[CandidateSource, Usage]:
    """The engine's candidate, asked for until ``ends``; of several samples the best one."""
    engine = (await bench.engines()).coder
    with until(ends):
        if bench.context.samples == 1 or not isinstance(engine, SamplingCoder):
            return await engine.write(evidence)
        answers, usage = await engine.write_several(evidence, bench.context.samples)
    return await best_sample(bench, answers, attempt), usage


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
    author: Author = "embedded" if bench.context.coder == "embedded" else "chat"
    seed = await _seed(state, bench, evidence)
    ends = started + bench.context.max_seconds - state.get("seconds_spent", 0.0)
    try:
        async with engine_call(
            "embedded" if seed is not None else bench.context.coder,
            "coder",
            subtask=subtask,
            builds_on=previous.id if previous else None,
        ) as step:
            if seed is not None:
                answer, usage, author = seed, Usage(), "embedded"
            else:
                answer, usage = await _write(bench, evidence, attempt, ends)
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
    candidate = await asyncio.to_thread(
        bench.folder.write_candidate, attempt, previous.id if previous else None, author, answer
    )
    return cleared | {
        "candidate": candidate,
        "engine_failure": "",
        "usage": usage,
        "seconds_spent": time.monotonic() - started,
    }
