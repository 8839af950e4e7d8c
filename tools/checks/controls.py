"""Control outputs: what a lazy candidate would return. On a sound problem every one of them fails (reference worker).

A control that passes on every call of a check means that this check cannot tell such a candidate from an honest one;
the problem is then ``unscorable`` for it, and the report says so.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from stitchcuda.tools.checks.compare import compare
from stitchcuda.tools.checks.golden import Golden
from stitchcuda.tools.checks.inputs import map_tensors, tensors_of

__all__ = ["LowPrecision", "describe_tree", "failing_controls"]


class LowPrecision:
    """The reference in bfloat16, made when it is first needed."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._source = model
        self._model: torch.nn.Module | None = None
        self.error = ""

    def outputs(self, inputs: list[Any]) -> Any:
        """As the float32 reference gives them, but computed in bfloat16; ``None`` where it cannot be run so."""
        if self.error:
            return None
        try:
            if self._model is None:
                self._model = copy.deepcopy(self._source)
            self._model.load_state_dict(self._source.state_dict())
            narrow = self._model.to(torch.bfloat16)
            mine = map_tensors(inputs, lambda t: t.to(torch.bfloat16) if t.is_floating_point() else t.clone())
            with torch.no_grad():
                found = narrow(*mine)
            self._model.to(torch.float32)
            return map_tensors(found, lambda t: t.float() if t.is_floating_point() else t)
        except Exception as error:  # noqa: BLE001  # any foreign failure just means that there is no such control
            self._model, self.error = None, f"{type(error).__name__}: {error}"
            return None


def failing_controls(
    names: list[str],
    golden: Golden,
    inputs: list[Any],
    first: Golden | None,
    low: LowPrecision,
    tolerances: dict[str, Any],
) -> list[str]:
    """Those of ``names`` that fail against ``golden``, or that do not apply to the problem at all."""
    failed = []
    for name in names:
        outputs = _control(name, golden.plain, inputs, first, low)
        if outputs is _LATER:
            continue
        leaves = compare(golden, describe_tree(outputs), outputs, tolerances) if outputs is not None else []
        if outputs is None or any(leaf["kind"] != "values" or leaf["mismatched"] for leaf in leaves):
            failed.append(name)
    return failed


_LATER = object()


def _control(name: str, plain: Any, inputs: list[Any], first: Golden | None, low: LowPrecision) -> Any:
    if name == "zeros":
        return map_tensors(plain, torch.zeros_like)
    if name == "constant":
        return map_tensors(plain, _constant)
    if name == "half_of_the_work":
        return map_tensors(plain, _half)
    if name == "input_itself":
        given = tensors_of(inputs)
        known = {(t.shape, t.dtype): t for t in reversed(given)}
        fits = all((t.shape, t.dtype) in known for t in tensors_of(plain))
        return map_tensors(plain, lambda t: known[t.shape, t.dtype]) if fits and given else None
    if name == "first_output":
        if not tensors_of(inputs):
            return None
        return _LATER if first is None else first.plain
    floats = [t for t in tensors_of(plain) if t.is_floating_point()]
    return low.outputs(inputs) if floats and all(t.dtype is torch.float32 for t in floats) else None


def _constant(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() < 2:
        return torch.ones_like(tensor)
    value = tensor.double().nan_to_num(0, 0, 0).mean() if tensor.is_floating_point() else tensor.reshape(-1)[0]
    return torch.full_like(tensor, value.item())


def _half(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() < 2:
        return tensor / 2 if tensor.is_floating_point() else torch.zeros_like(tensor)
    half = tensor.clone(memory_format=torch.contiguous_format)
    half.view(-1)[tensor.numel() // 2 :] = 0
    return half


def describe_tree(value: Any) -> dict[str, Any]:
    """What ``pack`` would say of ``value``, without its bytes."""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        return {"t": "tensor", "dtype": name, "shape": list(value.shape), "device": value.device.type}
    if isinstance(value, (tuple, list)):
        return {"t": "list", "items": [describe_tree(item) for item in value]}
    if isinstance(value, dict):
        return {"t": "dict", "items": [[str(key), describe_tree(item)] for key, item in value.items()]}
    return {"t": "float" if isinstance(value, float) else "scalar", "v": value}
