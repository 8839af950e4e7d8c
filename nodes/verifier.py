"""The Verifier's stages: build, screen, check, time, profile, diagnose. Each is a node of its sub-graph.

A stage that settles the matter sends the state straight to ``diagnose``. The verdict is made there, by
``tools.settle``, from the stages' reports; the engine only advises.
"""

from __future__ import annotations

import asyncio
import time as clock
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from langgraph.runtime import Runtime

from stitchcuda.core.errors import WorkerError, one_line
from stitchcuda.core.records import Candidate, Evaluation, Feedback, Plan
from stitchcuda.graph.context import Context
from stitchcuda.graph.routing import Budget, decide
from stitchcuda.graph.state import Best, State
from stitchcuda.nodes.coder import current_subtask
from stitchcuda.nodes.engines.deadline import until
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage
from stitchcuda.nodes.evidence import Attempt, VerifierEvidence
from stitchcuda.nodes.progress import engine_call, say
from stitchcuda.nodes.retrieval import look_up
from stitchcuda.nodes.workbench import Workbench, workbench
from stitchcuda.tools import Evaluator, settle

__all__ = [
    "after_check",
    "after_screen",
    "as_attempt",
    "better",
    "build",
    "check",
    "diagnose",
    "profile",
    "screen",
    "spent_budget",
    "time",
]

T = TypeVar("T")


async def _stage(state: State, bench: Workbench, name: str, stage: Callable[[Evaluator, str], T]) -> T:
    """Run one stage of the evaluator on the candidate's source."""
    candidate = state["candidate"]
    assert candidate is not None
    source = (await bench.source(candidate)).source
    return await bench.evaluate(
        name, lambda evaluator: stage(evaluator, source), candidate=candidate.id, sha256=candidate.sha256, source=source
    )


async def build(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Import the candidate in a worker and build the extensions that it asks for."""
    started = clock.monotonic()
    bench = await workbench(state, runtime)
    say("build", "compiling", attempt=_attempt_number(state))
    report = await _stage(state, bench, "build", Evaluator.build)
    return {"build": report, "verifier_usage": Usage(), "verifier_seconds": clock.monotonic() - started}


async def screen(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Static findings; the hostile ones end the evaluation before the candidate runs on inputs.

    Also after a failed build: an import may have failed because of what a rule blocks.
    """
    bench = await workbench(state, runtime)
    return {"screen": await _stage(state, bench, "screen", Evaluator.screen)}


def after_screen(state: State) -> Literal["check", "diagnose"]:
    build, screen = state.get("build"), state.get("screen")
    settled = build is None or not build.ok or (screen is not None and screen.blocked)
    return "diagnose" if settled else "check"


async def check(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Compare with the reference on fresh inputs."""
    started = clock.monotonic()
    bench = await workbench(state, runtime)
    say("check", "comparing with the reference", attempt=_attempt_number(state))
    report = await _stage(state, bench, "check", Evaluator.check)
    return {"check": report, "verifier_seconds": state["verifier_seconds"] + clock.monotonic() - started}


def after_check(state: State) -> Literal["time", "diagnose"]:
    """Only what is right is timed, and only a GPU's time means anything."""
    report = state.get("check")
    right = report is not None and report.ok
    return "time" if right and state["device"].device != "cpu" else "diagnose"


async def time(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Time the candidate in turns with the baselines."""
    started = clock.monotonic()
    bench = await workbench(state, runtime)
    say("time", "timing against eager", attempt=_attempt_number(state))
    report = await _stage(state, bench, "time", Evaluator.time)
    return {"timing": report, "verifier_seconds": state["verifier_seconds"] + clock.monotonic() - started}


async def profile(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Where the candidate's time goes; a profiler that fails costs the advice, not the verdict."""
    started = clock.monotonic()
    bench = await workbench(state, runtime)
    try:
        report = await _stage(state, bench, "profile", Evaluator.profile)
    except WorkerError as error:
        say("profile", f"no profile: {one_line(error)}", attempt=_attempt_number(state))
        report = None
    return {"candidate_profile": report, "verifier_seconds": state["verifier_seconds"] + clock.monotonic() - started}


async def diagnose(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    """Settle the verdict, keep the best, and ask the engine what to tell the Coder."""
    started = clock.monotonic()
    bench = await workbench(state, runtime)
    candidate = state["candidate"]
    assert candidate is not None
    evaluation = settle(
        candidate.id,
        bench.evaluator_settings,
        bench.sizes,
        build=state.get("build"),
        screen=state.get("screen"),
        check=state.get("check"),
        timing=state.get("timing"),
        profile=state.get("candidate_profile"),
        seconds=state["verifier_seconds"],
        machine=await asyncio.to_thread(lambda: bench.evaluator.machine),
    )
    await asyncio.to_thread(bench.folder.write_evaluation, evaluation)
    best = better(state.get("best"), Best(candidate=candidate, evaluation=evaluation), state.get("plan"))
    if best is not None and best != state.get("best"):
        await asyncio.to_thread(bench.folder.write_best, best.candidate, best.evaluation)
    say(
        "diagnose",
        evaluation.message or evaluation.status.value,
        attempt=candidate.id,
        status=evaluation.status.value,
        speedup=evaluation.speedup,
    )
    spent = state.get("seconds_spent", 0.0) + state["verifier_seconds"]
    with until(started + bench.context.max_seconds - spent):
        feedback, usage = await _feedback(state, bench, evaluation, best)
    return {
        "evaluation": evaluation,
        "best": best,
        "feedback": feedback,
        "verifier_usage": usage,
        "verifier_seconds": state["verifier_seconds"] + clock.monotonic() - started,
    }


async def _feedback(
    state: State, bench: Workbench, evaluation: Evaluation, best: Best | None
) -> tuple[Feedback, Usage]:
    candidate, plan = state["candidate"], state["plan"]
    assert candidate is not None
    assert plan is not None
    attempts = [*state.get("attempts", []), as_attempt(state, evaluation)]
    subtask = current_subtask(state)
    step = decide(
        attempts,
        plan,
        state.get("skipped", []),
        subtask.id if subtask else None,
        spent_budget(state, bench.context),
        timed=state["device"].device != "cpu",
    )
    proposed = "accept" if step.kind == "stop" else step.kind
    evidence = VerifierEvidence(
        problem=await bench.facts(),
        device=state["device"],
        policy=bench.context.policy,
        plan=plan,
        subtask=subtask,
        candidate=await bench.source(candidate),
        evaluation=evaluation,
        proposed_kind=proposed,
        best_speedup=best.evaluation.speedup if best else None,
        history=tuple(attempts),
        citations=await look_up(bench.context, evaluation=evaluation, device=state["device"]),
    )
    try:
        async with engine_call(bench.context.verifier, "verifier", proposed=proposed) as call:
            feedback, usage = await (await bench.engines()).verifier.diagnose(evidence)
            call.outputs = {"feedback": feedback, "usage": usage}
        return feedback, usage
    except EngineFailure as failure:
        say("diagnose", f"no advice: {one_line(failure)}", attempt=candidate.id)
        return Feedback(kind=proposed, evidence=(evaluation.message,)), failure.usage


def _attempt_number(state: State) -> int:
    return len(state.get("attempts", [])) + 1


def as_attempt(state: State, evaluation: Evaluation) -> Attempt:
    """The verdict in short, for the history."""
    candidate = state["candidate"]
    assert candidate is not None
    return Attempt(
        candidate_id=evaluation.candidate_id,
        status=evaluation.status,
        reasons=evaluation.reasons,
        speedup=evaluation.speedup,
        summary=candidate.summary,
        choices=candidate.choices,
        covers=candidate.covers,
    )


def better(best: Best | None, new: Best, plan: Plan | None) -> Best | None:
    """The better of two passed ones: the faster where there is a timing, else the one that does more of the plan.

    The earlier one stays where nothing shows a gain, as on a device without timing.
    """
    if not new.evaluation.passed:
        return best
    if best is None:
        return new

    def rank(one: Best) -> tuple[float, int]:
        return one.evaluation.speedup or 0.0, _implemented(one.candidate, plan)

    return new if rank(new) > rank(best) else best


def _implemented(candidate: Candidate, plan: Plan | None) -> int:
    """How many sub-tasks of the plan the candidate does; a seed does those whose ops it has kernels for."""
    own = set(candidate.own_ops)
    tasks = plan.subtasks if plan is not None else ()
    return sum(task.id in candidate.covers or (bool(task.ops) and own.issuperset(task.ops)) for task in tasks)


def spent_budget(state: State, context: Context) -> Budget:
    """The budget of the settings with what this run has used so far."""
    usage = state.get("usage", Usage())
    return Budget(
        max_attempts=context.max_attempts,
        max_replans=context.max_replans,
        max_seconds=context.max_seconds,
        max_tokens=context.max_tokens,
        max_cost_usd=context.max_cost_usd,
        repair_limit=context.repair_limit,
        patience=context.patience,
        target_speedup=context.target_speedup,
        replans=state.get("replans", 0),
        seconds=state.get("seconds_spent", 0.0),
        tokens=usage.input_tokens + usage.output_tokens,
        cost_usd=usage.cost_usd,
    )
