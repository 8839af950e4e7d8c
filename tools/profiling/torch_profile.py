"""One profiled call by ``torch.profiler`` (worker side), as the JSON of a ``ProfileReport``."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch._C._autograd import DeviceType

__all__ = ["profile_call"]

_TOP_ROWS = 20
_WARM_UPS = 3


def profile_call(model: Callable[..., Any], inputs: list[Any], device: torch.device) -> dict[str, Any]:
    """Warm up, then profile one forward pass. On a GPU rows are kernels; on the CPU they are ops (self time)."""
    on_gpu = device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU]
    if on_gpu:
        activities.append(torch.profiler.ProfilerActivity.CUDA)

    def once() -> float:
        started = time.perf_counter()
        model(*inputs)
        if on_gpu:
            torch.cuda.synchronize(device)
        return (time.perf_counter() - started) * 1e3

    with torch.no_grad():
        for _ in range(_WARM_UPS if on_gpu else 1):
            total_ms = once()
        with torch.profiler.profile(activities=activities) as profiler:
            once()
    if not on_gpu:
        ops = [(event.key, event.count, event.self_cpu_time_total / 1e3) for event in profiler.key_averages()]
        return _report(ops, total_ms, None, None)
    kernels: dict[str, list[float]] = defaultdict(list)
    spans: list[tuple[float, float]] = []
    for event in profiler.events():
        if event.device_type == DeviceType.CUDA:
            kernels[event.name].append(event.time_range.elapsed_us() / 1e3)
            spans.append((event.time_range.start, event.time_range.end))
    rows = [(name, len(times), sum(times)) for name, times in kernels.items()]
    launches = sum(count for name, count, _ in rows if not name.startswith(("Memcpy", "Memset")))
    return _report(rows, total_ms, _busy_ms(spans), launches)


def _busy_ms(spans: list[tuple[float, float]]) -> float:
    """Length of the union of spans given in microseconds."""
    busy, last = 0.0, float("-inf")
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    return busy / 1e3


def _report(
    rows: list[tuple[str, int, float]], total_ms: float, busy_ms: float | None, launches: int | None
) -> dict[str, Any]:
    whole = sum(ms for _, _, ms in rows) or 1.0
    top = sorted(rows, key=lambda row: -row[2])[:_TOP_ROWS]
    return {
        "source": "torch.profiler",
        "total_ms": total_ms,
        # The unprofiled wall clock is the denominator: tracing itself stretches the gaps.
        "device_busy": None if busy_ms is None else min(1.0, busy_ms / max(total_ms, 1e-9)),
        "launches": launches,
        "rows": [{"name": n, "calls": c, "total_ms": ms, "share": min(1.0, ms / whole)} for n, c, ms in top],
    }
