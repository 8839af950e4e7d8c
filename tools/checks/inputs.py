"""Fresh inputs from a secret seed, and the laws that they are drawn from (reference worker).

``get_inputs`` of the problem gives shapes, dtypes and its own law; the other laws change floating-point contents
only. Integer and boolean inputs (indices, labels, masks) keep their values, because their range has a meaning.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable
from typing import Any

import torch

__all__ = [
    "LAWS",
    "draw_inputs",
    "edit",
    "map_tensors",
    "seed_everything",
    "smaller_batch",
    "tensors_of",
    "vary",
]

LAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as_given": lambda x: x,
    "scaled_3": lambda x: x * 3,
    "negated": lambda x: -x,
    "scaled_0.01": lambda x: x * 0.01,
    "shifted": lambda x: x + 0.5,
    "sparse": lambda x: torch.where(torch.rand_like(x, dtype=torch.float32) < 0.05, x * 4, torch.zeros_like(x)),
    "integers": lambda x: torch.randint_like(x, -3, 4),
    "edge": lambda x: _edge(x),
}
_EDGE_VALUES = (0.0, -0.0, 1.0, -1.0, 1e-20, 100.0, -100.0)


def _edge(tensor: torch.Tensor) -> torch.Tensor:
    """A few values at the borders of what functions are usually approximated for."""
    chosen = torch.randint(len(_EDGE_VALUES), tensor.shape, device=tensor.device)
    edges = torch.tensor(_EDGE_VALUES, dtype=tensor.dtype, device=tensor.device)[chosen]
    result = torch.where(torch.rand_like(tensor, dtype=torch.float32) < 0.02, edges, tensor).contiguous()
    if tensor.numel() >= 4 * len(_EDGE_VALUES):
        places = torch.randperm(tensor.numel(), device=tensor.device)[: len(_EDGE_VALUES)]
        result.view(-1)[places] = torch.tensor(_EDGE_VALUES, dtype=tensor.dtype, device=tensor.device)
    return result


def edit(inputs: list[Any], fresh: list[Any]) -> list[Any]:
    """``inputs`` with the middle half of each floating tensor replaced by what ``fresh`` has there.

    Their first and last elements stay, so that a cache whose key is a handful of elements gives the old result.
    """
    news = iter(tensors_of(fresh))

    def change(tensor: torch.Tensor) -> torch.Tensor:
        new, count = next(news), tensor.numel()
        result = tensor.clone(memory_format=torch.contiguous_format)
        if tensor.is_floating_point() and new.shape == tensor.shape:
            middle = slice(count // 4, count - count // 4)
            result.view(-1)[middle] = new.reshape(-1)[middle]
        return result

    return [map_tensors(item, change) for item in inputs]


def smaller_batch(inputs: list[Any]) -> tuple[list[Any], int] | None:
    """The same with one item less in the first dimension, where all tensors agree about it; and its former size."""
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors_of(inputs)}
    if len(sizes) != 1 or (batch := sizes.pop()) < 2:
        return None
    return [map_tensors(item, lambda t: t[:-1].contiguous()) for item in inputs], batch


def seed_everything(seed: int) -> None:
    """The generators that a reference program can draw from."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)


def draw_inputs(module: types.ModuleType, seed: int, law: str, device: torch.device) -> list[Any]:
    """``get_inputs()`` under ``seed``, moved to ``device``, its floating tensors changed by ``law``."""
    seed_everything(seed)
    inputs = module.get_inputs()
    inputs = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]

    def place(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach().to(device)
        return LAWS[law](tensor) if tensor.is_floating_point() else tensor

    return [map_tensors(item, place) for item in inputs]


def vary(inputs: list[Any], seed: int, law: str) -> list[Any]:
    """New contents from old ones, on their device: shifted around, each value times its own factor in [0.9, 1.1).

    Keeps signs and zeros, and so the domain of the problem. Integers and booleans stay as they are.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.numel() == 0:
            return tensor.clone()
        generator = generators.get(tensor.device)
        if generator is None:
            generator = generators[tensor.device] = torch.Generator(tensor.device).manual_seed(seed)
        offset = int(torch.randint(tensor.numel(), (1,), generator=generator, device=tensor.device))
        factors = torch.rand(tensor.shape, generator=generator, device=tensor.device).mul_(0.2).add_(0.9)
        return LAWS[law](tensor.reshape(-1).roll(offset).reshape(tensor.shape) * factors.to(tensor.dtype))

    return [map_tensors(item, change) for item in inputs]


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """``value`` with ``change`` applied to every tensor in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, change) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Every tensor in a nested value, in order."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    map_tensors(value, note)
    return found
