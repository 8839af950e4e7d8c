"""A seccomp filter: system calls that no kernel, compiler, Python or CUDA program needs are refused.

It is a list of what is refused, not of what is allowed: CUDA's user-space driver is closed and changes its calls with
each release, so a list of allowed ones would break on the next. Refused calls return an error instead of ending the
process, so that a library which only probes for a feature goes on without it.

CUDA asks at start for a local (AF_UNIX) socket, to look for an MPS daemon. Where a GPU is present such a socket may
therefore be made, but it can never be connected, bound or listened on: the driver then finds no daemon. Standard
library only, and no import of this package, so that a bare interpreter can load the file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

__all__ = ["REFUSED", "SUPPORTED", "refuse_calls"]

REFUSED: dict[str, tuple[int | None, int | None]] = {
    # name: (x86_64, aarch64)
    # the network: whatever exists was inherited
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # files by handle, past every path rule
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # large parts of the kernel that are of no use here
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # the machine itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
}
_CLONE, _CLONE3, _SOCKET, _IOCTL = (56, 220), (435, 435), (41, 198), (16, 29)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
SUPPORTED = platform.machine() in _ARCHITECTURES

_NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_UNIX = 1
_STREAM, _SEQPACKET = 1, 5
_TYPE_IN_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X32_BIT = 0x40000000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCH_AT, _FIRST_AT, _SECOND_AT = 0, 4, 16, 24  # the low halves of the 64-bit arguments
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_calls(*, local_sockets: bool) -> bool:
    """Install the filter for this process and all that it will start; ``False`` where it cannot be had.

    Needs ``NO_NEW_PRIVS`` to be set.

    Args:
        local_sockets: let AF_UNIX sockets be made (never connected); for CUDA.
    """
    if not SUPPORTED:
        return False
    code = _program(*_ARCHITECTURES[platform.machine()], local_sockets=local_sockets)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    result = libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program), zero, zero)
    if result != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(ctypes.get_errno(), f"prctl(SECCOMP): {os.strerror(ctypes.get_errno())}")
    return bool(result == 0)


def _program(column: int, architecture: int, *, local_sockets: bool) -> bytes:
    refuse = _do(_RETURN, _ERROR | errno.EPERM)
    allow = _do(_RETURN, _ALLOW)
    code = _do(_LOAD, _ARCH_AT) + _do(_IF_EQUAL, architecture, 1, 0) + _do(_RETURN, _KILL) + _do(_LOAD, _NUMBER_AT)
    if column == 0:
        code += _do(_IF_AT_LEAST, _X32_BIT, 0, 1) + refuse
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            code += _do(_IF_EQUAL, number, 0, 1) + refuse
    # Its flags lie in memory that a filter cannot read; the C library falls back to clone.
    code += _do(_IF_EQUAL, _CLONE3[column], 0, 1) + _do(_RETURN, _ERROR | errno.ENOSYS)
    code += _case(_CLONE[column], _do(_LOAD, _FIRST_AT) + _do(_IF_ANY_BIT, _NEW_NAMESPACES, 0, 1) + refuse + allow)
    terminal = _do(_LOAD, _SECOND_AT)
    for request in _TYPE_IN_TERMINAL:
        terminal += _do(_IF_EQUAL, request, 0, 1) + refuse
    code += _case(_IOCTL[column], terminal + allow)
    local = b""
    if local_sockets:
        local += _do(_LOAD, _FIRST_AT) + _do(_IF_EQUAL, _AF_UNIX, 1, 0) + refuse
        local += _do(_LOAD, _SECOND_AT) + _do(_AND, 0xF)
        # Datagrams need no connection to be sent, so they stay refused.
        local += _do(_IF_EQUAL, _STREAM, 0, 1) + allow + _do(_IF_EQUAL, _SEQPACKET, 0, 1) + allow
    code += _case(_SOCKET[column], local + refuse)
    return code + allow


def _do(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def _case(number: int, body: bytes) -> bytes:
    """``body`` (which must end with a return) for one call; others jump over it."""
    return _do(_IF_EQUAL, number, 0, len(body) // 8) + body
