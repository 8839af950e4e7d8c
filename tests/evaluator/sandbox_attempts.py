"""What hostile code in a worker would try; each returns ``got …`` when it worked, else how it was refused."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


def try_all(secret: str, outside: str, parent: int, unix_socket: str, port: int) -> dict[str, str]:
    """Every attempt that leaves the worker able to answer."""
    attempts: dict[str, Callable[[], object]] = {
        "internet socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "connect to loopback": lambda: socket.create_connection(("127.0.0.1", port), timeout=1),
        "connect to a local socket": lambda: socket.socket(socket.AF_UNIX).connect(unix_socket),
        "read a secret": lambda: Path(secret).read_text(),
        "list the secret's folder": lambda: list(Path(secret).parent.iterdir()),
        "read accounts": lambda: Path("/etc/passwd").read_text(),
        "read password hashes": lambda: Path("/etc/shadow").read_text(),
        "list the home": lambda: list(Path("/root" if os.getuid() == 0 else "/home").iterdir()),
        "write outside": lambda: Path(outside, "left").write_text("x"),
        "write to the shared memory folder": lambda: Path("/dev/shm/left-by-a-worker").write_text("x"),
        "remove outside": lambda: Path(secret).unlink(),
        "hard link to the secret": lambda: os.link(secret, "linked"),
        "symbolic link to the secret": lambda: (Path("soft").symlink_to(secret), Path("soft").read_text()),
        "read through a child": lambda: subprocess.check_output(["cat", secret], stderr=subprocess.DEVNULL),
        "the parent's environment": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "the parent's memory": lambda: os.open(f"/proc/{parent}/mem", os.O_RDWR),
        "the guard's descriptors": lambda: [os.open(fd, os.O_RDONLY) for fd in Path("/proc/1/fd").iterdir()],
        "signal the parent": lambda: os.kill(parent, signal.SIGTERM),
        "end the guard": lambda: os.kill(os.getppid(), signal.SIGKILL),
        "trace": lambda: _call(101, 16, parent, 0, 0),
        "mount": lambda: _call(165, b"none", b"/", b"tmpfs", 0, None),
        "new namespace": lambda: _call(272, 0x10000000),
        "clone into a namespace": lambda: _call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
        "clone3": lambda: _call(435, None, 0),
        "keys": lambda: _call(250, 0, -3, 0),
        "bpf": lambda: _call(321, 0, None, 0),
        "performance events": lambda: _call(298, bytes(128), 0, -1, -1, 0),
        "io_uring": lambda: _call(425, 8, bytes(128)),
        "userfaultfd": lambda: _call(323, 0),
        "open by handle": lambda: _call(304, -100, bytes(128), 0),
        "copy another process's memory": lambda: _call(310, parent, None, 0, None, 0, 0),
        "raise a limit": lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_NOFILE, (1 << 20,) * 2),
    }
    found = {}
    for name, attempt in attempts.items():
        try:
            found[name] = f"got {attempt()!r:.60}"
        except subprocess.CalledProcessError as error:
            found[name] = f"refused {error.returncode}"
        except (OSError, ValueError) as error:
            found[name] = f"refused {errno.errorcode.get(getattr(error, 'errno', 0) or 0, type(error).__name__)}"
    return found


def _call(number: int, *arguments: object) -> int:
    """A raw system call (numbers of x86_64)."""
    result = int(_libc.syscall(number, *arguments))
    if result == 0 and number == 56:
        os._exit(0)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def everyday_needs() -> dict[str, object]:
    """What must go on working behind the walls."""
    import threading

    import torch

    ran = []
    thread = threading.Thread(target=lambda: ran.append(1))
    thread.start()
    thread.join()
    Path("folder").mkdir()
    Path("folder/file").write_text("x")
    Path("folder/file").rename("moved")
    descriptor = os.memfd_create("tensors")
    os.write(descriptor, b"x" * 10)
    shared = mmap.mmap(descriptor, 10)[:1] == b"x"
    a, b = socket.socketpair()
    a.send(b"x")
    compiled = subprocess.run(
        ["c++", "-x", "c++", "-", "-o", "program"], input="#include <vector>\nint main() {}", text=True, check=False
    )
    return {
        "thread": bool(ran),
        "file": Path("moved").read_text() == "x",
        "memory file": shared,
        "socket pair": b.recv(1) == b"x",
        "child": subprocess.check_output([sys.executable, "-I", "-S", "-c", "print(1)"], text=True) == "1\n",
        "compiler": compiled.returncode == 0 and subprocess.run(["./program"], check=False).returncode == 0,
        "torch": float(torch.ones(300, 300).matmul(torch.ones(300, 300)).sum()) == 300.0**3,
        "name": __import__("getpass").getuser(),
    }


def fork_bomb() -> int:
    """How many children could be started."""
    children = 0
    with contextlib.suppress(OSError):
        while children < 5000:
            if os.fork() == 0:
                signal.pause()
                os._exit(0)
            children += 1
    return children


def memory_hog() -> int:
    """How many GiB could be taken (untouched: a limit on the address space must refuse them)."""
    kept: list[mmap.mmap] = []
    with contextlib.suppress(OSError, MemoryError):
        while len(kept) < 200:
            kept.append(mmap.mmap(-1, 1 << 30))
    return len(kept)


def descriptor_flood() -> int:
    kept = []
    with contextlib.suppress(OSError):
        while len(kept) < 100_000:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    return len(kept)


def disk_flood(block_bytes: int) -> int:
    """How many bytes could be written, over many files."""
    written = 0
    with contextlib.suppress(OSError):
        for number in range(1000):
            with Path(f"file{number}").open("wb", buffering=0) as file:
                for _ in range(16):
                    count = file.write(bytes(block_bytes))
                    written += count
                    if count < block_bytes:
                        return written
    return written


def dump_core() -> None:
    os.abort()


def memory_hog_entry(channel, _folder):  # type: ignore[no-untyped-def]
    request, _ = channel.receive()
    channel.send({"reply": request["request"], "value": memory_hog()})


def disk_flood_entry(channel, _folder):  # type: ignore[no-untyped-def]
    request, _ = channel.receive()
    channel.send({"reply": request["request"], "value": disk_flood(request["block_bytes"])})


def fork_bomb_entry(channel, _folder):  # type: ignore[no-untyped-def]
    request, _ = channel.receive()
    channel.send({"reply": request["request"], "value": fork_bomb()})
