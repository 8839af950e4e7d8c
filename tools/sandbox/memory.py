"""Memory files for tensor bytes: written once, sealed, then passed by descriptor.

A sealed file cannot change or shrink any more, so that a receiver may map it: the sender can neither alter a result
after handing it in nor crash the reader. Standard library only.
"""

from __future__ import annotations

import fcntl
import os

__all__ = ["is_sealed", "new_memory_file", "seal"]

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def new_memory_file() -> int:
    """An empty anonymous file; the caller owns the descriptor."""
    return os.memfd_create("tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal(descriptor: int) -> None:
    """Forbid every further change."""
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)


def is_sealed(descriptor: int) -> bool:
    """Whether ``descriptor`` is a memory file that nobody can change."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    except OSError:
        return False
