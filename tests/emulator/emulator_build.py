"""Compiles a file of kernels for the emulator, and passes numpy arrays to it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from stitchcuda.tools.emulator import compile_flags, include_dir, prelude, rewrite

KERNELS = Path(__file__).parent / "kernels"


def build_shared_object(name: str, standard: str, folder: Path) -> ctypes.CDLL:
    source = KERNELS / name
    text, library = folder / f"{name}.cpp", folder / f"{name}.so"
    text.write_text(prelude() + f'#line 1 "{name}"\n' + rewrite(source.read_text(), name).text)
    flags = (f"-std={standard}", *compile_flags(), "-shared", "-I", str(include_dir()))
    command = ["g++", *flags, str(text), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    loaded = ctypes.CDLL(str(library))
    loaded.stitch_launch_count.restype = ctypes.c_ulonglong
    loaded.stitch_take_error.restype = ctypes.c_char_p
    return loaded


def p(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    """The address of an array's first element."""
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)
