"""Counting launches of kernels that come from the candidate's own extensions (candidate worker).

On ``cpu`` every built module counts its launches itself (``stitch_launch_count``). On a GPU ``torch.profiler`` names
the kernels that ran, and they are matched with the names that the compiler reported for the built modules.
First version: counted in the candidate's own process, so code written against *this* counter can forge it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch._C._autograd import DeviceType

from stitchcuda.tools.checks.kernel_names import count_own, kernel_base_name

__all__ = ["LaunchCounter"]


class LaunchCounter:
    """Counts own launches during one function call."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._paths: list[str] = []
        self._names: set[str] = set()

    def note_build(self, build: dict[str, Any]) -> None:
        """A built extension is about to be loaded."""
        if build.get("path") and build["path"] not in self._paths:
            self._paths.append(build["path"])
        self._names |= {kernel_base_name(name) for name in build.get("registers") or {}}

    def during(self, function: Callable[[], Any]) -> tuple[Any, int]:
        """The function's result, and the number of own launches in it."""
        if self._device.type != "cuda":
            before = self._count()
            result = function()
            return result, self._count() - before
        if not self._names:
            return function(), 0
        # CPU activities as well: without them some versions drop kernels launched through raw CUDA calls.
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profiler:
            result = function()
            torch.cuda.synchronize(self._device)
        ran = (e.name for e in profiler.events() if e.device_type == DeviceType.CUDA)
        return result, count_own(ran, self._names)

    def take_error(self) -> str | None:
        """On ``cpu``: a failed launch that the candidate's host code did not ask about (a GPU would carry it on)."""
        for path in self._paths if self._device.type == "cpu" else ():
            take = getattr(ctypes.CDLL(path), "stitch_take_error", None)
            if take is not None:
                take.restype = ctypes.c_char_p
                text = take()
                if text is not None:
                    return str(text.decode(errors="replace"))
        return None

    def _count(self) -> int:
        total = 0
        for path in self._paths:
            counter = getattr(ctypes.CDLL(path), "stitch_launch_count", None)
            if counter is not None:
                counter.restype = ctypes.c_ulonglong
                total += int(counter())
        return total
