"""On a GPU: real kernels, real clocks, and the cheats that only a clock can see."""

from __future__ import annotations

import pytest
from evaluator_programs import GOOD, SCALE, plain, with_kernel

from stitchcuda.core.records import Status

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
