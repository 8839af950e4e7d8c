"""The timed calls themselves, in a worker with a GPU: fresh contents, flushed L2, CUDA events.

Both sides run exactly this code, driven by the parent: which contents, at which addresses, scaled by what.
"""

from __future__ import annotations

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
        self.last: Any = None
        """What the last timed call returned."""

    def add(self, inputs: list[Any]) -> None:
        """One more set of contents; the first also gets a second slot, so that addresses always vary."""
        self._contents.append(inputs)
        self._slots.append(map_tensors(inputs, torch.clone))

    def round(self, order: list[list[Any]], *, tf32: bool = False) -> list[float]:
        """Milliseconds of each call in ``order``: ``[slot, contents, factor]``; contents × factor lie in the slot.

        Filling the slots and flushing L2 happen outside of the timed spans.
        """
        events = []
        with torch.no_grad(), _matmul_tf32(tf32):
            for entry in order:
                arguments = self._filled(entry)
                self._flush.fill_(1)
                start, end = _Event(enable_timing=True), _Event(enable_timing=True)
                # No wait in between: while the flush runs the CPU gets ahead, as it does in a longer program.
                start.record()
                self.last = self._model(*arguments)
                end.record()
                events.append((start, end))
                _synchronize(self._device)
        return [start.elapsed_time(end) for start, end in events]

    def batch(self, calls: int) -> None:
        """``calls`` calls back to back, then a wait for the whole device; the parent's clock runs around it."""
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

    def _filled(self, entry: list[Any]) -> list[Any]:
        slot, contents, factor = entry
        for target, source in zip(tensors_of(self._slots[slot]), tensors_of(self._contents[contents]), strict=True):
            if target.is_floating_point():
                torch.mul(source, factor, out=target)
            else:
                target.copy_(source)
        return self._slots[slot]


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
