"""How large one run of a problem is, measured without memory. For isolated workers (executes the source)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems.execution import execute, fake_mode, fake_tensors, prepare, tensors_in

__all__ = ["Budget", "Depth", "Extent", "measure"]

Depth = Literal["inputs", "model", "forward"]


@dataclass(frozen=True)
class Budget:
    """What fits the ``cpu`` device: its emulator adds a million numbers in 10 ms and multiplies 256³ in 85 ms."""

    inputs: int = 200_000
    parameters: int = 2_000_000
    activations: int = 4_000_000
    """Elements of all intermediate results together."""
    flops: int = 2_000_000_000


@dataclass(frozen=True)
class Extent:
    """Elements and operations of one forward pass; what was not measured is 0."""

    inputs: int
    parameters: int = 0
    activations: int = 0
    flops: int = 0
    ops: int = 0
    """Number of ops that were dispatched; no budget, but sizes that change it change the program's structure."""

    def over(self, budget: Budget) -> tuple[str, ...]:
        """The measures that exceed ``budget``."""
        return tuple(name for name in vars(budget) if getattr(self, name) > getattr(budget, name))

    def excess(self, budget: Budget) -> float:
        """Product of the factors by which measures exceed ``budget``; 1.0 when all fit."""
        result = 1.0
        for name in self.over(budget):
            result *= float(getattr(self, name)) / float(getattr(budget, name))
        return result


@lru_cache(maxsize=256)
def measure(source: str, depth: Depth) -> Extent:
    """The extent of ``source``, on fake tensors; remembered, since a search comes back to the same sizes.

    Args:
        source: the program.
        depth: ``inputs`` calls ``get_inputs`` only, ``model`` also builds the model, ``forward`` also runs it.

    Raises:
        ProblemError: a stage fails; or the result of ``forward`` is empty.
    """
    if depth == "inputs":
        with fake_tensors(fake_mode()):
            return Extent(_elements(execute(source).inputs()))
    prepared = prepare(source)
    inputs = _elements(prepared.inputs)
    parameters = sum(tensor.numel() for tensor in (*prepared.model.parameters(), *prepared.model.buffers()))
    if depth == "model":
        return Extent(inputs, parameters)
    counter, flops = _counters()
    with fake_tensors(prepared.mode), flops, counter:
        output = prepared.program.forward(prepared.model, prepared.inputs)
    if not all(tensor.numel() for tensor in tensors_in(output)):
        raise ProblemError("Model.forward returns a tensor without elements")
    return Extent(inputs, parameters, counter.elements, flops.get_total_flops(), counter.ops)


def _elements(inputs: list[Any]) -> int:
    counts = [tensor.numel() for tensor in tensors_in(inputs)]
    if not all(counts):
        raise ProblemError("get_inputs() returns a tensor without elements")
    return sum(counts)


def _counters() -> tuple[Any, Any]:
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Elements(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own metaclass hook
        """Adds up the elements of every op's results; views and results written in place are no new elements."""

        elements = 0
        ops = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            self.ops += 1
            if all(part.alias_info is None for part in func._schema.returns):
                self.elements += sum(tensor.numel() for tensor in tensors_in(result))
            return result

    mode: Any = Elements
    return mode(), FlopCounterMode(display=False)
