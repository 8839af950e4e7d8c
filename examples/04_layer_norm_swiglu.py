"""Layer norm, then a gate: one half of the features, through SiLU, multiplies the other half."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """``silu(a) * b`` where ``a`` and ``b`` are the halves of the normalised input."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.1)
        nn.init.normal_(self.norm.bias, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: float32[batch, tokens, features]; the result is float32[batch, tokens, features / 2]."""
        gate, value = self.norm(x).chunk(2, dim=-1)
        return nn.functional.silu(gate) * value


batch = 16
tokens = 1024
features = 4096

REDUCED = {"batch": 2, "tokens": 9, "features": 128}


def get_inputs():
    return [torch.randn(batch, tokens, features)]


def get_init_inputs():
    return [features]
