"""The Planner's step: evidence in, a to-do list out; and the optional review of it by a person."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import ValidationError

from stitchcuda.core.errors import SettingsError, one_line
from stitchcuda.core.records import Plan
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import State
from stitchcuda.nodes.engines.deadline import until
from stitchcuda.nodes.engines.embedded import EmbeddedPlanner
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import PlannerEvidence
from stitchcuda.nodes.progress import engine_call, say
from stitchcuda.nodes.retrieval import look_up
from stitchcuda.nodes.workbench import settings_of, workbench

__all__ = ["planner", "review_plan"]


async def planner(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for a plan; a replanned one keeps the old one's file and gets the next revision."""
    started = time.monotonic()
    bench = await workbench(state, runtime)
    previous = state.get("plan")
    decision = state.get("decision")
    replans = state.get("replans", 0) + (1 if decision is not None else 0)
    say("planner", "planning" if decision is None else f"planning again ({decision.reason})")
    facts = await bench.facts()
    citations = await look_up(
        bench.context, ops=_op_names(facts.trace), evaluation=state.get("evaluation"), device=state["device"]
    )
    evidence = PlannerEvidence(
        problem=facts,
        device=state["device"],
        policy=bench.context.policy,
        profile=state.get("profile"),
        previous_plan=previous,
        history=tuple(state.get("attempts", [])),
        feedback=state.get("feedback"),
        citations=citations,
    )
    ends = started + bench.context.max_seconds - state.get("seconds_spent", 0.0)
    try:
        async with engine_call(bench.context.planner, "planner", replans=replans) as step:
            with until(ends):
                plan, usage = await (await bench.engines()).planner.plan(evidence)
            step.outputs = {"plan": plan, "usage": usage}
    except EngineFailure as failure:
        say("planner", f"no plan: {one_line(failure)}")
        fallback = await _embedded_plan(bench.context, evidence)
        if fallback is None:
            return {
                "plan": None,
                "replans": replans,
                "engine_failure": one_line(failure),
                "usage": failure.usage,
                "seconds_spent": time.monotonic() - started,
            }
        plan, usage = fallback, failure.usage
    plan = _distinct_from(previous, plan.model_copy(update={"revision": replans}))
    await asyncio.to_thread(bench.folder.write_plan, plan)
    say("planner", f"{len(plan.subtasks)} sub-tasks: {plan.summary}")
    return {
        "plan": plan,
        "replans": replans,
        "decision": None,
        "skipped": [],
        "engine_failure": "",
        "citations": citations,
        "usage": usage,
        "seconds_spent": time.monotonic() - started,
    }


async def _embedded_plan(context: Context, evidence: PlannerEvidence) -> Plan | None:
    """With ``seed_embedded``: the embedded engine's plan in place of one that a chat Planner could not give."""
    if not context.seed_embedded or context.planner == "embedded":
        return None
    plan, _ = await EmbeddedPlanner().plan(evidence)
    told = f"{plan.summary} (the embedded Planner's, because the chat Planner gave no usable plan)"
    return plan.model_copy(update={"summary": told})


async def review_plan(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """With ``review_plan`` set: wait for a person, who may send back an edited plan (or anything empty to accept)."""
    plan = state.get("plan")
    if not settings_of(runtime).review_plan or plan is None:
        return {}
    answer = interrupt({"question": "Accept this plan, or resume with an edited one.", "plan": plan.model_dump()})
    if not answer or answer is True:
        return {}
    try:
        edited = Plan.model_validate(answer)
    except ValidationError as error:
        raise SettingsError(f"the edited plan is not a plan: {one_line(error)}") from error
    edited = edited.model_copy(update={"revision": plan.revision})
    bench = await workbench(state, runtime)
    await asyncio.to_thread(bench.folder.write_plan, edited)
    return {"plan": edited}


def _op_names(trace: dict[str, object] | None) -> tuple[str, ...]:
    """Distinct op targets of a trace, such as ``aten.softmax.int``."""
    nodes = trace.get("nodes", []) if trace else []
    assert isinstance(nodes, list)
    return tuple(dict.fromkeys(node["target"] for node in nodes if node.get("kind") == "op"))


def _distinct_from(previous: Plan | None, plan: Plan) -> Plan:
    """Rename sub-tasks that reuse an id of the previous plan for other work: what was done stays done, no more."""
    if previous is None:
        return plan
    old = {task.id: task.ops for task in previous.subtasks}
    return plan.model_copy(
        update={
            "subtasks": tuple(
                task.model_copy(update={"id": f"{task.id}-r{plan.revision}"})
                if task.id in old and old[task.id] != task.ops
                else task
                for task in plan.subtasks
            )
        }
    )
