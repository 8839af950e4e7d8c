"""Why an op stays with PyTorch: a line per kind of op, for plans, candidates and reports."""

from __future__ import annotations

from stitchcuda.codegen.ops import is_elementwise
from stitchcuda.codegen.program import Program, is_in_place
from stitchcuda.codegen.rows import row_reduction
from stitchcuda.codegen.trace import Node, TensorSpec
from stitchcuda.codegen.words import words

__all__ = ["left_over"]

VIEWLIKE = words(
    """
    view reshape permute transpose t T numpy_T mT squeeze unsqueeze expand expand_as slice select narrow split
    split_with_sizes chunk unbind getitem flatten unflatten detach alias view_as movedim swapaxes
    """
)


def left_over(program: Program, covered: set[str]) -> tuple[str, ...]:
    """A line per op that no group in ``covered`` (node names) computes: what it is, and why it is left."""
    specs = program.specs()
    lines: dict[str, int] = {}
    for node in program.nodes:
        if node.kind != "op" or node.name in covered or node.op in VIEWLIKE:
            continue
        line = f"{node.op}: {_reason(program, node, specs)}"
        lines[line] = lines.get(line, 0) + 1
    return tuple(line if count == 1 else f"{line} ({count} times)" for line, count in lines.items())


def _reason(program: Program, node: Node, specs: dict[str, TensorSpec]) -> str:
    if node.op in ("linear", "matmul", "bmm", "mm", "addmm", "baddbmm", "einsum") or node.op.startswith("conv"):
        return "a matrix product or convolution; the library's kernel is used"
    if node.op == "scaled_dot_product_attention":
        return "attention; the library's kernel is used"
    if node.op in ("gru", "lstm", "rnn_tanh", "rnn_relu"):
        return "a recurrent layer; the library's kernel is used"
    if is_in_place(node) or node.op == "batch_norm" or node.name in program.pinned:
        return "changes memory that lives on after the call"
    if node.name in program.effects:
        return "draws random numbers"
    reduction = row_reduction(node, specs)
    if isinstance(reduction, str) and reduction != "no reduction":
        return reduction
    reason = is_elementwise(node, specs)
    return reason if reason and reason != "no elementwise form" else "no kernel template covers it"
