"""Pre-norm causal self-attention with its own softmax, output projection and residual."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """``x + project(attention(norm(x)))``; the scores are materialised, as in a textbook."""

    def __init__(self, width: int, heads: int, tokens: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.register_buffer("future", torch.ones(tokens, tokens, dtype=torch.bool).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: float32[batch, tokens, width]; the result has the same shape."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(self.future, float("-inf")).softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, width)
        return x + self.project(mixed)


batch = 16
tokens = 512
width = 512
heads = 8

REDUCED = {"batch": 2, "tokens": 16, "width": 32, "heads": 4}


def get_inputs():
    return [torch.randn(batch, tokens, width)]


def get_init_inputs():
    return [width, heads, tokens]
