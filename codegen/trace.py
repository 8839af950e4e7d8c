"""The op graph of a reference as plain data, readable without torch.

Comes in: JSON written by ``tracing.trace_source``. Goes out: frozen records. Dtypes, devices and memory
formats are names (``float32``, ``cpu``); a tensor argument is a ``Ref`` to the node that makes it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from stitchcuda.core.errors import StitchError
from stitchcuda.core.records import Record

__all__ = ["Arg", "Named", "Node", "OutputTree", "Ref", "TensorSpec", "Trace", "TraceError", "refs_of"]

DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "complex64": 8,
    "complex128": 16,
}


class TraceError(StitchError):
    """The reference cannot be captured as an op graph; the planner then covers nothing."""


class Ref(Record):
    """A tensor argument: the name of the node that produces it."""

    node: str


class Named(Record):
    """A torch constant by kind and name; ``float`` holds ``inf``, ``-inf`` and ``nan``, which JSON lacks.

    An ``expression`` occurs only while a candidate is written: Python text in the place of a number.
    """

    kind: Literal["dtype", "device", "memory_format", "layout", "float", "expression"]
    name: str


Arg = TypeAliasType("Arg", "Ref | Named | bool | int | float | str | tuple[Arg, ...] | None")


class TensorSpec(Record):
    """Shape and layout of one tensor."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...] = ()
    contiguous: bool = True

    @property
    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def size_bytes(self) -> int:
        return self.numel * DTYPE_BYTES.get(self.dtype, 4)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Node(Record):
    """One value of the graph, in program order."""

    name: str
    kind: Literal["input", "parameter", "buffer", "constant", "op"]
    target: str = ""
    """``aten.relu.default``; for a parameter, a buffer or a constant its attribute path, for an input its argument."""
    args: tuple[Arg, ...] = ()
    kwargs: dict[str, Arg] = {}
    outputs: tuple[TensorSpec | None, ...] = ()
    multiple: bool = False
    """The op returns a tuple; its parts are taken by ``getitem`` nodes."""
    value: Arg = None
    """A constant's elements as nested tuples, when small."""
    module: str = ""
    """Path of the module that the op came from, for example ``blocks.0.norm``."""
    line: str = ""
    """The reference's source line, when it is known."""

    @property
    def spec(self) -> TensorSpec:
        """The only output of a single-valued node."""
        if self.multiple or not self.outputs or self.outputs[0] is None:
            raise ValueError(f"{self.name} has no single tensor output")
        return self.outputs[0]

    @property
    def op(self) -> str:
        """Overload packet without the namespace, for example ``relu`` or ``add_``."""
        parts = self.target.split(".")
        return parts[1] if len(parts) > 2 else self.target


class OutputTree(Record):
    """Structure of the result: a leaf, or a tuple, list or dict of results."""

    kind: Literal["leaf", "tuple", "list", "dict"]
    leaf: Arg = None
    items: tuple[OutputTree, ...] = ()
    keys: tuple[str, ...] = ()


class Trace(Record):
    """One reference at one set of sizes."""

    version: int = 1
    nodes: tuple[Node, ...] = Field(min_length=1)
    result: OutputTree
    arguments: tuple[str, ...] = ()
    """How each flat input is reached in ``forward``, for example ``x`` or ``states[0]``."""
    fixed: dict[str, Arg] = {}
    """Arguments that are no tensors, and defaults: the graph holds for these values only."""
    numbers: dict[str, int | float] = {}
    """Numeric attributes of the modules by path, for example ``attention.heads``; what follows them may say so."""
    training: bool = True
    captured_with: Literal["fake", "real"] = "fake"

    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def lines(self) -> tuple[str, ...]:
        """One line per op, for prompts and reports."""
        text = []
        for node in self.nodes:
            if node.kind != "op":
                continue
            shapes = ", ".join(str(spec) for spec in node.outputs if spec is not None)
            inputs = ", ".join(refs_of(node.args) + refs_of(tuple(node.kwargs.values())))
            where = f"  ({node.module})" if node.module else ""
            text.append(f"{node.name} = {node.target}({inputs}) -> {shapes}{where}")
        return tuple(text)


def refs_of(value: Arg) -> list[str]:
    """Names of all nodes that ``value`` mentions, in order."""
    if isinstance(value, Ref):
        return [value.node]
    if isinstance(value, tuple):
        return [name for item in value for name in refs_of(item)]
    return []
