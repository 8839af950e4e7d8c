"""What the facts of ``Machine`` mean: a check per line, with what a lack costs and what to do about it.

Comes in: a ``Machine``. Goes out: checks in the order in which one reads them, and which devices can
solve a problem. Pure: the machine is not looked at here.
"""

from __future__ import annotations

from typing import Literal

from stitchcuda.core.records import Record
from stitchcuda.tools.machine import Machine
from stitchcuda.tools.programs import Program

__all__ = ["Check", "check_machine", "usable_devices"]

State = Literal["ok", "limited", "missing"]
GIB = 1024**3
ROOM_WANTED_BYTES = 2 * GIB
"""A run leaves built extensions and profiler reports behind; under this one should make room first."""


class Check(Record):
    """One line of ``stitchcuda doctor``."""

    name: str
    state: State
    value: str
    meaning: str = ""
    """What the lack means; empty when nothing is lacking."""
    action: str = ""
    """What to do about it."""


def usable_devices(machine: Machine) -> tuple[str, ...]:
    """The devices on which ``solve`` can run here."""
    if machine.torch is None or machine.broken_links:
        return ()
    devices = ["cpu"] if machine.gxx else []
    if machine.gpus and machine.torch.cuda and machine.nvcc and machine.gxx:
        devices = [f"cuda:{gpu.index}" for gpu in machine.gpus] + devices
    return tuple(devices)


def check_machine(machine: Machine) -> tuple[Check, ...]:
    """Every check; those that stop ``solve`` altogether are ``missing`` and say so."""
    return (
        _check_python(machine),
        Check(name="machine", state="ok", value=_machine_text(machine)),
        _check_torch(machine),
        _check_compiler(machine),
        _check_gpu(machine),
        _check_nvcc(machine),
        _check_profiler(
            "nsys", machine.nsys, "no system-wide profile: launches and gaps are taken from torch's profiler"
        ),
        _check_ncu(machine),
        _check_sandbox(machine),
        _check_links(machine),
        *_check_keys(machine),
        _check_disk(machine),
    )


def _check_python(machine: Machine) -> Check:
    value = f"{machine.python} ({machine.executable})"
    return Check(name="python", state="ok", value=value)


def _machine_text(machine: Machine) -> str:
    memory = f", {machine.memory_bytes / GIB:.0f} GiB memory" if machine.memory_bytes else ""
    return f"{machine.cpus} CPUs ({machine.cpu}){memory}, {machine.platform}"


def _check_torch(machine: Machine) -> Check:
    if machine.torch is None:
        return Check(
            name="torch",
            state="missing",
            value="not installed",
            meaning="nothing can be solved: the reference is a PyTorch program",
            action="pip install torch",
        )
    if machine.torch.cuda:
        return Check(name="torch", state="ok", value=f"{machine.torch.version} (CUDA {machine.torch.cuda})")
    value = f"{machine.torch.version} (CPU build)"
    if not machine.gpus:
        return Check(name="torch", state="ok", value=value)
    return Check(
        name="torch",
        state="limited",
        value=value,
        meaning="the GPU cannot be used by this torch: only the cpu device works",
        action="install a CUDA build of torch (see pytorch.org)",
    )


def _check_compiler(machine: Machine) -> Check:
    if machine.gxx:
        return Check(name="g++", state="ok", value=_program_text(machine.gxx))
    return Check(
        name="g++",
        state="missing",
        value="not found",
        meaning="no kernel can be built, neither for the cpu device nor for a GPU",
        action="install a C++ compiler, for example: apt-get install g++",
    )


def _check_gpu(machine: Machine) -> Check:
    if not machine.gpus:
        return Check(
            name="gpu",
            state="limited",
            value=machine.gpu_error or "none",
            meaning="candidates run on the cpu device: built, checked for correctness, never timed",
            action="for speed-ups use a machine with an NVIDIA GPU, driver and CUDA toolkit",
        )
    texts = [
        f"{gpu.name} (cuda:{gpu.index}, {gpu.memory_bytes / GIB:.0f} GiB, sm_{gpu.compute_capability.replace('.', '')})"
        for gpu in machine.gpus
    ]
    driver = ", ".join(
        part
        for part in (
            f"driver {machine.driver}" if machine.driver else "",
            f"up to CUDA {machine.driver_cuda}" if machine.driver_cuda else "",
        )
        if part
    )
    value = "; ".join(texts) + (f"; {driver}" if driver else "")
    wheel = machine.torch.cuda if machine.torch else None
    if wheel and machine.driver_cuda and _major(wheel) > _major(machine.driver_cuda):
        return Check(
            name="gpu",
            state="limited",
            value=value,
            meaning=f"torch was built for CUDA {wheel}, newer than this driver supports: it may not start",
            action="update the driver, or install a torch build for an older CUDA",
        )
    return Check(name="gpu", state="ok", value=value)


def _check_nvcc(machine: Machine) -> Check:
    if machine.nvcc is None:
        meaning = (
            "the GPU cannot be used: kernels cannot be built for it"
            if machine.gpus
            else "on the cpu device, sources are not also compiled for a GPU target"
        )
        return Check(
            name="nvcc",
            state="limited",
            value="not found",
            meaning=meaning,
            action="install the CUDA toolkit, or set CUDA_HOME to it",
        )
    value = _program_text(machine.nvcc)
    wheel = machine.torch.cuda if machine.torch else None
    if machine.gpus and wheel and machine.nvcc.version and _major(wheel) != _major(machine.nvcc.version):
        return Check(
            name="nvcc",
            state="limited",
            value=value,
            meaning=f"torch was built with CUDA {wheel}: PyTorch refuses extensions of another major version",
            action=f"install the CUDA {_major(wheel)} toolkit and set CUDA_HOME to it",
        )
    return Check(name="nvcc", state="ok", value=value)


def _check_profiler(name: str, program: Program | None, meaning: str) -> Check:
    if program:
        return Check(name=name, state="ok", value=_program_text(program))
    product = "Nsight Systems" if name == "nsys" else "Nsight Compute"
    return Check(
        name=name,
        state="limited",
        value="not found",
        meaning=meaning,
        action=f"optional: install NVIDIA {product} and put {name} on the path",
    )


def _check_ncu(machine: Machine) -> Check:
    check = _check_profiler("ncu", machine.ncu, "no per-kernel counters (occupancy, bandwidth) in the evidence")
    if machine.ncu is None or not machine.counters_restricted:
        return check
    return Check(
        name="ncu",
        state="limited",
        value=check.value,
        meaning="the driver lets only an administrator read performance counters",
        action="load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root",
    )


def _check_sandbox(machine: Machine) -> Check:
    present = [name for name, there in machine.sandbox.items() if there]
    absent = [name for name, there in machine.sandbox.items() if not there]
    value = ", ".join(present) or "none"
    if not absent:
        return Check(name="sandbox", state="ok", value=value)
    return Check(
        name="sandbox",
        state="limited",
        value=value,
        meaning=f"candidates run without: {', '.join(absent)}",
        action="run only candidates from models that you trust, or use a container or virtual machine",
    )


def _check_links(machine: Machine) -> Check:
    if not machine.broken_links:
        return Check(name="links", state="ok", value="every room resolves")
    return Check(
        name="links",
        state="missing",
        value="broken: " + ", ".join(machine.broken_links),
        meaning="this checkout has no symbolic links, so parts of the package cannot be imported",
        action="git config core.symlinks true && git checkout -- src, or install with pip from an archive",
    )


def _check_keys(machine: Machine) -> list[Check]:
    meanings = {
        "OPENAI_API_KEY": (
            "no chat model of a hosted endpoint; the embedded engine needs none",
            "set it in the environment or .env to use --model openai:NAME",
        ),
        "LANGSMITH_API_KEY": ("traces stay on this machine", "set it only to send traces to LangSmith"),
    }
    checks = []
    for name, there in machine.keys.items():
        meaning, action = meanings.get(name, ("", "set it in the environment or .env"))
        checks.append(
            Check(name=name, state="ok", value="present")
            if there
            else Check(name=name, state="limited", value="not set", meaning=meaning, action=f"optional: {action}")
        )
    return checks


def _check_disk(machine: Machine) -> Check:
    free = machine.cache_free_bytes
    if free is None:
        return Check(name="cache", state="limited", value=machine.cache_dir, meaning="free space is not known")
    value = f"{free / GIB:.1f} GiB free in {machine.cache_dir}"
    if free >= ROOM_WANTED_BYTES:
        return Check(name="cache", state="ok", value=value)
    return Check(
        name="cache",
        state="limited",
        value=value,
        meaning="builds and profiler reports may not fit",
        action="make room, or set STITCHCUDA_CACHE_DIR to another disk",
    )


def _program_text(program: Program) -> str:
    return f"{program.version or 'does not answer'} ({program.path})"


def _major(version: str) -> int:
    head = version.split(".")[0]
    return int(head) if head.isdigit() else 0
