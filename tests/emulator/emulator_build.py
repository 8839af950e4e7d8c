"""Compiles a file of kernels for the emulator, and passes numpy arrays to it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from stitchcuda.tools.emulator import compile_flags, include_dir, prelude, rewrite, sanitizer_source

KERNELS = Path(__file__).parent / "kernels"
SANITIZED = os.environ.get("STITCHCUDA_TEST_SANITIZED") == "1"
"""Runs the usual tests on sanitized builds: no correct kernel may have a finding."""


def build_shared_object(name: str, standard: str, folder: Path, *, sanitize: bool = SANITIZED) -> ctypes.CDLL:
    source = KERNELS / name
    text, library = folder / f"{name}.cpp", folder / f"{name}.so"
    text.write_text(prelude() + f'#line 1 "{name}"\n' + rewrite(source.read_text(), name).text)
    flags = (f"-std={standard}", *compile_flags(sanitize=sanitize), "-shared", "-I", str(include_dir()))
    _run(["g++", *flags, str(text), *(_checks(folder) if sanitize else ()), "-o", str(library)])
    loaded = ctypes.CDLL(str(library))
    loaded.stitch_launch_count.restype = ctypes.c_ulonglong
    loaded.stitch_take_error.restype = ctypes.c_char_p
    return loaded


def _checks(folder: Path) -> tuple[str, ...]:
    import torch

    torch_dir, output = Path(torch.__file__).parent, folder / "checks.o"
    headers = ("-I", str(include_dir()), "-isystem", str(torch_dir / "include"))
    _run(["g++", "-std=c++20", *compile_flags(), *headers, "-c", str(sanitizer_source()), "-o", str(output)])
    return str(output), f"-L{torch_dir / 'lib'}", "-lc10"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def p(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    """The address of an array's first element."""
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)
