"""What an evaluation on the ``cpu`` device says about features that it lacks, refused launches and memory errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitchcuda.core.records import BuildReport, Diagnostic, ExtensionBuild, Status
from stitchcuda.tools.evaluate import Evaluator, EvaluatorSettings, settle

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(30, 33)]
def get_init_inputs():
    return []
"""
CANDIDATE = r'''
import torch
from torch.utils.cpp_extension import load_inline
source = r"""
#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int n, int extra) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + extra)
        y[i] = x[i] > 0 ? x[i] : 0;
}
torch::Tensor relu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    relu_kernel<<<(x.numel() + 255) / 256, THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), EXTRA);
    return y;
}
""".replace("THREADS", "@THREADS").replace("EXTRA", "@EXTRA")
extension = load_inline("relu_extension", ["torch::Tensor relu(torch::Tensor x);"], [source], functions=["relu"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.relu(x)
'''


def test_a_feature_that_is_missing_is_no_verdict(tmp_path: Path) -> None:
    line = Diagnostic(severity="error", message="CUTLASS in line 3", file="a.cu", line=3, code="unsupported_on_cpu")
    build = BuildReport(ok=False, extensions=(ExtensionBuild(name="a", ok=False, target="cpu", diagnostics=(line,)),))
    settings = EvaluatorSettings(device="cpu", cache_dir=tmp_path)
    evaluation = settle(1, settings, "reduced", build=build)
    assert evaluation.status == Status.MACHINE_ERROR
    assert evaluation.reasons == ("unsupported_on_cpu",)
    assert "CUTLASS in line 3" in evaluation.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "extra", "status", "told"),
    [
        (256, 0, Status.PASSED, ()),
        (256, 1, Status.RUNTIME_ERROR, ("out-of-bounds global read of 4 bytes", "relu_extension.cu:6", "3960 bytes")),
        (2048, 0, Status.RUNTIME_ERROR, ("invalid configuration argument", "'relu_kernel'", "block (2048, 1, 1)")),
    ],
)
def test_a_sanitized_evaluation(tmp_path: Path, threads: int, extra: int, status: Status, told: tuple[str]) -> None:
    settings = EvaluatorSettings(device="cpu", cache_dir=tmp_path, cross_compile=None, sanitize=True)
    evaluator = Evaluator(REFERENCE, settings, sizes="full")
    try:
        source = CANDIDATE.replace("@THREADS", str(threads)).replace("@EXTRA", str(extra))
        evaluation = evaluator.evaluate(source)
    finally:
        evaluator.close()
    assert evaluation.status == status, evaluation.message
    assert all(text in evaluation.message for text in told), evaluation.message
