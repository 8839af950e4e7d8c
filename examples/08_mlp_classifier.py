"""A three-layer perceptron that returns class log-probabilities: matrix products with fusable epilogues."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear, GELU, layer norm, linear, residual ReLU, linear, log-softmax."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.enter = nn.Linear(features, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.leave = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: float32[batch, features]; the result is float32[batch, classes]."""
        h = self.norm(nn.functional.gelu(self.enter(x)))
        h = h + nn.functional.relu(self.mix(h))
        return nn.functional.log_softmax(self.leave(h), dim=-1)


batch = 8192
features = 768
hidden = 2048
classes = 1000

REDUCED = {"batch": 12, "features": 48, "hidden": 64, "classes": 50}


def get_inputs():
    return [torch.randn(batch, features)]


def get_init_inputs():
    return [features, hidden, classes]
