"""Which operators PyTorch's dispatcher ran during a call, from Python and from C++, in every thread (workers).

Torch's execution-trace observer is registered for the whole process, so calls of ``at::`` functions inside an
extension and calls from other threads are seen as well. Goes out: the outermost operators that compute, as
``[name, elements]`` with the elements that they read and write; what they consist of is left out, views and copies
too (``op_kinds.py``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ExecutionTraceObserver

from stitchcuda.tools.checks.op_kinds import LOG_OFF, kind_of

__all__ = ["HostReads", "log_operators", "operators"]

_MOST = 2000
# Operators of other libraries than aten; a candidate's own ``TORCH_LIBRARY`` names are its own work.
_FOREIGN = ("mkldnn::", "onednn::", "quantized::", "torchvision::", "fbgemm::", "prims::", "inductor::")
_PROBE = "aten::erfinv"


class HostReads:
    """Counts the elements that leave PyTorch for the host's own arithmetic (numpy, lists) while ``active``."""

    def __init__(self) -> None:
        self.active = False
        self.elements = 0
        for name in ("numpy", "__array__", "tolist", "__dlpack__"):
            setattr(torch.Tensor, name, self._counting(getattr(torch.Tensor, name)))

    def _counting(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if self.active:
                self.elements += tensor.numel()
            return read(tensor, *args, **kwargs)

        counted.__name__ = read.__name__
        return counted

    def during(self, function: Callable[[], Any]) -> Any:
        self.active, self.elements = True, 0
        try:
            return function()
        finally:
            self.active = False


def log_operators(function: Callable[[], Any], folder: Path) -> tuple[Any, list[list[Any]]]:
    """The function's result, and ``[name, elements]`` of each operator that it had PyTorch compute."""
    path = folder / "operators.json"
    observer = ExecutionTraceObserver()
    with _quiet():
        observer.register_callback(str(path))
        observer.start()
    try:
        result = function()
        torch.erfinv(torch.zeros(1))  # a candidate that has switched the log off has switched this off, too
    finally:
        with _quiet():
            observer.stop()
            observer.unregister_callback()
    nodes = json.loads(path.read_text(encoding="utf-8", errors="replace"))["nodes"]
    path.unlink()
    found = operators(nodes)
    probes = [entry for entry in found if entry[0] == _PROBE]
    found = [entry for entry in found if entry[0] != _PROBE or entry is not probes[-1]]
    return result, found[:_MOST] if probes else [[LOG_OFF, 1]]


def operators(nodes: list[dict[str, Any]]) -> list[list[Any]]:
    """The outermost computing operators of a trace, in the order in which they began."""
    children: dict[int, list[dict[str, Any]]] = {}
    for node in nodes:
        children.setdefault(int(node["ctrl_deps"]), []).append(node)
    found: list[list[Any]] = []

    def visit(node: dict[str, Any]) -> bool:
        """Whether the node computed anything."""
        name = str(node["name"])
        kind = kind_of(name)
        below = children.get(int(node["id"]), [])
        if kind == "glue":
            return False
        if kind == "library":
            found.append([name, _elements(node)])
            return True
        inside = False
        for child in sorted(below, key=lambda n: int(n["id"])):
            if int(child["id"]) != int(node["id"]):
                inside = visit(child) or inside
        # An operator such as ``aten::add`` may prepare a scalar by glue and still compute itself.
        if inside or not name.startswith(("aten::", *_FOREIGN)):
            return inside
        found.append([name, _elements(node)])
        return True

    known = {int(node["id"]) for node in nodes}
    for node in sorted(nodes, key=lambda n: int(n["id"])):
        if int(node["ctrl_deps"]) not in known or int(node["ctrl_deps"]) == int(node["id"]):
            visit(node)
    return found


def _elements(node: dict[str, Any]) -> int:
    return sum(_count(shape) for side in ("inputs", "outputs") for shape in node.get(side, {}).get("shapes", []))


def _count(shape: Any) -> int:
    if not isinstance(shape, list):
        return 0
    if shape and isinstance(shape[0], list):
        return sum(_count(inner) for inner in shape)
    total = 1 if shape else 0
    for size in shape:
        total *= size if isinstance(size, int) else 1
    return total


@contextmanager
def _quiet() -> Iterator[None]:
    """The observer announces itself on the standard error, where a candidate's own last words belong."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
