"""``stitchcuda eval``: a real verdict on the cpu device, and exit codes."""

from __future__ import annotations

import pytest

from stitchcuda.core.records import Evaluation, Status

CANDIDATE = '''
import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.f;
}
torch::Tensor relu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    relu_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
extension = load_inline(
    name="relu_ext", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=CUDA, functions=["relu"]
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.relu(x)
'''


@pytest.fixture
def evaluate(cli, problem_file, tmp_path):
    def run(source: str, *arguments):
        path = tmp_path / "candidate.py"
        path.write_text(source)
        return cli("eval", problem_file, path, "--device", "cpu", "--set", "cross_compile=none", *arguments)

    return run


def test_a_right_kernel_passes(evaluate):
    done = evaluate(CANDIDATE, "--json")
    assert (done.code, done.json["status"], done.json["reasons"]) == (0, "passed", [])
    assert done.json["speedup"] is None
    assert done.json["evaluation"]["sizes"] == "reduced"


def test_a_candidate_without_modelnew_does_not(evaluate):
    done = evaluate("x = 1\n")
    assert done.code == 1
    assert "ModelNew" in done.out.splitlines()[0]


@pytest.mark.parametrize(("status", "code"), [("machine_error", 3), ("timeout", 1), ("cheating", 1)])
def test_exit_code_follows_the_status(evaluate, monkeypatch, status, code):
    class FakeEvaluator:
        def __init__(self, *_arguments: object, **_options: object) -> None: ...

        def evaluate(self, _source: str) -> Evaluation:
            return Evaluation(candidate_id=0, status=Status(status), device="cpu", reasons=("why",), message="[so]")

        def close(self) -> None: ...

    monkeypatch.setattr("stitchcuda.tools.evaluate.Evaluator", FakeEvaluator)
    done = evaluate(CANDIDATE)
    assert done.code == code
    assert done.out.startswith(f"{status} (why): [so]\n")


def test_a_candidate_that_is_no_text_is_a_usage_error(cli, problem_file, tmp_path):
    (tmp_path / "c.py").write_bytes(b"\xff\xfe\x00")
    done = cli("eval", problem_file, tmp_path / "c.py", "--json")
    assert (done.code, done.json["error"]) == (2, "SettingsError")
