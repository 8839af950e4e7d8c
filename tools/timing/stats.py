"""Statistics of timed calls: quartiles, and a bootstrap interval of a ratio of medians. numpy, no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stitchcuda.core.records import TimingStats

__all__ = ["ratio_interval", "stats"]

_RESAMPLES = 2000


def stats(rounds: Sequence[Sequence[float]]) -> TimingStats:
    """Median and quartiles of all calls of all rounds, in milliseconds."""
    calls = np.concatenate([np.asarray(r, dtype=np.float64) for r in rounds])
    low, middle, high = np.percentile(calls, [25, 50, 75])
    return TimingStats(median_ms=float(middle), p25_ms=float(low), p75_ms=float(high), calls=len(calls))


def ratio_interval(
    baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], *, seed: int = 0
) -> tuple[float, float, float]:
    """``(ratio, low, high)`` of median(baseline) / median(candidate), a 95 % bootstrap interval.

    Whole rounds are drawn with replacement, the same ones on both sides, because calls of one round share clocks and
    temperature; then calls within each drawn round. With one round only its calls are drawn.

    Args:
        baseline, candidate: milliseconds, ``[round][call]``, equally many rounds (taken in turns) and calls in each.
    """
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError("as many rounds of the baseline as of the candidate are needed")
    generator = np.random.default_rng(seed)
    a, b = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    rounds = len(a)
    chosen = generator.integers(0, rounds, (_RESAMPLES, rounds, 1))
    upper = a[chosen, generator.integers(0, a.shape[1], (_RESAMPLES, rounds, a.shape[1]))]
    lower = b[chosen, generator.integers(0, b.shape[1], (_RESAMPLES, rounds, b.shape[1]))]
    ratios = np.median(upper.reshape(_RESAMPLES, -1), axis=1) / np.median(lower.reshape(_RESAMPLES, -1), axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(np.median(a) / np.median(b)), float(low), float(high)
