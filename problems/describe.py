"""What a problem is made of: inputs, arguments, parameters, buffers, output.

``describe`` executes the source, so it is run in an isolated worker. Sizes are read from fake tensors, which take no
memory; a problem that refuses those is run for real where that is safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems.execution import execute, needs_values, prepare, quiet, tensors_in

if TYPE_CHECKING:
    import torch

__all__ = ["describe"]

_REAL_RUN_INPUTS = 4_000_000
_REAL_RUN_PARAMETERS = 64_000_000
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
        prepared = prepare(source)
    except ProblemError:
        # Fake tensors refuse some honest programs (numpy, for one). The real run has the last word.
        return _describe_for_real(source)
    facts = _facts(prepared.arguments, prepared.model, prepared.inputs)
    try:
        return facts | {"output": _spec(prepared.forward())}
    except ProblemError as error:
        if _is_small(facts):
            return _describe_for_real(source)
        if needs_values(error):
            return facts | {"output_note": _NOT_RUN}
        raise


def _describe_for_real(source: str) -> dict[str, Any]:
    with quiet():
        program = execute(source)
        arguments, inputs = program.init_inputs(), program.inputs()
        model = program.model(arguments)
        facts = _facts(arguments, model, inputs)
        if not _is_small(facts):
            return facts | {"output_note": _NOT_RUN}
        return facts | {"output": _spec(program.forward(model, inputs))}


def _is_small(facts: dict[str, Any]) -> bool:
    return bool(facts["input_elements"] <= _REAL_RUN_INPUTS and facts["parameter_count"] <= _REAL_RUN_PARAMETERS)


def _facts(arguments: list[Any], model: torch.nn.Module, inputs: list[Any]) -> dict[str, Any]:
    tensors = list(tensors_in(inputs))
    parameters = dict(model.named_parameters())
    return {
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
