"""Streams, events and device properties of the ``cpu`` device: everything is finished when a call returns."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

__all__ = ["DeviceContext", "DeviceProperties", "Event", "Stream", "StreamContext"]


class Stream:
    """Stands in for ``torch.cuda.Stream``; work is always done already."""

    cuda_stream = 0
    device_index = 0
    device_type = 1
    stream_id = 0
    priority = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def synchronize(self) -> None:
        return None

    def wait_stream(self, stream: Any) -> None:
        del stream

    def wait_event(self, event: Any) -> None:
        del event

    def query(self) -> bool:
        return True

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event


class Event:
    """Stands in for ``torch.cuda.Event``: the wall clock of the moment when it was recorded."""

    cuda_event = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self._recorded_s: float | None = None

    def record(self, stream: Any = None) -> None:
        del stream
        self._recorded_s = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to ``end_event``."""
        if self._recorded_s is None or end_event._recorded_s is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._recorded_s - self._recorded_s) * 1e3

    def synchronize(self) -> None:
        return None

    def wait(self, stream: Any = None) -> None:
        del stream

    def query(self) -> bool:
        return True


class DeviceContext:
    """Stands in for ``torch.cuda.device`` and ``torch.cuda.device_of``."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0
        self.prev_idx = 0
        del device

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class StreamContext(DeviceContext):
    """Stands in for ``torch.cuda.stream``."""


class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` gives: the limits of ``sm_90``, one multiprocessor, as in host.h."""

    name = "StitchCUDA cpu device"
    major = 9
    minor = 0
    total_memory = 1 << 34
    multi_processor_count = 1
    warp_size = 32
    max_threads_per_block = 1024
    max_threads_per_multi_processor = 2048
    regs_per_multiprocessor = 65536
    shared_memory_per_block = 48 * 1024
    shared_memory_per_block_optin = 227 * 1024
    shared_memory_per_multiprocessor = 228 * 1024
    L2_cache_size = 1 << 20
    gcnArchName = ""  # noqa: N815  # torch's own spelling
    is_integrated = 0
    is_multi_gpu_board = 0
