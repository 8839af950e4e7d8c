"""How large one run of a problem is, measured without memory. For isolated workers (executes the source)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems.execution import execute, fake_tensors, tensors_in

__all__ = ["Budget", "Depth", "Extent", "measure"]

Depth = Literal["inputs", "model", "forward"]
_DEPTHS: tuple[Depth, ...] = ("inputs", "model", "forward")


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

    def over(self, budget: Budget) -> tuple[str, ...]:
        """The measures that exceed ``budget``."""
        return tuple(name for name in vars(self) if getattr(self, name) > getattr(budget, name))

    def excess(self, budget: Budget) -> float:
        """Product of the factors by which measures exceed ``budget``; 1.0 when all fit."""
        result = 1.0
        for name in self.over(budget):
            result *= float(getattr(self, name)) / float(getattr(budget, name))
        return result


def measure(source: str, depth: Depth) -> Extent:
    """The extent of ``source``, on fake tensors.

    Args:
        source: the program.
        depth: ``inputs`` calls ``get_inputs`` only, ``model`` also builds the model, ``forward`` also runs it.

    Raises:
        ProblemError: a stage fails; or the result of ``forward`` is empty.
    """
    level = _DEPTHS.index(depth)
    with fake_tensors():
        program = execute(source)
        inputs = program.inputs()
        elements = sum(tensor.numel() for tensor in tensors_in(inputs))
        if elements == 0 and any(True for _ in tensors_in(inputs)):
            raise ProblemError("get_inputs() returns tensors without elements")
        if level == 0:
            return Extent(elements)
        model = program.model(program.init_inputs())
        parameters = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
        if level == 1:
            return Extent(elements, parameters)
        counter, flops = _counters()
        with flops, counter:
            output = program.forward(model, inputs)
        if not all(tensor.numel() for tensor in tensors_in(output)):
            raise ProblemError("Model.forward returns a tensor without elements")
        return Extent(elements, parameters, counter.elements, flops.get_total_flops())


def _counters() -> tuple[Any, Any]:
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Elements(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own metaclass hook
        """Adds up the elements of every op's results; views and results written in place are no new elements."""

        elements = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if all(part.alias_info is None for part in func._schema.returns):
                self.elements += sum(tensor.numel() for tensor in tensors_in(result))
            return result

    mode: Any = Elements
    return mode(), FlopCounterMode(display=False)
