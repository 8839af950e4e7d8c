"""The verdict that a person reads."""

from __future__ import annotations

import pytest

from stitchcuda.cli.evaluate import _baselines
from stitchcuda.cli.verdict import verdict_lines
from stitchcuda.core.errors import SettingsError
from stitchcuda.core.records import (
    BaselineTiming,
    BuildReport,
    CheckReport,
    Evaluation,
    OutputCheck,
    Status,
    TimingReport,
    TimingStats,
)


def _stats(median_ms: float) -> TimingStats:
    return TimingStats(median_ms=median_ms, p25_ms=median_ms * 0.9, p75_ms=median_ms * 1.1, calls=50)


def test_a_timed_verdict_names_its_baselines_interval_and_caveats():
    rows = [
        BaselineTiming(name=name, stats=_stats(ms), speedup=ms, speedup_low=ms * 0.98, speedup_high=ms * 1.02)
        for name, ms in (("compile_default", 1.5), ("eager", 3.0))
    ]
    timing = TimingReport(
        candidate=_stats(1.0),
        baselines=tuple(rows),
        rounds=5,
        launch_bound=True,
        floor_ms=0.25,
        peak_extra_bytes={"candidate": 5_000_000},
        clocks={"after_throttled": "power cap"},
        notes=("no baseline compile_reduce_overhead: graph break",),
    )
    check = CheckReport(ok=True, status=Status.PASSED, trials=6, unscorable=("zeros",))
    evaluation = Evaluation(
        candidate_id=0,
        status=Status.PASSED,
        device="cuda:0",
        build=BuildReport(ok=True),
        check=check,
        timing=timing,
        machine={"gpu": "NVIDIA H200"},
    )
    text = "\n".join(verdict_lines(evaluation))
    assert text.startswith("passed, 1.50x the speed of compile_default\n")
    for part in (
        "3.00x (2.94 to 3.06) against 3 ms eager",
        "launch-bound",
        "floor of this problem's bytes on this GPU: 0.25 ms",
        "a call of candidate takes 5 MB",
        "slowed down: power cap",
        "no baseline compile_reduce_overhead: graph break",
        "proves nothing about zeros",
        "did not come within 2 %",
        "on cuda:0 (NVIDIA H200), full sizes, policy libraries",
    ):
        assert part in text


def test_a_failed_check_shows_each_output_that_failed():
    outputs = tuple(
        OutputCheck(trial=trial, output="out", ok=ok, message=message)
        for trial, ok, message in (("scaled_3", False, "4 of 9 values differ"), ("as_given", True, ""))
    )
    check = CheckReport(ok=False, status=Status.WRONG_VALUES, reasons=("mismatch",), outputs=outputs, trials=3)
    evaluation = Evaluation(
        candidate_id=0, status=Status.WRONG_VALUES, reasons=("mismatch",), message="4 differ", device="cpu", check=check
    )
    lines = verdict_lines(evaluation)
    assert lines[0] == "wrong_values (mismatch): 4 differ"
    assert "          scaled_3: out: 4 of 9 values differ" in lines
    assert not any("as_given" in line for line in lines)


def test_baselines_are_checked_and_kept_in_order():
    assert _baselines(None) == ("eager", "eager_tf32")
    assert _baselines(["compile_default", "eager", "compile_default"]) == ("compile_default", "eager")
    with pytest.raises(SettingsError, match="compile_default"):
        _baselines(["inductor"])
