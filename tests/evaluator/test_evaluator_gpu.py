"""On a GPU: real kernels, real clocks, and the cheats that only a clock can see."""

from __future__ import annotations

import time

import pytest
from evaluator_programs import GOOD, SCALE, plain, with_kernel

from stitchcuda.core.records import Status
from stitchcuda.tools.health import gpu_trouble

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]

_REFERENCE = SCALE.replace("torch.randn(9, 40)", "torch.randn(4096, 4096)").replace("return [40]", "return [4096]")


@pytest.fixture(scope="module")
def on_gpu(make_evaluator):
    return make_evaluator(_REFERENCE, device="cuda:0", call_timeout_s=30, timing_budget_s=5)


def test_a_fused_kernel_is_faster_than_eager_and_profiled(on_gpu):
    evaluation = on_gpu.evaluate(GOOD)
    assert evaluation.status is Status.PASSED, evaluation.message
    assert evaluation.speedup is not None
    assert evaluation.speedup > 1.2
    eager = evaluation.timing.baselines[0]
    assert eager.name == "eager"
    assert eager.speedup_low <= eager.speedup <= eager.speedup_high
    assert any("scale_relu" in row.name for row in evaluation.profile.rows)


def test_two_timings_agree_within_their_intervals(on_gpu):
    first, second = on_gpu.time(GOOD).baselines[0], on_gpu.time(GOOD).baselines[0]
    slack = 0.02 * first.speedup
    assert first.speedup_low - slack <= second.speedup_high
    assert second.speedup_low - slack <= first.speedup_high


def test_right_when_checked_and_stale_when_timed(on_gpu):
    late = with_kernel(
        "self.calls = getattr(self, 'calls', 0) + 1\n"
        "if self.calls < 12: self.kept = extension.forward(x, self.weight, self.bias)\n"
        "return self.kept"
    )
    evaluation = on_gpu.evaluate(late)
    assert (evaluation.status, evaluation.reasons) == (Status.CHEATING, ("stale_output",))


def test_events_that_lie_disagree_with_the_wall_clock(on_gpu):
    liar = with_kernel(
        "kind = type(torch.cuda.Event())\n"
        "setattr(kind, 'elapsed_' + 'time', lambda self, end: 0.0001)\n"
        "return extension.forward(x, self.weight, self.bias)"
    )
    evaluation = on_gpu.evaluate(liar)
    assert (evaluation.status, evaluation.reasons) == (Status.CHEATING, ("timing_disagreement",))


def test_a_crashed_context_does_not_reach_the_next_candidate(on_gpu):
    crash = GOOD.replace("if (i < n) {", "if (true) { x += 1L << 40;")
    assert on_gpu.evaluate(crash).status is Status.RUNTIME_ERROR
    assert on_gpu.check(GOOD).status is Status.PASSED


def test_torch_alone_is_not_own_work_on_a_gpu(on_gpu):
    assert on_gpu.check(plain("return self.compute(x)")).reasons == ("not_own_kernel",)


def test_every_baseline_is_there_and_compiled_ones_are_remembered(make_evaluator):
    names = ("compile_default", "compile_reduce_overhead", "eager", "eager_tf32")
    evaluator = make_evaluator(
        _REFERENCE, device="cuda:0", call_timeout_s=120, timing_budget_s=5, baselines=names, timing_processes=2
    )
    first = evaluator.time(GOOD)
    assert tuple(row.name for row in first.baselines) == names, first.notes
    assert first.processes == 2
    assert first.clocks["before_sm_mhz"].isdigit()
    assert first.floor_ms is not None
    assert first.floor_ms < first.candidate.median_ms
    # One output of 64 MiB at the least, for either side.
    assert all(extra >= 60 << 20 for extra in first.peak_extra_bytes.values()), first.peak_extra_bytes
    started = time.monotonic()
    second = evaluator.time(GOOD)
    assert time.monotonic() - started < first.seconds
    assert second.baselines[0].speedup == pytest.approx(first.baselines[0].speedup, rel=0.1)


def test_a_gpu_answers_after_hangs_and_crashes(on_gpu):
    hang = GOOD.replace("if (i < n) {", "if (true) { while (x != nullptr && clock64() != 0) {}")
    assert on_gpu.check(hang).status is Status.TIMEOUT
    assert gpu_trouble("cuda:0") == ""
    assert on_gpu.check(GOOD).status is Status.PASSED


def test_the_walls_let_cuda_work_and_keep_files_out(on_gpu):
    curious = with_kernel(
        "import os\nos.listdir('/root' if os.getuid() == 0 else '/home')\n"
        "return extension.forward(x, self.weight, self.bias)"
    )
    report = on_gpu.check(curious)
    assert report.status is Status.RUNTIME_ERROR
    assert "PermissionError" in report.message


def test_memory_that_others_hold_is_the_machines_fault(make_evaluator):
    import torch

    free, _ = torch.cuda.mem_get_info("cuda:0")
    evaluator = make_evaluator(_REFERENCE, device="cuda:0", call_timeout_s=60)
    assert evaluator.check(GOOD).status is Status.PASSED
    hog = torch.empty(free - (3 << 29), dtype=torch.uint8, device="cuda:0")
    try:
        report = evaluator.check(with_kernel("return x.repeat(8, 8)"))
    finally:
        del hog
        torch.cuda.empty_cache()
    assert (report.status, report.reasons) == (Status.MACHINE_ERROR, ("gpu_crowded",))
