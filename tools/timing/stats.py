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
    """``(ratio, low, high)`` of median(baseline) / median(candidate), with a 95 % bootstrap interval.

    Whole rounds are drawn with replacement, the same ones on both sides, because calls of one round share clocks and
    temperature; then calls within each drawn round. With one round only its calls are drawn.

    Args:
        baseline, candidate: milliseconds, ``[round][call]``, equally many rounds, taken in turns.
    """
    if len(baseline) != len(candidate) or not baseline:
        raise ValueError("as many rounds of the baseline as of the candidate are needed")
    generator = np.random.default_rng(seed)
    a = [np.asarray(r, dtype=np.float64) for r in baseline]
    b = [np.asarray(r, dtype=np.float64) for r in candidate]
    ratio = float(np.median(np.concatenate(a)) / np.median(np.concatenate(b)))
    ratios = np.empty(_RESAMPLES)
    for i in range(_RESAMPLES):
        chosen = generator.integers(0, len(a), len(a))
        upper = np.concatenate([a[j][generator.integers(0, len(a[j]), len(a[j]))] for j in chosen])
        lower = np.concatenate([b[j][generator.integers(0, len(b[j]), len(b[j]))] for j in chosen])
        ratios[i] = np.median(upper) / np.median(lower)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return ratio, float(low), float(high)
