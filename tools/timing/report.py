"""From what the candidate's processes measured to one report. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.core.records import BaselineTiming, TimingReport
from stitchcuda.tools.timing.baselines import COMPILED, Remembered, carried_over
from stitchcuda.tools.timing.run import Measured
from stitchcuda.tools.timing.stats import ratio_interval, stats

__all__ = ["learned", "summarise"]

_LAUNCH_BOUND_MS = 0.05


def summarise(
    measured: Sequence[Measured],
    baselines: Sequence[str],
    remembered: dict[str, Remembered] | None = None,
    clocks: dict[str, str] | None = None,
    seconds: float = 0.0,
) -> TimingReport:
    """One report; the baselines in the order that was asked for.

    Args:
        measured: one per candidate process, at least one.
        remembered: compiled baselines that were not timed again.
    """
    times = _together(measured)
    mine = stats(times["candidate"])
    wall_ms = min(one.wall_ms for one in measured)
    eager = _baseline("eager", times)
    rows: list[BaselineTiming] = []
    notes: list[str] = []
    for name in baselines:
        entry = (remembered or {}).get(name)
        row = _baseline(name, times) if name in times else carried_over(name, entry, eager) if entry else None
        if row is not None:
            rows.append(row)
            continue
        why = next((one.uncompiled[name] for one in measured if name in one.uncompiled), entry.error if entry else "")
        notes.append(f"no baseline {name}: {why or 'not measured'}")
    return TimingReport(
        candidate=mine,
        baselines=tuple(rows or [eager]),
        rounds=len(times["candidate"]),
        processes=len(measured),
        stopped_by=measured[-1].stopped_by,
        # Back-to-back calls that take as long as a lone one, and that short: the CPU's launches set the pace.
        launch_bound=mine.median_ms < _LAUNCH_BOUND_MS and wall_ms > 0.8 * mine.median_ms,
        wall_ms=wall_ms,
        floor_ms=measured[0].floor_ms,
        peak_extra_bytes={
            side: max(one.peak_extra_bytes.get(side, 0) for one in measured) for side in measured[0].peak_extra_bytes
        },
        clocks=clocks or {},
        notes=tuple(notes),
        seconds=seconds,
    )


def learned(measured: Sequence[Measured]) -> dict[str, Remembered]:
    """What is worth remembering of compiled baselines: their times as ratios to eager, or that there is none."""
    times = _together(measured)
    found = {name: Remembered(error=why) for one in measured for name, why in one.uncompiled.items()}
    for name in COMPILED:
        if name in times:
            ratio, low, high = ratio_interval(times[name], times["eager"])
            found[name] = Remembered(stats=stats(times[name]), to_eager=ratio, to_eager_low=low, to_eager_high=high)
    return found


def _together(measured: Sequence[Measured]) -> dict[str, list[list[float]]]:
    """All rounds of all processes, of one length."""
    sides = [side for side in measured[0].times if all(side in one.times for one in measured)]
    calls = min(len(one.times["candidate"][0]) for one in measured)
    return {side: [row[:calls] for one in measured for row in one.times[side]] for side in sides}


def _baseline(name: str, times: dict[str, list[list[float]]]) -> BaselineTiming:
    ratio, low, high = ratio_interval(times[name], times["candidate"])
    return BaselineTiming(name=name, stats=stats(times[name]), speedup=ratio, speedup_low=low, speedup_high=high)
