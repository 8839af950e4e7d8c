"""Attention scores with a positional bias per head and a key mask, then softmax: broadcasts of three shapes."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """``softmax(scores * head_scale + bias + mask)`` over the keys."""

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()
        self.head_scale = nn.Parameter(0.125 + 0.01 * torch.randn(heads, 1, 1))
        self.bias = nn.Parameter(0.2 * torch.randn(heads, tokens, tokens))

    def forward(self, scores: torch.Tensor, key_mask: torch.Tensor) -> torch.Tensor:
        """``scores``: float32[batch, heads, tokens, tokens]; ``key_mask``: float32[batch, 1, 1, tokens], 0 or 1."""
        penalty = (1.0 - key_mask) * -1e4
        return torch.softmax(scores * self.head_scale + self.bias + penalty, dim=-1)


batch = 16
heads = 12
tokens = 512

REDUCED = {"batch": 2, "heads": 3, "tokens": 24}


def get_inputs():
    scores = 4.0 * torch.randn(batch, heads, tokens, tokens)
    key_mask = (torch.rand(batch, 1, 1, tokens) > 0.1).float()
    return [scores, key_mask]


def get_init_inputs():
    return [heads, tokens]
