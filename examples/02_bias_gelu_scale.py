"""A chain of per-feature affine steps around a tanh GELU, as it follows a matrix product in many blocks."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Bias, GELU (tanh form), per-feature gain, clamp: four passes over memory when run op by op."""

    def __init__(self, features: int, limit: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(0.1 * torch.randn(features))
        self.gain = nn.Parameter(1.0 + 0.1 * torch.randn(features))
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: float32[rows, features]; the result has the same shape."""
        y = nn.functional.gelu(x + self.bias, approximate="tanh") * self.gain
        return torch.clamp(y, max=self.limit)


rows = 12288
features = 3072
limit = 2.0

REDUCED = {"rows": 24, "features": 80}


def get_inputs():
    return [torch.randn(rows, features)]


def get_init_inputs():
    return [features, limit]
