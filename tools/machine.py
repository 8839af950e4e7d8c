"""What this machine has: Python, torch, compilers, GPUs, profilers, room on the disk.

Comes in: nothing. Goes out: ``Machine``, a record of facts, and the device that a setting names.
Nothing here imports torch or initialises CUDA in the calling process: torch's version is read from its
text, and the driver is asked by a program of its own. What a lack means is told by ``machine_checks``.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import SettingsError, ToolchainError
from stitchcuda.core.process import run_command
from stitchcuda.core.records import Record
from stitchcuda.tools.programs import Program, find_gxx, find_ncu, find_nsys, find_nvcc, read_program

__all__ = [
    "Gpu",
    "Machine",
    "Torch",
    "choose_device",
    "inspect_gpus",
    "inspect_machine",
    "inspect_torch",
    "resolve_device",
]

PROBE_TIMEOUT_S = 30.0
"""The first ``cuInit`` on a machine with many GPUs takes seconds; a hanging driver takes for ever."""
PACKAGES = ("langgraph", "langchain-openai", "chromadb", "pydantic", "numpy", "transformers", "trl", "datasets", "ray")
ROOMS = (
    *("bench", "cli", "codegen", "core", "graph", "nodes", "nvidia_docs"),
    *("problems", "rag_index", "rubrics", "tools", "traces", "training"),
)


class Torch(Record):
    version: str
    cuda: str | None
    """CUDA version that the wheel was built with; ``None`` for a CPU build."""


class Gpu(Record):
    index: int
    name: str
    memory_bytes: int
    compute_capability: str
    multiprocessors: int


class Machine(Record):
    """Facts about one machine; never the value of a secret."""

    python: str
    executable: str
    platform: str
    cpu: str
    cpus: int
    """CPUs that this process may use, cgroup quota included."""
    memory_bytes: int | None
    torch: Torch | None
    packages: dict[str, str]
    gxx: Program | None
    nvcc: Program | None
    gpus: tuple[Gpu, ...]
    gpu_error: str = ""
    """Why there is no GPU, when there is none."""
    driver: str = ""
    driver_cuda: str = ""
    nsys: Program | None
    ncu: Program | None
    counters_restricted: bool | None = None
    """Whether only an administrator may read GPU performance counters (``ncu``); ``None``: not known."""
    sandbox: dict[str, bool]
    broken_links: tuple[str, ...] = ()
    keys: dict[str, bool]
    cache_dir: str
    cache_free_bytes: int | None


def inspect_machine() -> Machine:
    """Look at everything; takes up to a few seconds on a machine with a GPU."""
    environment = Environment()
    gpus, gpu_error, driver_cuda = inspect_gpus()
    cuda_home = environment.cuda_home
    return Machine(
        python=platform.python_version(),
        executable=sys.executable,
        platform=platform.platform(),
        cpu=_cpu_name(),
        cpus=_usable_cpus(),
        memory_bytes=_memory_bytes(),
        torch=inspect_torch(),
        packages=_packages(PACKAGES),
        gxx=read_program(find_gxx(), r"^.*?(\d+\.\d+\.\d+)\s*$"),
        nvcc=read_program(find_nvcc(cuda_home), r"release ([\d.]+)"),
        gpus=gpus,
        gpu_error=gpu_error,
        driver=_driver_version(),
        driver_cuda=driver_cuda,
        nsys=read_program(find_nsys(), r"version ([\d.]+)"),
        ncu=read_program(find_ncu(cuda_home), r"Version ([\d.]+)"),
        counters_restricted=_counters_restricted(),
        sandbox=_sandbox_features(),
        broken_links=broken_links(Path(__file__).absolute().parent.parent),
        keys=environment.secrets(),
        cache_dir=str(environment.cache_dir),
        cache_free_bytes=_free_bytes(environment.cache_dir),
    )


# --- devices ----------------------------------------------------------------------------------------------------


def resolve_device(device: str) -> str:
    """``cpu`` or ``cuda:N`` for a setting of ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        SettingsError: it is none of these.
        ToolchainError: a GPU is asked for, and it, a CUDA build of torch or nvcc is not there.
    """
    return choose_device(device)[0]


def choose_device(device: str) -> tuple[str, str]:
    """The device, and why ``auto`` did not take a GPU (empty when it did, or when nothing was to choose)."""
    wanted = device.strip().lower()
    if wanted == "cpu":
        return "cpu", ""
    match = re.fullmatch(r"cuda(?::(\d+))?", wanted)
    if match is None and wanted != "auto":
        raise SettingsError(f"device {device!r} is not known: use auto, cpu or cuda:N (for example cuda:0)")
    gpus, error, _ = inspect_gpus()
    index = int(match[1] or 0) if match else 0
    lack = _cuda_lack(gpus, error, index)
    if not lack:
        return f"cuda:{index}", ""
    if match is None:
        return "cpu", lack
    raise ToolchainError(f"device {device!r} cannot be used: {lack}; --device cpu works without a GPU")


def _cuda_lack(gpus: tuple[Gpu, ...], error: str, index: int) -> str:
    if not gpus:
        return error or "there is no GPU"
    if index >= len(gpus):
        shown = "cuda:0" if len(gpus) == 1 else f"cuda:0 to cuda:{len(gpus) - 1}"
        return f"the driver shows {len(gpus)} GPU(s), {shown}"
    torch = inspect_torch()
    if torch is None:
        return "torch is not installed"
    if torch.cuda is None:
        return f"torch {torch.version} is a CPU build: install a CUDA build of torch"
    if find_nvcc(Environment().cuda_home) is None:
        return "nvcc was not found: install the CUDA toolkit or set CUDA_HOME"
    return ""


def inspect_gpus() -> tuple[tuple[Gpu, ...], str, str]:
    """The visible GPUs, why there are none, and the highest CUDA version that the driver supports."""
    script = Path(__file__).absolute().with_name("gpu_probe.py")
    done = run_command([sys.executable, "-I", "-S", str(script)], timeout_s=PROBE_TIMEOUT_S)
    if done.timed_out:
        return (), f"the NVIDIA driver did not answer within {PROBE_TIMEOUT_S:g} s", ""
    try:
        answer = json.loads(done.output.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return (), f"asking the NVIDIA driver failed (exit code {done.returncode})", ""
    return tuple(Gpu(**gpu) for gpu in answer["gpus"]), answer["error"], answer.get("cuda_version", "")


def inspect_torch() -> Torch | None:
    """Version and CUDA version of the installed torch, read from its ``version.py`` without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name("version.py")
    if not path.is_file():
        return None
    values: dict[str, object] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = getattr(statement, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            values[target.id] = value.value
    cuda = values.get("cuda")
    return Torch(version=str(values.get("__version__", "unknown")), cuda=str(cuda) if cuda else None)


# --- the rest ---------------------------------------------------------------------------------------------------


def broken_links(package: Path) -> tuple[str, ...]:
    """Rooms of the package folder that are not folders: a checkout without symbolic links has text files there."""
    return tuple(room for room in ROOMS if not (package / room).is_dir())


def _packages(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _sandbox_features() -> dict[str, bool]:
    from stitchcuda.tools.sandbox import sandbox_features

    features: Mapping[str, bool] = sandbox_features()
    return dict(features)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cpu_name() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def _usable_cpus() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit():
        usable = max(1, min(usable, round(int(quota[0]) / int(quota[1]))))
    return usable


def _memory_bytes() -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    total = int(match[1]) * 1024 if match else None
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    return min(total or int(limit), int(limit)) if limit.isdigit() else total


def _driver_version() -> str:
    match = re.search(r"NVRM version:.*?\s(\d+\.\d[\d.]*)", _read("/proc/driver/nvidia/version"))
    return match[1] if match else ""


def _counters_restricted() -> bool | None:
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d)", _read("/proc/driver/nvidia/params"), re.MULTILINE)
    return match[1] == "1" and os.geteuid() != 0 if match else None


def _free_bytes(folder: Path) -> int | None:
    for place in (folder, *folder.absolute().parents):
        if place.is_dir():
            return shutil.disk_usage(place).free
    return None
