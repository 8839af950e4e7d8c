"""Scores of a batch. Pure: results in, numbers out.

``fast_p`` is KernelBench's: the share of all problems that are correct and more than ``p`` times as fast as
eager, strictly. A problem that is not finished, or whose run the machine ended, counts as not fast.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from stitchcuda.bench.records import OWED_STATUSES, BatchResult
from stitchcuda.core.records import Record

__all__ = ["THRESHOLDS", "Scores", "fast_p", "geometric_mean", "score"]

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
NOT_SCORABLE = OWED_STATUSES | {"problem_error", "unscorable"}
"""Outcomes that are no verdict on what the engines can do."""


class Scores(Record):
    """Scores over one batch; a number is ``None`` where nothing was timed."""

    problems: int
    finished: int
    scorable: int
    """Finished problems whose status is a verdict on a candidate, or on there being none."""
    passed: int
    failed: int
    """Scorable problems that did not pass."""
    timed: int
    """Passed problems with a speed-up; none on ``cpu``."""
    counts: dict[str, int]
    """Problems by status; ``owed`` for those without a result."""
    fast_p: dict[str, float | None]
    """By threshold, ``"1.0"`` for example. ``fast_0`` is the share of passed problems."""
    geomean_passed: float | None
    """Geometric mean of the speed-ups of passed problems."""
    median_passed: float | None
    geomean_all: float | None
    """The same with every failed problem as 1.0x: the reference is kept there."""


def geometric_mean(values: Iterable[float]) -> float | None:
    """exp(mean(log(x))); ``None`` for nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def fast_p(results: Sequence[BatchResult | None], p: float) -> float | None:
    """Share of ``results`` that passed with a speed-up strictly above ``p``; ``None`` where nothing was timed.

    For ``p`` = 0 passing is enough: every measured ratio is above zero.
    """
    if not results:
        return None
    passed = [result for result in results if result is not None and result.passed]
    if p == 0:
        return len(passed) / len(results)
    if passed and all(result.speedup is None for result in passed):
        return None
    return sum(result.speedup is not None and result.speedup > p for result in passed) / len(results)


def score(results: Sequence[BatchResult | None]) -> Scores:
    """Score a batch: one entry per problem, ``None`` for a problem that is owed."""
    finished = [result for result in results if result is not None]
    scorable = [result for result in finished if result.status not in NOT_SCORABLE]
    passed = [result for result in scorable if result.passed]
    speedups = [result.speedup for result in passed if result.speedup is not None]
    failed = len(scorable) - len(passed)
    counts = Counter("owed" if result is None else result.status for result in results)
    return Scores(
        problems=len(results),
        finished=len(finished),
        scorable=len(scorable),
        passed=len(passed),
        failed=failed,
        timed=len(speedups),
        counts=dict(counts.most_common()),
        fast_p={f"{p:.1f}": fast_p(results, p) for p in THRESHOLDS},
        geomean_passed=geometric_mean(speedups),
        median_passed=statistics.median(speedups) if speedups else None,
        geomean_all=geometric_mean([*speedups, *[1.0] * failed]) if speedups or not passed else None,
    )
