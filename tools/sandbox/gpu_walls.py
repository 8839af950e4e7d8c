"""Which walls the GPU's driver bears: tried before the first worker that uses a GPU, remembered per machine.

CUDA's user-space driver is closed, and a release may need a call or a file that a wall refuses. So a trial worker
(trusted code only) starts CUDA behind all walls, runs kernels and libraries, copies through pinned memory and traces
itself; if that fails, walls are left off one after the other until it works. ``gpu-walls.json`` in the cache folder
keeps what had to be left off. Where the trial fails with all of them off, walls are not the cause: the real worker is
left to say what is.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from stitchcuda.core.errors import one_line
from stitchcuda.core.files import write_json
from stitchcuda.tools.sandbox.wire import Channel, close_all
from stitchcuda.tools.sandbox.worker import Worker, WorkerGone

__all__ = ["bearable_walls", "trial"]

STEPS: tuple[tuple[str, ...], ...] = ((), ("seccomp",), ("landlock",), ("landlock", "seccomp"))
"""What is left off, one try after the other."""
TRIAL_TIMEOUT_S = 120.0
_WALL_FILES = ("walls.py", "seccomp.py", "landlock.py", "paths.py", "kernel.py", "gpu_walls.py")
_DRIVER = Path("/proc/driver/nvidia/version")


def bearable_walls(spawn: Callable[[tuple[str, ...]], Worker], off: tuple[str, ...], store: Path) -> tuple[str, ...]:
    """The walls to leave off for workers that use the GPU: ``off`` and what the driver does not bear.

    Args:
        spawn: starts a worker with ``trial`` as its entry, with the given walls left off.
        off: walls that the user left off.
        store: JSON file in which the answer is kept, by driver, kernel, environment and our own walls.

    Returns:
        Also when no try worked: then the last one's, not kept, so that it is tried again.
    """
    key = _machine_key(off)
    known = _read(store)
    if key in known:
        return tuple(known[key])
    for extra in STEPS:
        left_off = tuple(dict.fromkeys((*off, *extra)))
        worker = spawn(left_off)
        try:
            reply, attached = worker.request({}, timeout_s=TRIAL_TIMEOUT_S)
            close_all(attached)
            if reply.get("works") is True:
                write_json(store, known | {key: list(left_off)})
                return left_off
        except WorkerGone:
            continue  # a wall that kills instead of refusing: the next try leaves more off
        finally:
            worker.close()
    return left_off


def trial(channel: Channel, _folder: Path) -> None:
    """Worker side: use the GPU in each way that a candidate or the evaluator does."""
    request, descriptors = channel.receive()
    close_all(descriptors)
    try:
        _use_the_gpu()
        answer: dict[str, object] = {"works": True}
    except Exception as error:  # noqa: BLE001  # whatever the driver raises decides which walls stay
        answer = {"works": False, "error": one_line(error)}
    channel.send(answer | {"reply": request["request"]})


def _use_the_gpu() -> None:
    import torch

    device = torch.device("cuda")
    a = torch.ones(256, 256, device=device)
    pinned = torch.ones(1 << 20).pin_memory()
    copied = pinned.to(device, non_blocking=True)
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds):
        product = a @ a
        image = torch.nn.functional.conv2d(torch.ones(1, 4, 8, 8, device=device), torch.ones(4, 4, 3, 3, device=device))
        torch.cuda.synchronize()
    wrong = [float(product[0, 0]) != 256.0, float(copied.sum()) != float(1 << 20), float(image.min()) != 36.0]
    if any(wrong):
        raise RuntimeError("the GPU computes wrong results in a worker")


def _machine_key(off: tuple[str, ...]) -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for name in _WALL_FILES:
        digest.update((here / name).read_bytes())
    driver = _DRIVER.read_text() if _DRIVER.exists() else ""
    digest.update(json.dumps([driver, os.uname().release, sys.prefix, os.getuid(), off]).encode())
    return digest.hexdigest()[:32]


def _read(store: Path) -> dict[str, list[str]]:
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # none yet, or spoiled: tried again
    return known if isinstance(known, dict) else {}
