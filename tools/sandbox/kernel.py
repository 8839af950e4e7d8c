"""The Linux calls that Python has no name for: namespaces, process control, capabilities.

Standard library only; runs in the fork server's children, before any foreign code.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

__all__ = [
    "NAMESPACE_SETS",
    "become_subreaper",
    "die_with_parent",
    "drop_privileges",
    "enter_namespaces",
    "hide_other_processes",
    "lower_oom_priority",
    "mount_private_disk",
]

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_NAMESPACES = {"user": CLONE_NEWUSER, "pid": CLONE_NEWPID, "net": CLONE_NEWNET, "mount": CLONE_NEWNS}
NAMESPACE_SETS: tuple[tuple[str, ...], ...] = (
    ("user", "pid", "net", "mount"),
    ("user", "pid", "net"),
    ("pid", "net", "mount"),
    ("user", "net"),
    (),
)
"""Tried in this order; the third is for root where user namespaces are switched off."""

_PR_SET_PDEATHSIG = 1
_PR_SET_SECUREBITS = 28
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECBIT_NOROOT_AND_LOCKED = 0b11
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def die_with_parent(expected_parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exits at once if that has already happened.

    Args:
        expected_parent: the parent's id, or 0 where it is outside of this process's pid namespace.
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PDEATHSIG)")
    if os.getppid() != expected_parent:
        os._exit(1)


def become_subreaper() -> None:
    """Orphaned descendants become children of this process instead of init's."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(SUBREAPER)")


def enter_namespaces(names: tuple[str, ...]) -> None:
    """Unshare; with ``pid`` the *next child* is process 1 of the new namespace.

    Raises:
        OSError: the kernel or its settings do not allow it; nothing has changed then.
    """
    if not names:
        return
    flags = 0
    for name in names:
        flags |= _NAMESPACES[name]
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(flags), "unshare")
    if "user" in names:
        # Same ids inside: files keep their owners, and a worker of an ordinary user stays an ordinary user.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    if "mount" in names:
        _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount(private)")


def hide_other_processes() -> None:
    """Mount a ``/proc`` of this pid namespace, so that environments of other processes cannot be read.

    Raises:
        OSError: not allowed, for example where a container masks parts of ``/proc``.
    """
    _check(
        _libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None),
        "mount(proc)",
    )


def mount_private_disk(folder: str, size_bytes: int) -> None:
    """Put a disk of limited size, in memory, over ``folder``; it vanishes with the mount namespace.

    Raises:
        OSError: not allowed.
    """
    options = f"size={size_bytes},nr_inodes=100000,mode=700".encode()
    _check(
        _libc.mount(b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV, options),
        "mount(tmpfs)",
    )


def drop_privileges() -> None:
    """Give up every capability, for this process and for whatever it executes."""
    _libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NOROOT_AND_LOCKED, 0, 0, 0)  # refused where we had no such right
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def lower_oom_priority() -> None:
    """When memory runs out, the kernel takes this process before the parent."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        return
