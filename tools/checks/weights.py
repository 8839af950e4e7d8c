"""Parameters and buffers: what a module has, how two modules correspond, new values for both.

``describe_state`` and ``randomise`` run in workers; ``match_state`` is pure and runs in the parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

__all__ = ["Slot", "Transfer", "describe_state", "floating_buffers", "match_state", "randomise", "slots"]


@dataclass(frozen=True)
class Slot:
    """A named parameter or buffer."""

    name: str
    kind: Literal["parameter", "buffer"]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Transfer:
    """How the reference's values reach the candidate."""

    how: Literal["by_name", "by_order", "same_seed", "none"]
    names: dict[str, str]
    """Reference name to candidate name; empty when both only share the construction seed."""


def match_state(reference: list[Slot], candidate: list[Slot]) -> Transfer:
    """By name when every parameter of the reference is there in the same shape (the candidate may have more);
    else by order when the parameters' shapes agree one by one; else the common construction seed has to do.
    """
    there = {slot.name: slot for slot in candidate}
    same = {s.name: s.name for s in reference if s.name in there and there[s.name].shape == s.shape}
    parameters = [slot for slot in reference if slot.kind == "parameter"]
    theirs = [slot for slot in candidate if slot.kind == "parameter"]
    if all(slot.name in same for slot in parameters):
        return Transfer("by_name" if same else "none", same)
    if [slot.shape for slot in parameters] == [slot.shape for slot in theirs]:
        names = {ours.name: other.name for ours, other in zip(parameters, theirs, strict=True)}
        return Transfer("by_order", names)
    return Transfer("same_seed", {})


def slots(described: list[list[Any]]) -> list[Slot]:
    """From the JSON of ``describe_state``; raises ``ValueError`` when it is something else."""
    try:
        return [Slot(str(name), kind, tuple(int(size) for size in shape)) for name, kind, shape in described]
    except (TypeError, ValueError) as error:
        raise ValueError(f"malformed list of parameters: {error}") from error


def describe_state(model: torch.nn.Module) -> list[list[Any]]:
    """``[name, kind, shape]`` of every parameter and buffer (also those that are not saved)."""
    return [
        [name, kind, list(tensor.shape)]
        for kind, named in (
            ("parameter", model.named_parameters(remove_duplicate=False)),
            ("buffer", model.named_buffers(remove_duplicate=False)),
        )
        for name, tensor in named
    ]


def floating_buffers(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The buffers that a forward pass may change and that carry meaning: running statistics and the like.

    Counters (integers) are left out: skipping ``num_batches_tracked`` changes no result of the default momentum.
    """
    return {name: buffer for name, buffer in model.named_buffers() if buffer.is_floating_point()}


def randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    """New values, in place, for all floating parameters and running statistics.

    Spread and mean of each tensor stay (so activations keep their size); constants such as a zero bias or a unit
    gamma get a spread of 0.2. ``running_var`` is drawn from [0.5, 1.5). Other buffers keep their values: masks,
    position tables and the like are part of the program's meaning, and a kernel may rely on them.
    """
    import torch

    with torch.no_grad():
        for _, parameter in model.named_parameters():
            if not parameter.is_floating_point() or parameter.numel() == 0:
                continue
            values = parameter.float()
            spread = float(values.std()) if parameter.numel() > 1 else 0.0
            mean = float(values.mean())
            if not spread > 1e-6:
                spread = 0.2 * max(1.0, abs(mean))
            noise = torch.randn(parameter.shape, generator=generator).to(parameter.device)
            parameter.copy_((noise * spread + mean).to(parameter.dtype))
        for name, buffer in model.named_buffers():
            if not buffer.is_floating_point():
                continue
            leaf = name.rpartition(".")[2]
            if leaf == "running_var":
                buffer.copy_((torch.rand(buffer.shape, generator=generator) + 0.5).to(buffer.device))
            elif leaf == "running_mean":
                buffer.copy_((torch.randn(buffer.shape, generator=generator) * 0.2).to(buffer.device))
