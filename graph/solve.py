"""Drive the graph over one problem: the Python entry that the CLI and batches are made of.

Comes in: a problem, settings, a run folder. Goes out: a ``SolveResult``; the folder holds the rest. The
graph's state is checkpointed after every step (SQLite in the run folder), so that a killed run continues
where it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.files import hold_folder
from stitchcuda.core.records import Evaluation, Record
from stitchcuda.graph.builder import build_graph
from stitchcuda.graph.context import Context
from stitchcuda.graph.routing import decide
from stitchcuda.graph.state import CHECKPOINT_TYPES, State
from stitchcuda.graph.tracing import known_secrets
from stitchcuda.nodes.run_folder import RunFolder
from stitchcuda.nodes.verifier import spent_budget
from stitchcuda.nodes.workbench import close_workbench
from stitchcuda.problems import Problem
from stitchcuda.traces import JsonlTracer
from stitchcuda.traces.live import live_tracing

__all__ = ["Event", "SolveResult", "load_run", "solve"]


class Event(Record):
    """One line of progress."""

    stage: str
    message: str
    attempt: int | None = None
    status: str | None = None
    speedup: float | None = None


class SolveResult(Record):
    """How a run ended. ``candidate`` and ``report`` are paths in ``run_dir``."""

    problem: str
    device: str
    status: str
    """``passed``, or the last candidate's status, or ``no_candidate``."""
    solved: bool
    """A candidate passed and, where there is a timing, is faster than the reference."""
    speedup: float | None
    reasons: tuple[str, ...]
    stop_reason: str
    attempts: int
    candidate: str | None
    run_dir: str
    report: str | None
    evaluation: Evaluation | None
    usage: dict[str, int]
    seconds: float
    cost_usd: float = 0.0
    """What the chat calls cost by the price table of the settings."""
    cached: int = 0
    """Chat answers from the cache; not among the calls of ``usage``."""


def load_run(run_dir: Path) -> tuple[Problem, Context]:
    """Problem and settings of an existing run folder.

    Raises:
        SettingsError: no run lies there, or one that this version cannot read.
    """
    folder = RunFolder(run_dir)
    settings = folder.read_settings()
    try:
        return folder.read_problem(), Context.model_validate(settings)
    except ValueError as error:
        raise SettingsError(f"{run_dir}/run.json holds settings that this version does not know: {error}") from error


async def solve(
    problem: Problem,
    context: Context,
    *,
    run_dir: Path,
    resume: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> SolveResult:
    """Run one problem through the graph.

    Args:
        run_dir: a new or empty folder; with ``resume`` the folder of an earlier run. A finished one is only read,
            unless it stopped for the machine's sake or for a budget that ``context`` has raised.
        on_event: called with each line of progress.

    Raises:
        SettingsError: the folder holds another run, or another process works in it.
        ProblemError: the reference cannot be used.
        ToolchainError, WorkerError, ModelError: the machine or the endpoint failed; the run can be resumed.
    """
    with _exclusive(run_dir, resume) as run_dir:
        async with _checkpointer(run_dir / "checkpoints.sqlite") as saver:
            app = build_graph().compile(checkpointer=saver, name="stitchcuda")
            config = _config(context)
            snapshot = await app.aget_state(config)
            if snapshot.values and not snapshot.next and await _reopen(app, config, snapshot.values, context):
                snapshot = await app.aget_state(config)
            if snapshot.next or not snapshot.values:  # a finished run is only read
                context = context.model_copy(update={"run_dir": run_dir})
                RunFolder(run_dir).note_settings(context.model_dump(mode="json"))
                given: Any = None if snapshot.next else {"problem_json": problem.model_dump_json()}
                if snapshot.interrupts:  # the plan was put before a person, who may have edited its file
                    given = Command(resume=RunFolder(run_dir).read_plan(snapshot.values["plan"].revision))
                hint = f"; it is kept, send it with: stitchcuda trace push {run_dir}"
                async with live_tracing(known_secrets(), hint=hint) as live:
                    callbacks = [JsonlTracer(run_dir, secrets=known_secrets()), *live]
                    await _drive(app, given, {**config, "callbacks": callbacks}, context, on_event)
                snapshot = await app.aget_state(config)
    return _result(run_dir, snapshot.values, waiting=bool(snapshot.interrupts))


async def _drive(
    app: CompiledStateGraph[Any, Any, Any, Any],
    given: Any,
    config: RunnableConfig,
    context: Context,
    on_event: Callable[[Event], None] | None,
) -> None:
    """Run the graph to its end or to an interrupt, a checkpoint after every step."""
    try:
        async for _, mode, payload in app.astream(
            given, config, context=context, durability="sync", stream_mode=["custom"], subgraphs=True
        ):
            if on_event is not None and mode == "custom":
                on_event(Event.model_validate(payload))
    finally:
        close_workbench(str(context.run_dir))


async def _reopen(
    app: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig, values: dict[str, Any], context: Context
) -> bool:
    """Whether a finished run has somewhere to go on: the machine was mended, or the budget was raised."""
    decision = values.get("decision")
    if decision is None:
        return False
    if decision.reason == "machine_error":
        # Once more through the Verifier with the candidate whose evaluation the machine spoiled.
        await app.aupdate_state(config, {"evaluation": None}, as_node="coder")
        return True
    if not decision.reason.endswith("_spent"):
        return False
    feedback = values.get("feedback")
    again = decide(
        values.get("attempts", []),
        values.get("plan"),
        values.get("skipped", []),
        None,
        spent_budget(cast(State, values), context),
        timed=values["device"].device != "cpu",
        proposal=feedback.kind if feedback else None,
    )
    if again.kind == "stop":
        return False
    await app.aupdate_state(config, {"decision": again}, as_node="route")
    return True


def _config(context: Context) -> RunnableConfig:
    return {
        "configurable": {"thread_id": "run"},
        "recursion_limit": context.recursion_limit,
        "run_name": "solve",
    }


@asynccontextmanager
async def _checkpointer(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINT_TYPES)
        yield saver


@contextmanager
def _exclusive(run_dir: Path, resume: bool) -> Iterator[Path]:
    """Hold the run folder; two processes in one folder would overwrite each other's steps."""
    run_dir = run_dir.absolute()
    if not resume and any((run_dir / name).exists() for name in ("run.json", "checkpoints.sqlite")):
        raise SettingsError(f"{run_dir} already holds a run; resume it, or choose another folder")
    busy = f"another process works in {run_dir}; choose another folder or wait"
    with hold_folder(run_dir, what="run folder", busy=busy):
        yield run_dir


def _result(run_dir: Path, values: dict[str, Any], *, waiting: bool) -> SolveResult:
    best, decision = values.get("best"), values.get("decision")
    evaluation: Evaluation | None = best.evaluation if best else values.get("evaluation")
    speedup = evaluation.speedup if evaluation else None
    usage = values.get("usage")
    report = values.get("report_path")
    return SolveResult(
        problem=values.get("problem_name", ""),
        device=values["device"].device,
        status=evaluation.status.value if evaluation else "no_candidate",
        solved=best is not None and (speedup is None or speedup > 1.0),
        speedup=speedup,
        reasons=evaluation.reasons if evaluation else (),
        stop_reason="plan_review" if waiting else decision.reason if decision else "",
        attempts=len(values.get("attempts", [])),
        candidate=str(run_dir / "best.py") if best else None,
        run_dir=str(run_dir),
        report=report,
        evaluation=evaluation,
        usage=usage.counts() if usage else {},
        seconds=values.get("seconds_spent", 0.0),
        cost_usd=round(usage.cost_usd, 6) if usage else 0.0,
        cached=usage.cached if usage else 0,
    )
