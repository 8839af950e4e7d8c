"""Functions that tests run through ``run_isolated``."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path


class ProblemError(Exception):
    pass


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b, "pid": os.getpid()}


def fail(text: str) -> None:
    raise ProblemError(text)


def crash() -> None:
    os.kill(os.getpid(), 11)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def surroundings() -> dict[str, object]:
    """What foreign code would see."""
    return {
        "environment": dict(os.environ),
        "files": [path.name for path in Path().iterdir()],
        "descriptors": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())[:-1],
        "interfaces": sorted(line.split(":")[0].strip() for line in _lines("/proc/self/net/dev") if ":" in line),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def leave_a_child(marker: str) -> None:
    """Start a process in a session of its own that would outlive us."""
    subprocess.Popen(["sh", "-c", f"sleep 300; : {marker}"], start_new_session=True)


def cuda_seen() -> bool:
    import torch

    return torch.cuda.is_initialized()


def linger(channel, _folder):  # type: ignore[no-untyped-def]
    """An entry function: start a process in another session, answer, and stay."""
    request, _ = channel.receive()
    leave_a_child(request["marker"])
    channel.send({"reply": request["request"]})
    channel.receive()


def compare_a_large_output(elements: int) -> dict[str, object]:
    """What comparing takes over holding golden and output, in bytes."""
    import resource

    import torch

    from stitchcuda.tools.checks.compare import compare, digest
    from stitchcuda.tools.checks.golden import Golden
    from stitchcuda.tools.checks.verdict import TOLERANCES

    plain = torch.linspace(-1, 1, elements)
    got = plain.clone()
    got[-1] += 1
    tree = {"t": "tensor", "dtype": "float32", "shape": [elements], "device": "cpu"}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (leaf,) = compare(Golden(plain, None, False), tree, got, TOLERANCES)
    digest([got])
    extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"extra_bytes": extra * 1024, "mismatched": leaf["mismatched"], "total": leaf["total"]}
