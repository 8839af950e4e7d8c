"""Capture a reference as an op graph. Imports torch and executes the reference: run it in an isolated worker.

Comes in: the source of a KernelBench-format problem. Goes out: the JSON of a ``Trace``. Model and inputs are
built as fake tensors first, so that full-size problems need no memory; a model that looks at values while it
is built is captured with real tensors on the CPU.
"""

from __future__ import annotations

import inspect
import operator
import types
import warnings
from math import isfinite
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from stitchcuda.codegen.trace import Arg, Named, Node, OutputTree, Ref, TensorSpec, Trace, TraceError
from stitchcuda.core.errors import one_line

__all__ = ["trace_source"]

CONSTANT_LIMIT_ELEMENTS = 4096


def trace_source(source: str) -> dict[str, Any]:
    """Trace the problem in the mode (train or eval) that it is built in.

    Raises:
        TraceError: one line that says what stopped the capture.
    """
    try:
        return _trace(source, fake=True).model_dump(mode="json")
    except Exception as fake_error:  # noqa: BLE001 - the reference's own code runs in here and may raise anything
        try:
            return _trace(source, fake=False).model_dump(mode="json")
        except Exception as error:
            # Both attempts usually fail alike; the real one speaks of the user's own code.
            message = one_line(error, 300) or one_line(fake_error, 300)
            raise TraceError(f"the reference cannot be captured: {type(error).__name__}: {message}") from error


def _trace(source: str, *, fake: bool) -> Trace:
    module = types.ModuleType("reference")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, "reference.py", "exec"), module.__dict__)
        torch.manual_seed(0)
        mode: Any = FakeTensorMode(allow_non_fake_inputs=True) if fake else torch.no_grad()
        with mode:
            init = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
            positional, named = _init_arguments(init)
            model = module.Model(*positional, **named)
            inputs = tuple(module.get_inputs())
        with torch.no_grad():
            program = torch.export.export(model, inputs, strict=False)
    return _Reader(model, inputs, program, source).read(fake)


def _init_arguments(init: Any) -> tuple[list[Any], dict[str, Any]]:
    """KernelBench allows a list of arguments, or a list and a dict of keyword arguments."""
    if isinstance(init, dict):
        return [], dict(init)
    if len(init) == 2 and isinstance(init[0], list | tuple) and isinstance(init[1], dict):
        return list(init[0]), dict(init[1])
    return list(init), {}


class _Reader:
    """Turns an exported program into records."""

    def __init__(self, model: torch.nn.Module, inputs: tuple[Any, ...], program: Any, source: str) -> None:
        self.model = model
        self.inputs = inputs
        self.program = program
        self.source_lines = source.splitlines()
        self.renamed: dict[str, str] = {}

    def read(self, fake: bool) -> Trace:
        signature = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        arguments = self._argument_names()
        nodes: list[Node] = []
        user_inputs = 0
        fixed = self._defaults()
        result: OutputTree | None = None
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                spec = signature[node.name]
                if spec.kind is InputKind.USER_INPUT:
                    if isinstance(spec.arg, ConstantArgument):
                        fixed[arguments[user_inputs]] = _argument(spec.arg.value)
                    else:
                        nodes.append(_leaf(node, "input", arguments[user_inputs]))
                    user_inputs += 1
                else:
                    nodes.append(self._state(node, spec))
            elif node.op == "call_function":
                nodes.append(self._op(node))
            elif node.op == "output":
                leaves = [_argument(leaf) for leaf in node.args[0]]
                mutated = len(leaves) - self.program.call_spec.out_spec.num_leaves
                tree = pytree.tree_unflatten(leaves[mutated:], self.program.call_spec.out_spec)
                result = _result(tree)
            else:
                raise TraceError(f"the graph has a node of kind {node.op!r} ({node.name})")
        assert result is not None
        return Trace(
            nodes=tuple(nodes),
            result=result,
            arguments=tuple(arguments),
            fixed=fixed,
            numbers=_numbers(self.model),
            training=self.model.training,
            captured_with="fake" if fake else "real",
        )

    def _defaults(self) -> dict[str, Arg]:
        """Plain default values of arguments that the problem does not pass."""
        parameters = list(inspect.signature(self.model.forward).parameters.values())
        return {
            item.name: _argument(item.default)
            for item in parameters[len(self.inputs) :]
            if item.default is None or isinstance(item.default, bool | int | float | str)
        }

    def _argument_names(self) -> list[str]:
        """``x``, ``states[0]``, ``options['mask']`` for the flat inputs in order."""
        names: list[str] = []
        for parameter in inspect.signature(self.model.forward).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}[{index}]" for index in range(len(self.inputs) - len(names))]
            else:
                names.append(parameter.name)
        flat: list[str] = []
        for name, value in zip(names, self.inputs, strict=False):
            for path, _ in pytree.tree_flatten_with_path(value)[0]:
                flat.append(name + pytree.keystr(path))
        return flat

    def _state(self, node: Any, spec: Any) -> Node:
        if spec.kind is InputKind.PARAMETER:
            return _leaf(node, "parameter", spec.target)
        if spec.kind is InputKind.BUFFER:
            return _leaf(node, "buffer", spec.target)
        if spec.kind is not InputKind.CONSTANT_TENSOR:
            raise TraceError(f"the reference holds a {spec.kind.name.lower()} that cannot be rebuilt")
        found = self.model
        for part in spec.target.split("."):
            found = getattr(found, part, None)  # type: ignore[assignment]
        if isinstance(found, torch.Tensor):
            return _leaf(node, "buffer", spec.target)
        value = self.program.constants[spec.target]
        if value.numel() > CONSTANT_LIMIT_ELEMENTS or hasattr(value, "fake_mode"):
            raise TraceError(f"a tensor of {value.numel()} elements is built inside forward from Python values")
        return _leaf(node, "constant", spec.target).model_copy(update={"value": _argument(value.tolist())})

    def _op(self, node: Any) -> Node:
        if node.target is operator.getitem:
            target = "getitem"
        elif isinstance(node.target, torch._ops.OpOverload):
            target = str(node.target)
        else:
            raise TraceError(f"forward uses {node.target}, which is no plain tensor operation")
        value = node.meta.get("val")
        multiple = isinstance(value, list | tuple)
        parts = list(value) if multiple else [value]
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        return Node(
            name=node.name,
            kind="op",
            target=target,
            args=tuple(_argument(item) for item in node.args),
            kwargs={key: _argument(item) for key, item in node.kwargs.items()},
            outputs=tuple(_spec(part) if isinstance(part, torch.Tensor) else None for part in parts),
            multiple=multiple,
            module=str(stack[-1][0]) if stack else "",
            line=self._source_line(node.meta.get("stack_trace") or ""),
        )

    def _source_line(self, stack_trace: str) -> str:
        """The last line of the reference itself in a stack trace."""
        for text in reversed(stack_trace.splitlines()):
            if '"reference.py", line ' in text:
                number = int(text.split(", line ")[1].split(",")[0])
                if number <= len(self.source_lines):
                    return self.source_lines[number - 1].strip()[:160]
        return ""


def _numbers(model: torch.nn.Module) -> dict[str, int | float]:
    """Public attributes that are plain numbers, such as ``heads``."""
    found: dict[str, int | float] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if not name.startswith("_") and (type(value) is int or (type(value) is float and isfinite(value))):
                found[f"{path}.{name}" if path else name] = value
    return found


def _leaf(node: Any, kind: Any, target: str) -> Node:
    return Node(name=node.name, kind=kind, target=target, outputs=(_spec(node.meta["val"]),))


def _spec(tensor: torch.Tensor) -> TensorSpec:
    if tensor.layout is not torch.strided:
        raise TraceError(f"the graph has a tensor of layout {tensor.layout}")
    return TensorSpec(
        shape=tuple(int(size) for size in tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        stride=tuple(int(step) for step in tensor.stride()),
        contiguous=tensor.is_contiguous(),
    )


def _argument(value: Any) -> Arg:
    if isinstance(value, torch.fx.Node):
        return Ref(node=value.name)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        finite = value == value and value not in (float("inf"), float("-inf"))
        return value if finite else Named(kind="float", name=str(value))
    if isinstance(value, list | tuple):
        return tuple(_argument(item) for item in value)
    for kind, types_ in (
        ("dtype", torch.dtype),
        ("device", torch.device),
        ("memory_format", torch.memory_format),
        ("layout", torch.layout),
    ):
        if isinstance(value, types_):
            return Named(kind=kind, name=str(value).removeprefix("torch."))
    raise TraceError(f"an operation has an argument of type {type(value).__name__}")


def _result(value: Any) -> OutputTree:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TraceError("the result is a dict whose keys are not strings")
        return OutputTree(kind="dict", keys=tuple(value), items=tuple(_result(item) for item in value.values()))
    if type(value) is list:
        return OutputTree(kind="list", items=tuple(_result(item) for item in value))
    if type(value) is tuple:
        return OutputTree(kind="tuple", items=tuple(_result(item) for item in value))
    if isinstance(value, Ref | Named | bool | int | float | str) or value is None:
        return OutputTree(kind="leaf", leaf=value)
    raise TraceError(f"the result is a {type(value).__name__}")
