"""What the nodes of one run share and a checkpoint cannot hold: its folder, evaluator and engines.

Built on first use from the state and the settings, so that a resumed run, or another process, gets an
equal one; closed by the report node and by whoever drove the graph.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from langgraph.runtime import Runtime

from stitchcuda.core.environment import Environment
from stitchcuda.core.files import write_json
from stitchcuda.core.records import Candidate, CandidateSource, Record
from stitchcuda.graph.context import Context
from stitchcuda.graph.state import State
from stitchcuda.nodes.engines import Engines, open_engines
from stitchcuda.nodes.evidence import ProblemFacts
from stitchcuda.nodes.run_folder import RunFolder
from stitchcuda.tools import Evaluator, EvaluatorSettings
from stitchcuda.traces import span

__all__ = ["Workbench", "close_workbench", "settings_of", "workbench"]

T = TypeVar("T")

_open: dict[str, Workbench] = {}
_lock = threading.Lock()


class Workbench:
    """The tools of one run."""

    def __init__(self, run_dir: Path, context: Context, device: str, sizes: Literal["full", "reduced"]) -> None:
        self.folder = RunFolder(run_dir)
        self.context = context
        self.device = device
        self.sizes: Literal["full", "reduced"] = sizes
        self._engines: Engines | None = None
        self._facts: ProblemFacts | None = None

    @cached_property
    def evaluator_settings(self) -> EvaluatorSettings:
        return EvaluatorSettings(
            device=self.device,
            policy=self.context.policy,
            trials=self.context.trials,
            seed=self.context.seed,
            build_timeout_s=self.context.build_timeout_s,
            call_timeout_s=self.context.call_timeout_s,
            timing_budget_s=self.context.timing_budget_s,
            cross_compile=self.context.cross_compile,
            cache_dir=Environment().cache_dir / "builds",
        )

    @cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.folder.reference(self.sizes), self.evaluator_settings, sizes=self.sizes)

    async def engines(self) -> Engines:
        if self._engines is None:
            self._engines = await asyncio.to_thread(open_engines, self.context)
        return self._engines

    async def facts(self) -> ProblemFacts:
        if self._facts is None:
            text = await asyncio.to_thread((self.folder.path / "facts.json").read_text, encoding="utf-8")
            self._facts = ProblemFacts.model_validate_json(text)
        return self._facts

    def write_facts(self, facts: ProblemFacts) -> None:
        self._facts = facts
        write_json(self.folder.path / "facts.json", facts.model_dump(mode="json"))

    async def evaluate(self, name: str, stage: Callable[[Evaluator], T], **inputs: Any) -> T:
        """Run a blocking stage of the evaluator in a thread; a cancelled run kills what the stage started.

        The stage is a tool run ``evaluator.<name>`` of the trace, with ``inputs`` and the stage's report.
        """
        async with span(f"evaluator.{name}", {"device": self.device, "sizes": self.sizes, **inputs}) as step:
            try:
                report = await asyncio.to_thread(lambda: stage(self.evaluator))
            except asyncio.CancelledError:
                await asyncio.shield(asyncio.to_thread(self.evaluator.cancel))
                raise
            step.outputs = report.model_dump(mode="json") if isinstance(report, Record) else {"report": report}
            return report

    async def source(self, candidate: Candidate) -> CandidateSource:
        return await asyncio.to_thread(self.folder.read_candidate, candidate)

    def close(self) -> None:
        if "evaluator" in self.__dict__:
            self.evaluator.close()


def settings_of(runtime: Runtime[Context]) -> Context:
    """The run's settings; a graph that is invoked without a context runs with the defaults."""
    return runtime.context if runtime.context is not None else Context()


async def workbench(state: State, runtime: Runtime[Context]) -> Workbench:
    """The open workbench of the state's run folder, made on first use."""
    return await asyncio.to_thread(_workbench, state, settings_of(runtime))


def _workbench(state: State, context: Context) -> Workbench:
    run_dir = state["run_dir"]
    with _lock:
        bench = _open.get(run_dir)
        if bench is None or bench.context != context:
            if bench is not None:
                bench.close()
            bench = Workbench(Path(run_dir), context, state["device"].device, state["sizes"])
            _open[run_dir] = bench
        return bench


def close_workbench(run_dir: str) -> None:
    """Stop the workers of a run; a later step of the same run opens new ones."""
    with _lock:
        bench = _open.pop(run_dir, None)
    if bench is not None:
        bench.close()
