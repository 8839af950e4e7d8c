"""The timing protocol against workers and a clock that only pretend; the real ones are in test_evaluator_gpu.py."""

from __future__ import annotations

import contextlib
import fcntl
import threading

import pytest
import torch
from timing_fakes import FakeCandidate, FakeGpu, FakeReference

from stitchcuda.core.errors import WorkerError
from stitchcuda.core.records import Status
from stitchcuda.tools.checks.session import CandidateFailed
from stitchcuda.tools.health import crowded
from stitchcuda.tools.timing import stage
from stitchcuda.tools.timing.baselines import Remembered, baseline_key, recall, remember
from stitchcuda.tools.timing.floor import compulsory_bytes
from stitchcuda.tools.timing.nvml import PeakMemory, throttle_names, visible_device
from stitchcuda.tools.timing.report import learned, summarise
from stitchcuda.tools.timing.run import measure


def _measure(gpu: FakeGpu, reference: FakeReference | None = None, candidate: FakeCandidate | None = None, **options):
    chosen = {"baselines": ("eager", "eager_tf32"), "budget_s": 2.0, "seed": 3, "input_bytes": 1 << 20, **options}
    return measure(reference or FakeReference(gpu), candidate or FakeCandidate(gpu), clock=gpu.clock, **chosen)


def _gpu(**changes: float) -> FakeGpu:
    return FakeGpu(**{"eager": 2.0, "eager_tf32": 1.5, "candidate": 1.0, **changes})


def test_quiet_clocks_end_early_with_the_right_ratio():
    measured = _measure(_gpu())
    report = summarise([measured], ("eager", "eager_tf32"))
    assert report.stopped_by == "interval"
    assert report.rounds < 10
    assert report.baselines[0].speedup == pytest.approx(2.0, rel=0.01)
    assert report.baselines[1].speedup == pytest.approx(1.5, rel=0.01)
    assert report.baselines[0].speedup_high - report.baselines[0].speedup_low <= 0.02 * 2.0


def test_noise_is_met_with_more_rounds_and_a_wider_interval():
    measured = _measure(_gpu(noise=0.6), budget_s=0.5)
    report = summarise([measured], ("eager",))
    assert report.rounds > 5
    assert report.stopped_by == "budget"
    assert report.baselines[0].speedup_high - report.baselines[0].speedup_low > 0.02 * 2.0


def test_slow_calls_make_short_rounds_within_the_budget():
    gpu = _gpu(eager=900.0, eager_tf32=900.0, candidate=800.0)
    measured = _measure(gpu, budget_s=10.0)
    assert len(measured.times["candidate"][0]) == 1
    assert gpu.now_s - 100.0 < 70.0  # warm-ups and both clocks included


def test_all_sides_get_the_same_calls_in_changing_turns():
    gpu = _gpu(noise=0.4)
    _measure(gpu, budget_s=0.5)
    rounds = gpu.orders[6:]  # after warm-ups and the first look
    turns = [tuple(side for side, _ in rounds[i : i + 3]) for i in range(0, len(rounds), 3)]
    assert len(set(turns)) > 1
    for i in range(0, len(rounds), 3):
        assert rounds[i][1] == rounds[i + 1][1] == rounds[i + 2][1]
    factors = [entry[2] for _, order in rounds[::3] for entry in order]
    assert len(set(factors)) == len(factors)


@pytest.mark.parametrize(
    ("reference", "candidate", "reason"),
    [
        ({"wrong": True}, {}, "stale_output"),
        ({}, {"wall_factor": 5.0}, "timing_disagreement"),
        ({}, {"reports": [1e-4]}, "timing_disagreement"),
        ({}, {"reports": [float("nan")] * 5}, "timing_disagreement"),
        ({}, {"reports": [-1.0] * 5}, "timing_disagreement"),
        ({"floor": (8_000_000_000, 4e12)}, {}, "below_floor"),
    ],
)
def test_what_gives_a_candidate_away(reference, candidate, reason):
    gpu = _gpu()
    with pytest.raises(CandidateFailed) as caught:
        _measure(gpu, FakeReference(gpu, **reference), FakeCandidate(gpu, **candidate))
    assert (caught.value.status, caught.value.reason) == (Status.CHEATING, reason)


def test_a_time_just_above_the_floor_is_fine_and_the_floor_is_reported():
    gpu = _gpu()
    measured = _measure(gpu, FakeReference(gpu, floor=(3_600_000_000, 4e12)))
    assert measured.floor_ms == pytest.approx(0.9)
    huge = FakeReference(gpu, floor=(1 << 50, 4e12))
    assert _measure(gpu, huge, input_bytes=6 << 30).floor_ms is None
    assert "time_floor" not in huge.asked


def test_a_launch_bound_result_is_labelled():
    short = _measure(_gpu(candidate=0.02))
    assert summarise([short], ("eager",)).launch_bound
    assert not summarise([_measure(_gpu())], ("eager",)).launch_bound
    gpu = _gpu(candidate=0.02)
    overlapped = _measure(gpu, candidate=FakeCandidate(gpu, wall_factor=0.3))
    assert not summarise([overlapped], ("eager",)).launch_bound


def test_rounds_of_several_processes_are_taken_together():
    report = summarise([_measure(_gpu()), _measure(_gpu(candidate=1.2))], ("eager",))
    assert report.processes == 2
    assert report.baselines[0].speedup_low >= 2.0 / 1.2 * 0.99
    assert report.baselines[0].speedup_low < 1.75 < 1.95 < report.baselines[0].speedup_high


def test_a_compiled_baseline_is_measured_once_and_carried_over(tmp_path):
    first = _measure(_gpu(compile_default=1.2), baselines=("eager", "compile_default"))
    for name, entry in learned([first]).items():
        remember(tmp_path, "problem", name, entry)
    kept = recall(tmp_path, "problem", "compile_default")
    assert kept is not None
    assert kept.to_eager == pytest.approx(0.6, rel=0.01)
    later = _measure(_gpu(candidate=0.5), baselines=("eager",))
    report = summarise([later], ("eager", "compile_default"), {"compile_default": kept})
    assert [row.name for row in report.baselines] == ["eager", "compile_default"]
    assert report.baselines[1].speedup == pytest.approx(1.2 / 0.5, rel=0.02)
    assert report.baselines[1].speedup_low < 2.4 < report.baselines[1].speedup_high


def test_a_baseline_that_does_not_compile_is_a_note_and_is_remembered():
    measured = _measure(_gpu(), baselines=("eager", "compile_reduce_overhead"))
    report = summarise([measured], ("eager", "compile_reduce_overhead"))
    assert [row.name for row in report.baselines] == ["eager"]
    assert "cannot compile" in report.notes[0]
    assert learned([measured])["compile_reduce_overhead"] == Remembered(
        error="cannot compile for compile_reduce_overhead"
    )


def test_what_is_remembered_belongs_to_one_problem_and_machine(tmp_path):
    machine = {"gpu": "H200", "torch": "2.13"}
    key = baseline_key("source", machine)
    assert key == baseline_key("source", dict(reversed(machine.items())))
    assert key not in (baseline_key("other", machine), baseline_key("source", machine | {"torch": "2.14"}))
    assert recall(tmp_path, key, "compile_default") is None
    (tmp_path / key).mkdir()
    (tmp_path / key / "compile_default.json").write_text("{torn")
    assert recall(tmp_path, key, "compile_default") is None


def test_the_stage_asks_for_compiled_baselines_only_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "construct", lambda *_: type("Transfer", (), {"how": "same_seed"}))
    monkeypatch.setattr(stage, "set_weights", lambda *_: None)
    options = stage.TimingOptions("cuda:0", ("compile_default", "eager"), 1e-3, 2, tmp_path, "key")

    def run() -> tuple[list[str], object]:
        gpu = _gpu(compile_default=1.4)
        reference = FakeReference(gpu)
        report = stage.run_timing(reference, lambda: contextlib.nullcontext(FakeCandidate(gpu)), options, seed=1)
        assert reference.asked.count("time_end") == 2
        return [side for side, _ in gpu.orders], report

    sides, report = run()
    assert "compile_default" in sides
    assert report.processes == 2
    again, later = run()
    assert "compile_default" not in again
    assert [row.name for row in later.baselines] == ["compile_default", "eager"]
    assert later.baselines[0].speedup == pytest.approx(1.4, rel=0.05)


def test_only_one_evaluation_times_on_a_gpu(tmp_path):
    path = tmp_path / "cuda-0.lock"
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(WorkerError, match="too long"), stage._gpu_alone(path, lambda: None, patience_s=0.1):
            pytest.fail("the lock was held")
        threading.Timer(0.2, lambda: fcntl.flock(other, fcntl.LOCK_UN)).start()
        with stage._gpu_alone(path, lambda: None, patience_s=10):
            pass


def test_compulsory_bytes_count_what_really_matters():
    x, unused = torch.randn(64, 32), torch.randn(64, 32)
    size = 64 * 32 * 4
    assert compulsory_bytes(lambda a, _: a * 2, [x, unused], 1) == int(0.8 * 2 * size)
    assert compulsory_bytes(lambda a, b: (a + b).sum(), [x, unused], 1) == int(0.8 * (2 * size + 4))
    # The last step of a sequence: an honest program may leave the rest unread.
    assert compulsory_bytes(lambda a, b: a[:, -1] + b[:, -1], [x, unused], 1) == int(0.8 * 64 * 4)
    # An output that fits into the cache may stay there.
    assert compulsory_bytes(lambda a, _: a * 2, [x, unused], 1, cache_bytes=1 << 20) == int(0.8 * size)
    assert compulsory_bytes(lambda i: i + 1, [torch.arange(10)], 1) == int(0.8 * 80)


def test_peak_memory_is_what_was_added_and_given_back():
    level, seen = [100], threading.Event()

    def read() -> int:
        if level[0] == 700:
            seen.set()
        return level[0]

    with PeakMemory(read, sample_s=0.001) as peak:
        level[0] = 700
        assert seen.wait(5)
        level[0] = 120
    assert peak.extra_bytes == 600
    with PeakMemory(lambda: None) as unknown:
        pass
    assert unknown.extra_bytes is None


def test_devices_are_named_as_the_driver_names_them():
    assert visible_device("cuda:1", None) == "1"
    assert visible_device("cuda:1", "4, 6") == "6"
    assert visible_device("cuda:0", "GPU-1234") == "GPU-1234"
    assert throttle_names(0b1) == ""  # idle is no throttling
    assert throttle_names(1 << 2 | 1 << 6) == "power cap, hardware thermal slowdown"


def test_a_gpu_that_others_filled_is_no_fault_of_the_candidate():
    assert crowded(2 << 30, 1 << 30)
    assert not crowded(20 << 30, 1 << 30)
    assert not crowded(None, 1 << 30)
