"""Worker side: which Python values fit the codes of a bound function's signature.

The codes are those of ``include/stitch_torch/binding.h``; the rules follow pybind11's, so that a candidate behaves
the same when it is built plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["NAMES", "Mismatch", "checked"]

NAMES = {
    "T": "Tensor", "O": "Tensor | None", "L": "list[Tensor]", "i": "int", "d": "float", "b": "bool", "s": "str",
    "I": "int | None", "D": "float | None", "B": "bool | None", "v": "list[int]", "w": "list[float]", "h": "dtype",
    "S": "Number",
}  # fmt: skip
_DTYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
    torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15,
}  # fmt: skip


class Mismatch(TypeError):
    """The arguments do not fit this signature; another overload may."""


def checked(codes: str, names: Sequence[str], values: Sequence[Any]) -> list[Any]:
    """The values in the form that crosses to C, one per code.

    Raises:
        Mismatch: a value does not fit.
    """
    result = []
    for index, (code, value) in enumerate(zip(codes, values, strict=True)):
        try:
            result.append(_CHECKS[code](value))
        except _Unfit:
            raise Mismatch(
                f"argument {index + 1} ({names[index]}) is {type(value).__name__}, expected {NAMES[code]}"
            ) from None
    return result


class _Unfit(Exception):
    pass


def _tensor(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        raise _Unfit
    return value


def _tensors(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, torch.Tensor) for item in value):
        raise _Unfit
    return list(value)


def _integer(value: Any) -> int:
    if isinstance(value, (float, torch.Tensor)) or not hasattr(value, "__index__"):
        raise _Unfit
    number = int(value.__index__())
    if not -(2**63) <= number < 2**63:
        raise _Unfit
    return number


def _real(value: Any) -> float:
    if not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise _Unfit
    return float(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, torch.Tensor) or not hasattr(value, "__bool__"):
        raise _Unfit
    return bool(value)


def _text(value: Any) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise _Unfit
    return value.encode() if isinstance(value, str) else value


def _dtype(value: Any) -> int:
    if not isinstance(value, torch.dtype) or value not in _DTYPES:
        raise _Unfit
    return _DTYPES[value]


def _number(value: Any) -> bool | int | float:
    """A plain number; a tensor of one element counts as its number, as it does for torch."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, (bool, float)):
        return value
    return _integer(value)


def _many(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def inner(value: Any) -> Any:
        if isinstance(value, (str, bytes, torch.Tensor)) or not hasattr(value, "__iter__"):
            raise _Unfit
        return [check(item) for item in value]

    return inner


def _maybe(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def inner(value: Any) -> Any:
        return None if value is None else check(value)

    return inner


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "T": _tensor,
    "O": _maybe(_tensor),
    "L": _tensors,
    "i": _integer,
    "d": _real,
    "b": _boolean,
    "s": _text,
    "h": _dtype,
    "I": _maybe(_integer),
    "D": _maybe(_real),
    "B": _maybe(_boolean),
    "v": _many(_integer),
    "w": _many(_real),
    "S": _number,
}
