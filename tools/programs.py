"""Find the programs that a machine may have off its path, and ask them for their version."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from stitchcuda.core.errors import ToolchainError
from stitchcuda.core.process import run_command
from stitchcuda.core.records import Record

__all__ = ["Program", "find_gxx", "find_ncu", "find_nsys", "find_nvcc", "read_program"]

VERSION_TIMEOUT_S = 15.0


class Program(Record):
    """An executable that was found."""

    path: str
    version: str = ""
    """Empty when the program is there but does not answer."""


def find_gxx() -> Path | None:
    return _find(["g++"])


def find_nvcc(cuda_home: Path | None, root: Path = Path("/")) -> Path | None:
    """``nvcc`` of ``CUDA_HOME``, of the path, or of the usual place, in this order."""
    homes = [cuda_home / "bin/nvcc"] if cuda_home else []
    return _find(["nvcc"], first=homes, last=[root / "usr/local/cuda/bin/nvcc"])


def find_nsys(root: Path = Path("/")) -> Path | None:
    """``nsys`` of the path, of Nsight Systems, or the one that Nsight Compute carries."""
    patterns = (
        "opt/nvidia/nsight-systems/*/bin/nsys",
        "opt/nvidia/nsight-systems-cli/*/bin/nsys",
        "usr/local/cuda/bin/nsys",
        "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
        "usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
    )
    return _find(["nsys"], last=_newest_first(root, patterns))


def find_ncu(cuda_home: Path | None, root: Path = Path("/")) -> Path | None:
    """``ncu`` of the path, of the CUDA toolkit, or of a stand-alone Nsight Compute."""
    homes = [cuda_home / "bin/ncu"] if cuda_home else []
    patterns = ("usr/local/cuda/bin/ncu", "opt/nvidia/nsight-compute/*/ncu")
    return _find(["ncu"], last=[*homes, *_newest_first(root, patterns)])


def _newest_first(root: Path, patterns: Iterable[str]) -> list[Path]:
    def numbers(path: Path) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", str(path))]

    return [path for pattern in patterns for path in sorted(root.glob(pattern), key=numbers, reverse=True)]


def _find(names: Iterable[str], first: Iterable[Path] = (), last: Iterable[Path] = ()) -> Path | None:
    on_path = [Path(found) for name in names if (found := shutil.which(name))]
    for path in (*first, *on_path, *last):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def read_program(path: Path | None, pattern: str) -> Program | None:
    """Version of the program at ``path``: the first group of ``pattern`` in what ``--version`` says."""
    if path is None:
        return None
    try:
        done = run_command([str(path), "--version"], timeout_s=VERSION_TIMEOUT_S)
    except ToolchainError:
        return Program(path=str(path))
    match = re.search(pattern, done.output, re.MULTILINE) if done.ok else None
    return Program(path=str(path), version=match[1] if match else "")
