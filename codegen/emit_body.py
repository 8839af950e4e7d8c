"""The arithmetic of a kernel: C++ statements for a list of ops, and the parameters that they need.

Comes in: ops of a group. Goes out: lines of C++ and what to pass. Names are ``v_x`` for the value of node ``x`` in
a register, ``in_x`` and ``out_x`` for its memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from stitchcuda.codegen.groups import Group
from stitchcuda.codegen.ops import HELPERS, STORAGE, c_type, expression, literal, operands, rule_of
from stitchcuda.codegen.program import Program
from stitchcuda.codegen.trace import Arg, Node, Ref
from stitchcuda.codegen.words import words

__all__ = ["TORCH_TYPES", "Body", "Kernel", "Scalar", "ScalarSource", "identifier", "indented", "working_name"]

TORCH_TYPES = {
    "float32": "at::kFloat",
    "float16": "at::kHalf",
    "bfloat16": "at::kBFloat16",
    "int64": "at::kLong",
    "int32": "at::kInt",
    "bool": "at::kBool",
}

ScalarSource = Callable[[Node, str, Arg], str | None]
"""Python expression of a scalar that depends on the problem's sizes; ``None`` when it is the same at all sizes."""


@dataclass(frozen=True)
class Scalar:
    """A number that is passed at each call because it follows the problem's sizes."""

    name: str
    kind: str
    python: str


@dataclass(frozen=True)
class Kernel:
    """One fused kernel with its host function."""

    group_id: str
    name: str
    """Its working name; equal kernels of several groups become one function."""
    comment: str
    cuda: str
    declaration: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    helpers: frozenset[str]
    states: frozenset[str] = frozenset()
    chain: bool = True


def identifier(name: str) -> str:
    """``name`` as the tail of a C++ or Python identifier."""
    return re.sub(r"\W", "_", name)


# Words that a host function uses itself, and C++ words that may occur as Python names.
_TAKEN = words(
    """
    shape rows length outer layout guard vectors kept_shape outer_shape d stride i j k at row scratch new default
    template this union register switch operator delete const float int long short double signed unsigned char auto
    and or not xor private public protected static struct using namespace typename void volatile
    """
)


def local_names(program: Program, group: Group) -> dict[str, str]:
    """Short names for a group's tensors that do not depend on where in the program it stands.

    Groups that do the same then have the same text, and share one kernel.
    """
    nodes = {node.name: node for node in program.nodes}
    names: dict[str, str] = {}
    taken = set(_TAKEN)
    for name in [*group.inputs, *group.ops]:
        node = nodes[name]
        if node.kind == "op":
            base = node.op.strip("_") if name in group.ops else "x"
        else:
            base = identifier(node.target.split(".")[-1]) if node.kind != "constant" else "constant"
        base = f"x{base}" if base[:1].isdigit() or not base else base
        short, number = base, 2
        while short in taken:
            short, number = f"{base}_{number}", number + 1
        taken.add(short)
        names[name] = short
    return names


def working_name(group: Group) -> str:
    """For example ``fused_mul_leaky_relu``."""
    kinds = [identifier(kind) for kind in group.op_kinds]
    more = f"_and_{len(kinds) - 4}_more" if len(kinds) > 4 else ""
    return "fused_" + "_".join(kinds[:4]) + more


@dataclass
class Body:
    """Writes ops as C++ statements and collects what they use."""

    program: Program
    group: Group
    scalar_source: ScalarSource
    scalars: dict[str, Scalar] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.nodes = {node.name: node for node in self.program.nodes}
        self.specs = self.program.specs()
        self.locals = local_names(self.program, self.group)

    def local(self, name: str) -> str:
        return self.locals[name]

    def helper(self, *names: str) -> None:
        self.helpers.update(name for name in names if name)

    def ctype(self, name: str) -> str:
        return c_type(self.specs[name].dtype)

    def storage(self, name: str) -> str:
        return STORAGE[self.specs[name].dtype]

    def number(self, node: Node, parameter: str, value: Arg, kind: str) -> str:
        """A scalar argument: a literal, or a kernel parameter when it follows the sizes."""
        python = self.scalar_source(node, parameter, value)
        if python is None:
            return literal(value, kind)
        name = f"s_{self.local(node.name)}_{parameter}"
        self.scalars[name] = Scalar(name, kind, python)
        return name

    def statement(self, name: str) -> str:
        """``const float v_x = …;`` for an elementwise node."""
        node = self.nodes[name]
        rule = rule_of(node)
        assert rule is not None
        self.helper(rule.helper)
        target = c_type(node.spec.dtype)
        if node.op in ("to", "_to_copy"):
            self.helper({"float16": "round_half", "bfloat16": "round_bfloat16"}.get(node.spec.dtype, ""))
        names: dict[str, tuple[str, str]] = {}
        for operand in operands(node, rule):
            if isinstance(operand.value, Ref):
                names[operand.name] = (f"v_{self.local(operand.value.node)}", self.ctype(operand.value.node))
        tensor_kinds = [kind for _, kind in names.values()]
        for operand in operands(node, rule):
            if not isinstance(operand.value, Ref):
                kind = target if rule.result != "bool" else _common(tensor_kinds, operand.value)
                names[operand.name] = (self.number(node, operand.name, operand.value, kind), kind)
        return f"const {target} v_{self.local(name)} = {expression(node, rule, names)};"

    def helper_code(self) -> dict[str, str]:
        return {name: HELPERS[name] for name in HELPERS if name in self.helpers}


def _common(kinds: list[str], value: Arg) -> str:
    """Register type in which a comparison with a constant is done."""
    if "float" in kinds or (isinstance(value, float) and not value.is_integer()) or not kinds:
        return "float"
    return "long long" if kinds[0] != "bool" else "int"


def indented(lines: list[str], depth: int) -> str:
    """Lines at ``depth`` levels of two spaces."""
    return "\n".join("  " * depth + line if line else "" for line in lines)
