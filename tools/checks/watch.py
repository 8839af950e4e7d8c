"""Whether a candidate changed what this process is judged with, or went on working after it had returned (worker).

Everything here can be defeated by code that is written against it, like all that lives in the candidate's process;
what it costs such code is honesty about speed: the parent's clock and the golden outputs are elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

import torch

from stitchcuda.tools.checks.inputs import tensors_of

__all__ = ["Integrity", "late_change", "numerics", "threads_alive"]

_NAMES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (torch.cuda, ("Event", "Stream", "synchronize", "current_stream", "default_stream")),
    (torch, ("allclose", "equal", "isfinite", "empty", "empty_like", "full", "clone", "manual_seed", "split", "where")),
    (torch.Tensor, ("clone", "contiguous", "data_ptr", "reshape", "view", "copy_", "detach", "numpy", "numel", "mul")),
    (torch.Tensor, ("is_floating_point", "storage_offset", "stride", "size", "type", "to", "fill_", "__eq__")),
    (torch.nn.Module, ("__call__", "_call_impl", "named_parameters", "named_buffers", "to", "train", "state_dict")),
    (torch.profiler, ("profile", "ExecutionTraceObserver")),
    (time, ("time", "perf_counter", "perf_counter_ns", "monotonic", "process_time", "sleep")),
    (os, ("pwrite", "memfd_create", "write", "read", "close")),
)
_LATE_WAIT_S = 0.5
# CUDA and its profiler start threads of their own, which stay; waiting for them would be in vain.
_LATE_WAIT_CUDA_S = 0.1
_LOOK_AGAIN_S = 0.01


class Integrity:
    """A snapshot of names that measuring relies on; ``changed`` says which of them are something else now."""

    def __init__(self) -> None:
        self._before = _snapshot()

    def changed(self) -> list[str]:
        now = _snapshot()
        return sorted(name for name, value in self._before.items() if now.get(name) is not value)[:5]


def _snapshot() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for owner, names in _NAMES:
        for name in names:
            found[f"{owner.__name__}.{name}"] = getattr(owner, name, None)
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("stitchcuda.tools.") or not isinstance(module, types.ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType):
                found[f"{module_name}.{name}"] = value
                found[f"{module_name}.{name} (code)"] = value.__code__
            elif isinstance(value, type) and value.__module__ == module_name:
                for key, inner in list(vars(value).items()):
                    if isinstance(inner, types.FunctionType):
                        found[f"{module_name}.{name}.{key}"] = inner
                        found[f"{module_name}.{name}.{key} (code)"] = inner.__code__
    return found


def numerics() -> dict[str, str]:
    """Settings that would move the meaning or the precision of later computations in this process."""
    return {
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn.allow_tf32": str(torch.backends.cudnn.allow_tf32),
        "default_dtype": str(torch.get_default_dtype()),
        "autocast": str(torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")),
    }


def threads_alive() -> int:
    """Threads of this process, also those that no Python knows of."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def late_change(outputs: Any, threads_before: int) -> bool:
    """Whether the outputs change after the call has returned; waits only while threads are left that could do it."""
    first = _fingerprint(outputs)
    time.sleep(_LOOK_AGAIN_S)
    on_gpu = any(tensor.is_cuda for tensor in tensors_of(outputs))
    deadline = time.monotonic() + (_LATE_WAIT_CUDA_S if on_gpu else _LATE_WAIT_S)
    while threads_alive() > threads_before and time.monotonic() < deadline:
        if _fingerprint(outputs) != first:
            return True
        time.sleep(_LOOK_AGAIN_S)
    return _fingerprint(outputs) != first


def _fingerprint(outputs: Any) -> list[str]:
    prints = []
    for tensor in tensors_of(outputs):
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
            continue
        data = tensor.detach().reshape(-1)[: 1 << 20].contiguous().cpu().view(torch.uint8)
        prints.append(hashlib.blake2b(data.numpy().data, digest_size=16).hexdigest())
    return prints
