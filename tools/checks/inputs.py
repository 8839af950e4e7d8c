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

__all__ = ["LAWS", "draw_inputs", "map_tensors", "seed_everything", "tensors_of", "vary"]

LAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as_given": lambda x: x,
    "scaled_3": lambda x: x * 3,
    "negated": lambda x: -x,
    "scaled_0.01": lambda x: x * 0.01,
    "shifted": lambda x: x + 0.5,
}


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
