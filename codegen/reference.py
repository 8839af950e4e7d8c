"""The reference's own text, carried over into the candidate.

Comes in: the problem's source. Goes out: the same text with ``Model`` renamed to ``ModelNew`` and its ``forward``
replaced; the problem's input functions and main guard are left out. Nothing is executed; ``__init__``, helper
classes, constants and comments stay as they are.
"""

from __future__ import annotations

import ast

from stitchcuda.codegen.trace import TraceError

__all__ = ["forward_signature", "with_new_forward"]

OWN_IMPORTS = frozenset({"import torch", "import torch.nn as nn", "import torch.nn.functional as F"})
"""The candidate has these at its top already."""
DROPPED_FUNCTIONS = frozenset({"get_inputs", "get_init_inputs"})


def forward_signature(source: str) -> str:
    """The argument list of ``Model.forward`` and its return annotation, for example ``(self, x)``."""
    _, forward = _find(source)
    if forward is None:
        raise TraceError("Model has no forward of its own")
    returns = f" -> {ast.unparse(forward.returns)}" if forward.returns is not None else ""
    return f"({ast.unparse(forward.args)}){returns}"


def with_new_forward(source: str, body: list[str]) -> str:
    """The reference with a new class ``ModelNew`` in the place of ``Model``.

    Args:
        body: lines of the new ``forward``, without indentation.
    """
    model, forward = _find(source)
    assert forward is not None
    lines = source.splitlines()
    for name in _names_in(model):
        line = lines[name.lineno - 1].encode()
        head, tail = line[: name.col_offset], line[name.col_offset + len("Model") :]
        # Later columns on the same line move: names are visited from right to left.
        lines[name.lineno - 1] = (head + b"ModelNew" + tail).decode()
    lines[model.lineno - 1] = lines[model.lineno - 1].replace("class Model", "class ModelNew", 1)
    indent = " " * forward.col_offset
    new = [f"{indent}def forward{forward_signature(source)}:"] + [
        f"{indent}    {line}" if line else "" for line in body
    ]
    cuts: list[tuple[int, int, list[str]]] = [(_first(forward), forward.end_lineno or forward.lineno, new)]
    for node in ast.parse(source).body:
        if _is_dropped(node):
            cuts.append((_first(node), node.end_lineno or node.lineno, []))
    for first, last, text in sorted(cuts, reverse=True):
        lines[first - 1 : last] = text
    return _tidy(lines)


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *[item.lineno for item in decorators]])


def _find(source: str) -> tuple[ast.ClassDef, ast.FunctionDef | None]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            functions = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "forward"]
            return node, functions[-1] if functions else None
    raise TraceError("the problem has no class Model")


def _names_in(model: ast.ClassDef) -> list[ast.Name]:
    names = [node for node in ast.walk(model) if isinstance(node, ast.Name) and node.id == "Model"]
    return sorted(names, key=lambda node: (node.lineno, node.col_offset), reverse=True)


def _is_dropped(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name in DROPPED_FUNCTIONS
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if isinstance(node, ast.Import):
        return ast.unparse(node) in OWN_IMPORTS
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "REDUCED" for target in node.targets)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
        return isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__"
    return False


def _tidy(lines: list[str]) -> str:
    """At most two empty lines in a row, one newline at the end."""
    kept: list[str] = []
    for line in lines:
        if line.strip() or kept[-2:] != ["", ""]:
            kept.append(line.rstrip())
    return "\n".join(kept).strip("\n") + "\n"
