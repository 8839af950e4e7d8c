"""What the driver says about a GPU: clocks, throttling, memory. In the parent, through NVML; no CUDA context, no torch.

NVML sees the whole device: memory that a candidate took by ``cudaMalloc``, which torch's statistics do not, and the
load of other processes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["PeakMemory", "read_clocks", "used_and_total_bytes", "visible_device"]

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_TEMPERATURE_GPU = 0
_THROTTLE = {
    1 << 2: "power cap",
    1 << 3: "hardware slowdown",
    1 << 5: "software thermal slowdown",
    1 << 6: "hardware thermal slowdown",
    1 << 7: "hardware power brake",
}
_SAMPLE_S = 0.002


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def visible_device(device: str, visible: str | None) -> str:
    """NVML's name (an index or a UUID) of ``cuda:N`` under ``CUDA_VISIBLE_DEVICES``."""
    number = int(device.partition(":")[2] or 0)
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    return names[number] if number < len(names) else str(number)


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


@functools.cache
def _handle(device: str) -> ctypes.c_void_p | None:
    library, handle = _library(), ctypes.c_void_p()
    if library is None or not device.startswith("cuda"):
        return None
    name = visible_device(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if name.isdigit():
        code = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(handle))
    else:
        code = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    return handle if code == 0 else None


def used_and_total_bytes(device: str) -> tuple[int, int] | None:
    """Memory of the whole device; ``None`` where the driver does not say."""
    if (handle := _handle(device)) is None:
        return None
    memory = _Memory()
    if _library().nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
        return None
    return int(memory.used), int(memory.total)


def read_clocks(device: str) -> dict[str, str]:
    """``sm_mhz``, ``memory_mhz``, ``temperature_c``, ``power_w``, ``throttled``, as far as the driver says."""
    if (handle := _handle(device)) is None:
        return {}
    library, found = _library(), {}
    value = ctypes.c_uint()
    for name, kind in (("sm_mhz", _SM_CLOCK), ("memory_mhz", _MEMORY_CLOCK)):
        if library.nvmlDeviceGetClockInfo(handle, ctypes.c_int(kind), ctypes.byref(value)) == 0:
            found[name] = str(value.value)
    if library.nvmlDeviceGetTemperature(handle, ctypes.c_int(_TEMPERATURE_GPU), ctypes.byref(value)) == 0:
        found["temperature_c"] = str(value.value)
    if library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(value)) == 0:
        found["power_w"] = f"{value.value / 1000:.0f}"
    reasons = ctypes.c_ulonglong()
    if library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)) == 0:
        found["throttled"] = throttle_names(int(reasons.value))
    return found


def throttle_names(reasons: int) -> str:
    """The reasons that slow a busy GPU down, in words; empty when there is none."""
    return ", ".join(name for bit, name in _THROTTLE.items() if reasons & bit)


class PeakMemory:
    """The most memory that ``read`` saw while the block ran, over what it saw at its start.

    Sampled, because the driver keeps no maximum for the device: an allocation that lives for less than some
    milliseconds may be missed.
    """

    def __init__(self, read: Callable[[], int | None], sample_s: float = _SAMPLE_S) -> None:
        self._read = read
        self._sample_s = sample_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True, name="peak-memory")
        self.extra_bytes: int | None = None

    def __enter__(self) -> Self:
        self._start = self._read()
        if self._start is not None:
            self.extra_bytes = 0
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._start is not None:
            self._thread.join()

    def _sample(self) -> None:
        while True:
            last = self._stop.is_set()
            if (now := self._read()) is not None and self._start is not None and self.extra_bytes is not None:
                self.extra_bytes = max(self.extra_bytes, now - self._start)
            if last:
                return
            self._stop.wait(self._sample_s)
