"""Which parts of the file system workers and compilers need to read. In the parent; standard library only.

The rule is a list of what is needed (the system's programs and libraries, Python, this package, CUDA, the GPU's
devices), so that the user's home, run folders, other users' files, ``/etc``, ``/tmp`` and ``/var`` are out of reach
without being named. An environment that lies inside the home is named by its own folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["device_paths", "python_path", "readable_paths"]

_SYSTEM = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/opt/cuda", "/sys", "/proc")
_SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/nvidia",
    "/etc/OpenCL",
)
"""Of ``/etc`` only what the loader, compilers and the driver read: no accounts, no host names, no keys."""
_LIBRARY_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_DEVICE_PATTERNS = ("nvidia*", "nvidia-caps/*", "dri/render*", "dxg")


def python_path() -> list[str]:
    """This process's import path, absolute, without the current folder's moving entry."""
    home = str(Path(sys.modules["stitchcuda"].__path__[0]).parent)
    entries = [str(Path(entry).resolve()) for entry in sys.path if entry]
    return [home, *(entry for entry in entries if entry != home)]


def readable_paths() -> list[str]:
    """Absolute paths, without duplicates; some may not exist."""
    package = Path(sys.modules["stitchcuda"].__path__[0])
    found = [*_SYSTEM, *_SETTINGS, *_private_safe([sys.prefix, sys.base_prefix, sys.exec_prefix])]
    # In a source checkout the package is a folder of links to the rooms.
    found += [str(package), *(str(entry.resolve()) for entry in package.iterdir())]
    found += _private_safe(entry for entry in python_path() if entry != str(package.parent))
    for name in _LIBRARY_VARIABLES:
        found += _private_safe(entry for entry in os.environ.get(name, "").split(":") if entry)
    return list(dict.fromkeys(found))


def device_paths() -> list[str]:
    """Device files that workers use."""
    return [*_DEVICES, *(str(path) for pattern in _DEVICE_PATTERNS for path in Path("/dev").glob(pattern))]


def _private_safe(entries: Iterable[str]) -> list[str]:
    """Resolved, without folders in which a user's own files lie: the home, the current folder, and what is above."""
    kept = []
    private = [path.resolve() for path in (_home(), Path.cwd())]
    for entry in entries:
        path = Path(entry).resolve()
        if not any(own == path or path in own.parents for own in private):
            kept.append(str(path))
    return kept


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user id without an account
        return Path("/nonexistent")
