"""Landlock: which files a process may touch at all, also as root, without any right of its own.

Comes in: paths by what may be done below them. Goes out: nothing; the calling process and all that it will start are
restricted for good. Files that are open already, pipes, sockets and memory files stay usable. From Linux 6.12 on it
also cuts signals and abstract sockets to processes outside, and in all versions tracing them and reading their
``/proc`` entries. Standard library only, and no import of this package, so that a bare interpreter can load the file.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Sequence

__all__ = ["landlock_version", "restrict_files"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on all architectures
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_VERSION_RIGHTS = (1 << 13) - 1
_MAKE_DEVICES = 1 << 6 | 1 << 11
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ALL_TCP = 0b11
_SCOPE_SOCKETS_AND_SIGNALS = 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """The kernel's version of the interface; 0 where it has none or it is switched off."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def restrict_files(
    *,
    read: Iterable[str],
    open_only: Iterable[str] = (),
    write: Iterable[str],
    devices: Iterable[str] = (),
) -> bool:
    """Restrict this process; ``False`` where the kernel has no Landlock. Paths that do not exist are left out.

    Needs ``NO_NEW_PRIVS`` to be set.

    Args:
        read: folders and files that may be read, listed and executed.
        open_only: folders whose files may be read by who knows their names, but which cannot be listed.
        write: folders in which everything is allowed, except making device files.
        devices: files that may be read, written and controlled by ioctl.

    Raises:
        OSError: the kernel refused.
    """
    version = landlock_version()
    if version == 0:
        return False
    handled = _FIRST_VERSION_RIGHTS
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        handled |= right if version >= since else 0
    attributes = _Ruleset(handled, _ALL_TCP if version >= 4 else 0, _SCOPE_SOCKETS_AND_SIGNALS if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(
        _libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        groups: Sequence[tuple[Iterable[str], int]] = (
            (read, _READ),
            (open_only, _EXECUTE | _READ_FILE),
            (write, handled & ~_MAKE_DEVICES),
            (devices, _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV),
        )
        for paths, rights in groups:
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _checked(_libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there, or not for us, needs no rule
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        rule = _PathRule(rights, descriptor)
        _checked(
            _libc.syscall(
                _ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(_RULE_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint32(0),
            ),
            f"landlock_add_rule({path})",
        )
    finally:
        os.close(descriptor)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
