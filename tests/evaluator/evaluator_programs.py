"""A small reference and candidates for it, good and bad."""

from __future__ import annotations

SCALE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)


def get_inputs():
    return [torch.randn(9, 40)]


def get_init_inputs():
    return [40]
"""

_KERNEL = r"""
#include <torch/extension.h>

__global__ void scale_relu(const float* x, const float* w, const float* b, float* y, int n, int features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i] * w[i % features] + b[i % features];
        y[i] = v > 0.f ? v : 0.f;
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    scale_relu<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                         y.data_ptr<float>(), n, w.size(0));
    return y;
}
"""

_EXTENSION = f'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="scale_relu_extension",
    cpp_sources="torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""{_KERNEL}""",
    functions=["forward"],
)
'''

_INIT = """
class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.setup()

    def setup(self):
        pass

    def compute(self, x):
        return torch.relu(x * self.weight + self.bias)
"""


def with_kernel(forward: str) -> str:
    """A candidate with a built extension; ``forward`` is the body of ``forward(self, x)``."""
    return _EXTENSION + _INIT + _method("forward", "self, x", forward)


def plain(forward: str, setup: str = "pass", top: str = "") -> str:
    """A candidate without an extension; ``self.compute(x)`` gives the right result."""
    body = _method("forward", "self, x", forward) + _method("setup", "self", setup)
    return "import torch\nimport torch.nn as nn\n" + top + _INIT + body


def _method(name: str, arguments: str, body: str) -> str:
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return f"\n    def {name}({arguments}):\n{lines}\n"


GOOD = with_kernel("return extension.forward(x, self.weight, self.bias)")

BATCH_NORM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(16, 6)]


def get_init_inputs():
    return []
"""

BATCH_NORM_GOOD = BATCH_NORM.replace("class Model(", "class ModelNew(")
BATCH_NORM_FORGETFUL = BATCH_NORM_GOOD.replace(
    "return self.norm(x)",
    "return nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True)",
)

NESTED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, state):
        return {"sum": x + state[0], "pair": (x * 2, state[1].argmax(dim=1)), "none": None}


def get_inputs():
    return [torch.randn(5, 7), (torch.randn(5, 7), torch.randn(4, 3))]


def get_init_inputs():
    return []
"""

DROPOUT = SCALE.replace("return torch.relu(", "return nn.functional.dropout(").replace(
    "self.bias)\n\n\ndef", "self.bias, 0.5)\n\n\ndef"
)
