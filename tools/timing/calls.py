"""The timed calls themselves, in a worker with a GPU: fresh contents, flushed L2, CUDA events.

Both sides run exactly this code, driven by the parent: which contents, at which addresses, scaled by what.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from stitchcuda.tools.checks.inputs import map_tensors, tensors_of

__all__ = ["TimedCalls"]

# The events are fetched now, before a candidate could have replaced them on torch.cuda.
_Event: Any = torch.cuda.Event
_synchronize = torch.cuda.synchronize

_FLUSH_L2_SIZES = 2.0
_COMPILE_MODES = {"compile_default": "default", "compile_reduce_overhead": "reduce-overhead"}


class TimedCalls:
    """Sets of inputs, and calls of ``model`` on copies of them."""

    def __init__(self, model: Callable[..., Any], device: torch.device) -> None:
        self._model = model
        self._device = device
        self._contents: list[list[Any]] = []
        self._slots: list[list[Any]] = []
        properties = torch.cuda.get_device_properties(device)
        l2_bytes = int(getattr(properties, "L2_cache_size", 0)) or 64 << 20
        self._flush = torch.empty(int(l2_bytes * _FLUSH_L2_SIZES), dtype=torch.uint8, device=device)
        self._reset_persisting_l2 = _persisting_l2_reset()
        self._compiled: dict[str, Callable[..., Any]] = {}
        self.last: Any = None
        """What the last timed call returned."""

    def add(self, inputs: list[Any]) -> None:
        """One more set of contents; the first also gets a second slot, so that addresses always vary."""
        self._contents.append(inputs)
        self._slots.append(map_tensors(inputs, torch.clone))

    def round(self, order: list[list[Any]], *, side: str = "eager") -> list[float]:
        """Milliseconds of each call in ``order``: ``[slot, contents, factor]``; contents × factor lie in the slot.

        Filling the slots and flushing L2 happen outside of the timed spans.

        Args:
            side: how the model is run: as it is (``eager``), with TF32 in matrix products, or compiled.
        """
        events = []
        model = self._model_of(side)
        with torch.no_grad(), _matmul_tf32(side == "eager_tf32"):
            for entry in order:
                arguments = self._filled(entry)
                self._reset_persisting_l2()
                self._flush.fill_(1)
                if side == "compile_reduce_overhead":
                    torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
                start, end = _Event(enable_timing=True), _Event(enable_timing=True)
                # No wait in between: while the flush runs the CPU gets ahead, as it does in a longer program.
                start.record()
                self.last = model(*arguments)
                end.record()
                events.append((start, end))
                _synchronize(self._device)
        return [start.elapsed_time(end) for start, end in events]

    def batch(self, calls: int) -> None:
        """``calls`` calls back to back, then a wait for the whole device; the parent's clock runs around it.

        None: what torch keeps of freed memory goes back to the driver, so that the next batch shows what it takes.
        """
        if calls == 0:
            self.last = None
            torch.cuda.empty_cache()
        with torch.no_grad():
            for i in range(calls):
                self._model(*self._slots[i % len(self._slots)])
        _synchronize(self._device)

    def contents_of(self, entry: list[Any]) -> list[Any]:
        """The inputs of one entry of an order, computed again."""
        _, contents, factor = entry
        return [
            map_tensors(item, lambda t: t * factor if t.is_floating_point() else t) for item in self._contents[contents]
        ]

    def _model_of(self, side: str) -> Callable[..., Any]:
        if side not in _COMPILE_MODES:
            return self._model
        if side not in self._compiled:
            self._compiled[side] = torch.compile(self._model, mode=_COMPILE_MODES[side], dynamic=False)
        return self._compiled[side]

    def _filled(self, entry: list[Any]) -> list[Any]:
        slot, contents, factor = entry
        for target, source in zip(tensors_of(self._slots[slot]), tensors_of(self._contents[contents]), strict=True):
            if target.is_floating_point():
                torch.mul(source, factor, out=target)
            else:
                target.copy_(source)
        return self._slots[slot]


def _persisting_l2_reset() -> Callable[[], Any]:
    """The driver's call that ends the residency of lines which a kernel has pinned in L2: a flush leaves them."""
    try:
        return ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return lambda: None


@contextmanager
def _matmul_tf32(enabled: bool) -> Iterator[None]:
    """TF32 for matrix products, the other baseline; the default settings are left alone otherwise."""
    if not enabled:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
