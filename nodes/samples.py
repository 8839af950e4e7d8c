"""Best of several candidates for one attempt: built side by side, evaluated in turn, the best one goes on.

The Verifier then evaluates the winner anew, on fresh inputs and with fresh timings: the best of several measurements
flatters, and its luck must not become the verdict.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial

from stitchcuda.core.files import write_json, write_text
from stitchcuda.core.records import CandidateSource, Evaluation, Status
from stitchcuda.nodes.progress import say
from stitchcuda.nodes.workbench import Workbench
from stitchcuda.tools import Evaluator

__all__ = ["best_sample", "rank"]

_STAGE_REACHED = {
    Status.PASSED: 4,
    Status.WRONG_VALUES: 3,
    Status.WRONG_DTYPE: 2,
    Status.WRONG_SHAPE: 2,
    Status.TIMEOUT: 1,
    Status.RUNTIME_ERROR: 1,
    Status.BUILD_FAILED: 0,
    Status.MACHINE_ERROR: 0,
    Status.CHEATING: -1,
}
"""Of candidates that all fail, the one that came farthest is worth repairing."""


def rank(candidate: CandidateSource, evaluation: Evaluation) -> tuple[int, float, int]:
    """What makes one sample better than another."""
    return _STAGE_REACHED[evaluation.status], evaluation.speedup or 0.0, len(candidate.covers)


async def best_sample(bench: Workbench, candidates: Sequence[CandidateSource], attempt: int) -> CandidateSource:
    """The best of ``candidates``; all of them and their evaluations are kept under ``samples/NN``."""
    if len(candidates) == 1:
        return candidates[0]
    await _build_side_by_side(bench, candidates)
    folder = bench.folder.path / "samples" / f"{attempt:02d}"
    best: tuple[tuple[int, float, int], CandidateSource] | None = None
    for number, candidate in enumerate(candidates, 1):
        evaluation = await bench.evaluate(
            "sample", partial(_evaluate, candidate.source, attempt), attempt=attempt, sample=number
        )
        await asyncio.to_thread(write_text, folder / f"{number}.py", candidate.source)
        await asyncio.to_thread(write_json, folder / f"{number}.json", evaluation.model_dump(mode="json"))
        say(
            "coder",
            f"sample {number} of {len(candidates)}: {evaluation.message or evaluation.status.value}",
            attempt=attempt,
        )
        if best is None or rank(candidate, evaluation) > best[0]:
            best = rank(candidate, evaluation), candidate
    assert best is not None
    return best[1]


def _evaluate(source: str, attempt: int, evaluator: Evaluator) -> Evaluation:
    return evaluator.evaluate(source, attempt)


async def _build_side_by_side(bench: Workbench, candidates: Sequence[CandidateSource]) -> None:
    """Fill the build store, so that the evaluations find every build done; a failed build is theirs to report."""
    at_once = min(len(candidates), (os.cpu_count() or 1) // 2)
    if at_once < 2:
        return
    places = asyncio.Semaphore(at_once)
    reference = await asyncio.to_thread(bench.folder.reference, bench.sizes)

    async def build(candidate: CandidateSource) -> None:
        async with places:
            evaluator = Evaluator(reference, bench.evaluator_settings, sizes=bench.sizes)
            try:
                await asyncio.to_thread(evaluator.build, candidate.source)
            except asyncio.CancelledError:
                await asyncio.shield(asyncio.to_thread(evaluator.cancel))
                raise
            finally:
                await asyncio.shield(asyncio.to_thread(evaluator.close))

    async with asyncio.TaskGroup() as group:
        for candidate in candidates:
            group.create_task(build(candidate))
