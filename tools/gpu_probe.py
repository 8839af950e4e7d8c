"""Ask the CUDA driver which GPUs it shows, and print them as one JSON object.

A program of its own, standard library only: initialising the driver in a process that later forks
would break CUDA in the children, and a broken driver may hang. ``tools.machine`` runs it with a limit.
"""

from __future__ import annotations

import ctypes
import json
from typing import Any

# Values of CUdevice_attribute in cuda.h.
MULTIPROCESSOR_COUNT = 16
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76
NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE: a driver that works and has no GPU to show."""


def probe() -> dict[str, Any]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` leaves visible, or why there are none, under ``error``."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"gpus": [], "error": "no NVIDIA driver (libcuda.so.1 is absent)"}
    code = cuda.cuInit(0)
    if code != 0:
        reason = "the driver shows no GPU" if code == NO_DEVICE else f"the driver does not start (cuInit gave {code})"
        return {"gpus": [], "error": reason}
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    gpus = [_gpu(cuda, index) for index in range(count.value)]
    return {
        "gpus": gpus,
        "error": "" if gpus else "the driver shows no GPU (is CUDA_VISIBLE_DEVICES empty?)",
        "cuda_version": f"{version.value // 1000}.{version.value % 1000 // 10}",
    }


def _gpu(cuda: ctypes.CDLL, index: int) -> dict[str, Any]:
    device, memory, value = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)

    def attribute(which: int) -> int:
        cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device)
        return value.value

    return {
        "index": index,
        "name": name.value.decode("utf-8", errors="replace"),
        "memory_bytes": memory.value,
        "compute_capability": f"{attribute(COMPUTE_CAPABILITY_MAJOR)}.{attribute(COMPUTE_CAPABILITY_MINOR)}",
        "multiprocessors": attribute(MULTIPROCESSOR_COUNT),
    }


if __name__ == "__main__":
    print(json.dumps(probe()))
