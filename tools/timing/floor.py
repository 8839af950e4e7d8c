"""The bytes that every correct program for a problem has to move, and the time which that takes at least.

Runs in the reference worker. Outputs have to be written. An input has to be read only where the result depends on all
of it, which is tried: single elements are set to a large value, and each time the output has to change. Flops make
no floor here, because an honest program may find a way with fewer of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from stitchcuda.tools.checks.inputs import map_tensors, tensors_of

__all__ = ["compulsory_bytes", "device_bandwidth"]

_PROBES = 16
_CAUTION = 0.8
"""Sixteen hits of sixteen leave room for a part that does not matter."""


def compulsory_bytes(model: Callable[..., Any], inputs: list[Any], seed: int, *, cache_bytes: int = 0) -> int:
    """Bytes to be moved through the device's memory; what fits into its cache may stay there.

    Args:
        inputs: one set of inputs; left as they are.
        cache_bytes: size of the last cache, in which outputs may remain.
    """
    with torch.no_grad():
        before = _copies(model(*map_tensors(inputs, torch.clone)))
        written = sum(t.numel() * t.element_size() for t in before)
        candidates = [i for i, t in enumerate(tensors_of(inputs)) if t.is_floating_point() and t.numel()]
        sizes = [tensors_of(inputs)[i].numel() for i in candidates]
        chosen = random.Random(seed)
        needed = dict.fromkeys(candidates, True)
        for probe in range(_PROBES if candidates else 0):
            # Each input at least once, then in proportion to their sizes.
            which = candidates[probe] if probe < len(candidates) else chosen.choices(candidates, sizes)[0]
            changed = map_tensors(inputs, torch.clone)
            flat = tensors_of(changed)[which].view(-1) if tensors_of(changed)[which].is_contiguous() else None
            if flat is None:
                needed[which] = False
                continue
            at = chosen.randrange(flat.numel())
            flat[at] = float(flat[at]) + 100.0
            if _equal(before, tensors_of(model(*changed))):
                needed[which] = False
        read = sum(t.numel() * t.element_size() for i, t in enumerate(tensors_of(inputs)) if needed.get(i, False))
    return int(_CAUTION * (read + max(0, written - cache_bytes)))


def device_bandwidth(device: torch.device) -> float | None:
    """Peak bytes per second of the device's memory, by its clock and width; ``None`` where torch does not say."""
    properties = torch.cuda.get_device_properties(device)
    clock_khz = getattr(properties, "memory_clock_rate", 0)
    width_bits = getattr(properties, "memory_bus_width", 0)
    return 2.0 * clock_khz * 1e3 * width_bits / 8 if clock_khz and width_bits else None


def _copies(value: Any) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors_of(value)]


def _equal(before: list[torch.Tensor], after: list[torch.Tensor]) -> bool:
    return len(before) == len(after) and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
