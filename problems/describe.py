"""What a problem is made of: inputs, arguments, parameters, buffers, output.

``describe`` executes the source, so it is run in an isolated worker. Sizes are read from fake tensors, which take no
memory; a problem that refuses those is run for real where that is safe.
"""

from __future__ import annotations

from typing import Any

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems.execution import Program, execute, fake_tensors, quiet, tensors_in

__all__ = ["describe"]

_REAL_RUN_ELEMENTS = 4_000_000
_REPR_CHARS = 200
_NOT_RUN = "not run: the program needs real values, and its inputs or parameters are large"


def describe(source: str) -> dict[str, Any]:
    """Facts about a problem as JSON-able values.

    Returns:
        ``inputs`` and ``output`` as specs (a tensor is ``{"kind": "tensor", "shape", "dtype", "stride", "bytes"}``,
        a container has ``items``, anything else its ``repr``), ``init_inputs`` as a list of ``repr``,
        ``parameter_count``, ``parameter_bytes``, ``parameters`` and ``buffers`` as ``{"name", "shape", "dtype"}``,
        ``training``, ``input_elements``, ``input_bytes``, ``output_note`` (why ``output`` is ``None``).

    Raises:
        ProblemError: one line that names the stage, the exception and the line of the source.
    """
    try:
        with fake_tensors():
            facts, program, model, inputs = _facts(execute(source))
            try:
                facts["output"] = _spec(program.forward(model, inputs))
            except ProblemError as error:
                failure = error
            else:
                return facts
    except ProblemError:
        # Fake tensors refuse some honest programs (numpy, values that steer Python). The real run has the last word.
        with quiet():
            facts, program, model, inputs = _facts(execute(source))
            if facts["input_elements"] > _REAL_RUN_ELEMENTS:
                return facts | {"output_note": _NOT_RUN}
            return facts | {"output": _spec(program.forward(model, inputs))}

    size = max(facts["input_elements"], facts["parameter_count"] // 16)
    if size > _REAL_RUN_ELEMENTS:
        if _needs_values(failure):
            return facts | {"output_note": _NOT_RUN}
        raise failure
    with quiet():
        program = execute(source)
        return facts | {"output": _spec(program.forward(program.model(program.init_inputs()), program.inputs()))}


def _needs_values(error: ProblemError) -> bool:
    """Whether the program failed only because a fake tensor has no values."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
    )

    kinds = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)
    return isinstance(error.__cause__, kinds)


def _facts(program: Program) -> tuple[dict[str, Any], Program, Any, list[Any]]:
    arguments = program.init_inputs()
    inputs = program.inputs()
    model = program.model(arguments)
    tensors = list(tensors_in(inputs))
    parameters = dict(model.named_parameters())
    facts: dict[str, Any] = {
        "inputs": [_spec(value) for value in inputs],
        "init_inputs": [_short(value) for value in arguments],
        "parameter_count": sum(tensor.numel() for tensor in parameters.values()),
        "parameter_bytes": sum(tensor.numel() * tensor.element_size() for tensor in parameters.values()),
        "parameters": [_named(name, tensor) for name, tensor in parameters.items()],
        "buffers": [_named(name, tensor) for name, tensor in model.named_buffers()],
        "training": bool(model.training),
        "input_elements": sum(tensor.numel() for tensor in tensors),
        "input_bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        "output": None,
        "output_note": "",
    }
    return facts, program, model, inputs


def _named(name: str, tensor: Any) -> dict[str, Any]:
    return {"name": name, "shape": list(tensor.shape), "dtype": _dtype(tensor)}


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _short(value: Any) -> str:
    text = next((f"tensor({list(t.shape)}, {_dtype(t)})" for t in tensors_in([value]) if t is value), None) or repr(
        value
    )
    return text if len(text) <= _REPR_CHARS else text[: _REPR_CHARS - 1] + "…"


def _spec(value: Any) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return {
            "kind": "tensor",
            "shape": list(value.shape),
            "dtype": _dtype(value),
            "stride": list(value.stride()) if value.layout == torch.strided else None,
            "bytes": value.numel() * value.element_size(),
        }
    if isinstance(value, dict):
        return {"kind": "dict", "items": {str(key): _spec(item) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {"kind": "tuple" if isinstance(value, tuple) else "list", "items": [_spec(item) for item in value]}
    return {"kind": type(value).__name__, "repr": _short(value)}
