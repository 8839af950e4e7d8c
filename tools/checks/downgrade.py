"""Whether wrong values are the rounding of a narrower number format rather than wrong arithmetic (reference worker)."""

from __future__ import annotations

from typing import Any

import torch

from stitchcuda.tools.checks.golden import Golden
from stitchcuda.tools.checks.inputs import tensors_of

__all__ = ["looks_downgraded"]

_FEWEST = 16
_MOST = 1 << 20
# Rounding errors are scattered, while a wrong factor or a missing term goes with the result.
_MOST_CORRELATED = 0.3
_SLACK = 2.0


def looks_downgraded(golden: Golden, outputs: Any, low: Any) -> bool:
    """Every float32 output is off by scattered errors no larger than a bfloat16 run's, or has a 16-bit type's values.

    Args:
        outputs: the candidate's, unpacked, shapes and types as the golden's.
        low: outputs of the reference in bfloat16, or ``None``.
    """
    plain, theirs = tensors_of(golden.plain), tensors_of(outputs)
    narrow = tensors_of(low) if low is not None else [None] * len(plain)
    if len(plain) != len(theirs) or len(narrow) != len(plain):
        return False
    verdicts = [
        _one(_some(ours), _some(got).to(ours.device), _some(less) if less is not None else None)
        for ours, got, less in zip(plain, theirs, narrow, strict=True)
        if ours.dtype is torch.float32 and ours.numel() >= _FEWEST
    ]
    return any(verdicts)


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """Enough elements to tell: several copies of a large output would not fit beside it."""
    return tensor.reshape(-1)[:_MOST]


def _one(truth: torch.Tensor, got: torch.Tensor, low: torch.Tensor | None) -> bool:
    usable = torch.isfinite(truth) & torch.isfinite(got)
    if not bool(usable.all()) or torch.equal(truth, got):
        return False
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(got.to(dtype).float(), got) and not torch.equal(truth.to(dtype).float(), truth):
            near = (got - truth).norm() <= 0.05 * truth.norm()
            if bool(near) and torch.unique(got).numel() > _FEWEST:
                return True
    if low is None or low.shape != truth.shape:
        return False
    error, allowed = (got - truth).double(), (low.to(truth.device) - truth).double().norm() * _SLACK
    size = error.norm()
    if size == 0 or size > allowed:
        return False
    together = (error * truth.double()).sum().abs() / (size * truth.double().norm()).clamp_min(1e-300)
    touched = (error[truth != 0] != 0).double().mean()  # behind a ReLU half of the values are exactly zero
    return bool(together < _MOST_CORRELATED) and bool(touched > 0.5)
