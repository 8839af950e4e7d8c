"""The walls around one worker, raised in it after the fork and before any foreign code. Standard library only.

Comes in: ``{"read", "open_only", "devices", "off"}`` from the parent. Goes out: nothing.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Any

from stitchcuda.tools.sandbox import kernel
from stitchcuda.tools.sandbox.landlock import restrict_files
from stitchcuda.tools.sandbox.seccomp import refuse_calls

__all__ = ["SWITCHES", "gpu_is_here", "limit_resources", "raise_walls"]

SWITCHES = ("namespaces", "disk", "landlock", "seccomp")
"""What ``STITCHCUDA_SANDBOX_OFF`` may name, separated by commas, where a driver or a container needs it."""
_DESCRIPTORS = 4096


def gpu_is_here() -> bool:
    """Whether a driver is loaded; asks no library."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def raise_walls(folder: str, walls: dict[str, Any]) -> None:
    """Drop every right, then restrict files and system calls, as far as this kernel can."""
    kernel.lower_oom_priority()
    kernel.drop_privileges()
    if "landlock" not in walls["off"]:
        restrict_files(
            read=walls["read"],
            open_only=walls["open_only"],
            # Its own entries in /proc: CUDA names its threads there.
            write=[folder, "/proc/self"],
            devices=walls["devices"],
        )
    if "seccomp" not in walls["off"]:
        refuse_calls(local_sockets=gpu_is_here())


def limit_resources(limits: dict[str, Any]) -> None:
    """Apply ``{"as_bytes", "file_bytes", "processes", "count_processes"}``; ``None`` leaves a limit as it is."""
    for name, what in (
        ("as_bytes", resource.RLIMIT_AS),
        ("file_bytes", resource.RLIMIT_FSIZE),
        ("processes", resource.RLIMIT_NPROC),
    ):
        if what == resource.RLIMIT_NPROC and not limits["count_processes"]:
            continue  # it would count all processes of the user, those outside too
        if (value := limits.get(name)) is not None:
            _lower(what, value)
    _lower(resource.RLIMIT_NOFILE, _DESCRIPTORS)
    # One byte, not none: it also stops a crash handler that the system pipes core dumps to.
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def _lower(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))
