"""The golden outputs: the reference in float32 as the user would run it, and in float64 to judge accuracy.

Runs in the reference worker, on its device.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from stitchcuda.tools.checks.inputs import map_tensors, seed_everything, tensors_of

__all__ = ["Golden", "ReferenceModel"]


@dataclass
class Golden:
    """What one call of the reference gave."""

    plain: Any
    exact: Any
    """The same in float64, or ``None`` where the program cannot be run in it."""
    inputs_mutated: bool

    @property
    def all_finite(self) -> bool:
        return all(bool(torch.isfinite(t).all()) for t in tensors_of(self.plain) if t.is_floating_point())

    @property
    def output_bytes(self) -> list[int]:
        return [t.numel() * t.element_size() for t in tensors_of(self.plain)]


class ReferenceModel:
    """The model twice: as constructed, and converted to float64 with the same values."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self._exact: torch.nn.Module | None = None
        self.exact_error = ""
        try:
            self._exact = copy.deepcopy(model).double()
        except Exception as error:  # noqa: BLE001  # any foreign failure just means: no float64 golden, and it is said
            self.exact_error = f"{type(error).__name__}: {error}"

    def call(self, inputs: list[Any], noise_seed: int = 0) -> Golden:
        """One forward pass, which also moves the model's own buffers on; ``inputs`` stay as they are."""
        exact = self._call_exact(inputs)
        mine = map_tensors(inputs, torch.clone)
        seed_everything(noise_seed)
        with torch.no_grad():
            plain = self.model(*mine)
        # The model may return its input or a buffer: a later call must not change what we hold.
        mutated = any(
            not torch.equal(_bits(a), _bits(b)) for a, b in zip(tensors_of(inputs), tensors_of(mine), strict=True)
        )
        return Golden(map_tensors(plain, lambda t: t.detach().clone()), exact, mutated)

    def is_random(self, inputs: list[Any]) -> bool:
        """Whether two runs from the same state differ by more than rounding: dropout and the like."""
        before = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        results = []
        for seed in (1, 2):
            seed_everything(seed)
            with torch.no_grad():
                results.append(tensors_of(self.model(*map_tensors(inputs, torch.clone))))
            self.model.load_state_dict(before)
        for a, b in zip(*results, strict=True):
            if a.shape != b.shape:
                return True
            if a.is_floating_point() and a.numel():
                scale = float(a.double().nan_to_num(0, 0, 0).square().mean().sqrt())
                if float((a.double() - b.double()).abs().nan_to_num(0, 0, 0).max()) > 1e-2 * scale + 1e-30:
                    return True
            elif not torch.equal(a, b):
                return True
        return False

    def _call_exact(self, inputs: list[Any]) -> Any:
        if self._exact is None:
            return None
        try:
            self._exact.load_state_dict(self.model.state_dict())
            wide = map_tensors(inputs, lambda t: t.double() if t.is_floating_point() else t.clone())
            with torch.no_grad(), _default_dtype(torch.float64):
                seed_everything(0)
                return map_tensors(self._exact(*wide), lambda t: t.detach())
        except Exception as error:  # noqa: BLE001  # as above: said in the report, judged against float32 instead
            self._exact, self.exact_error = None, f"{type(error).__name__}: {error}"
            return None


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Bytes, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
