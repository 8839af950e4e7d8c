"""The fork server: imports torch once, then forks a worker for each request of its parent.

Comes in (over the control socket): where the worker's folder is, which trusted function it starts with, its
limits, and three descriptors: its channel, its log, and a pipe for its exit status. Goes out: the process id and a
pidfd of the worker's *warden*. Process tree of one worker::

    fork server ── warden ── [process 1 of a pid namespace] ── worker ── whatever it starts

The bracketed process exists where pid namespaces do; ending it ends everything below, at once. Elsewhere the warden
adopts orphans and ends them one by one. Never touches CUDA, a candidate or a reference itself, and stays
single-threaded, so that a fork is a clean copy.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from stitchcuda.tools.sandbox import kernel
from stitchcuda.tools.sandbox.tree import kill_descendants
from stitchcuda.tools.sandbox.walls import limit_resources, raise_walls
from stitchcuda.tools.sandbox.wire import Channel, close_all

__all__ = ["main"]

_CHANNEL_FD = 3
_PRELOADED = (
    "torch.utils.cpp_extension",
    "stitchcuda.tools.build.capture",
    "stitchcuda.tools.build.loader",
    "stitchcuda.tools.emulator.device",
    "stitchcuda.tools.checks.candidate_worker",
    "stitchcuda.tools.checks.reference_worker",
)
_PRELOADED_WITHOUT_GPU = (
    "torch._dynamo",
    "torch.fx.experimental.symbolic_shapes",
    "torch._functorch.aot_autograd",
    "torch._export.non_strict_utils",
    "torch.utils.flop_counter",
)
"""What capturing an op graph imports on first use: two seconds in each worker that does. Only where there is no GPU:
nobody has checked yet that importing these asks for none."""
_IDLE_S = 1.0
_GUARD_S = 0.25


def main(control_fd: int, root: str, off: tuple[str, ...] = ()) -> None:
    """Serve until the parent closes the control socket or is gone; then end all workers and remove ``root``."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C belongs to the parent, which ends us in order
    os.setsid()
    kernel.become_subreaper()
    control = Channel(socket.socket(fileno=control_fd))
    _preload()
    namespaces = () if "namespaces" in off else _best_namespaces()
    gc.collect()
    gc.freeze()  # forked workers then share the memory of everything imported so far
    control.send({"ready": True, "namespaces": list(namespaces)})
    while os.getppid() == parent:
        _reap()
        try:
            request, descriptors = control.receive(timeout_s=_IDLE_S)
        except TimeoutError:
            continue
        except (EOFError, OSError):
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            _warden(request, descriptors, namespaces)
        close_all(descriptors)
        pidfd = os.pidfd_open(pid)
        try:
            control.send({"pid": pid}, [pidfd])
        except OSError:
            break
        finally:
            os.close(pidfd)
    kill_descendants(os.getpid())
    shutil.rmtree(root, ignore_errors=True)


def _preload() -> None:
    """What nearly every worker needs; must start no thread and open no device."""
    import torch

    # torch.utils.cpp_extension asks for a GPU when it is imported, only to print a notice; but a process that has
    # asked cannot use CUDA after a fork.
    asked = torch.cuda.is_available
    setattr(torch.cuda, "is_available", lambda: True)  # noqa: B010  # mypy forbids the plain assignment
    try:
        for name in _PRELOADED:
            import_module(name)
    finally:
        setattr(torch.cuda, "is_available", asked)  # noqa: B010
    if not Path("/dev/nvidiactl").exists():
        for name in _PRELOADED_WITHOUT_GPU:
            import_module(name)
    torch.set_num_threads(1)


def _best_namespaces() -> tuple[str, ...]:
    for names in kernel.NAMESPACE_SETS:
        pid = os.fork()
        if pid == 0:
            try:
                kernel.enter_namespaces(names)
                if "pid" in names:
                    child = os.fork()
                    if child == 0:
                        os._exit(0)
                    os.waitpid(child, 0)
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            return names
    return ()


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _warden(request: dict[str, Any], descriptors: list[int], namespaces: tuple[str, ...]) -> NoReturn:
    """Start the worker inside its walls, wait for it, report how it ended, leave nothing behind."""
    server = os.getppid()
    channel, log, status = descriptors
    kernel.die_with_parent(server)
    os.setsid()
    kernel.become_subreaper()
    with contextlib.suppress(OSError):
        kernel.enter_namespaces(namespaces)
    if "pid" not in namespaces:
        _watch(request, channel, log, status, parent=os.getpid(), mounts=False)
    first = os.fork()
    if first == 0:
        kernel.die_with_parent(0)
        _watch(request, channel, log, status, parent=1, mounts="mount" in namespaces)
    close_all(descriptors)
    os.waitpid(first, 0)
    os._exit(0)


def _watch(request: dict[str, Any], channel: int, log: int, status: int, *, parent: int, mounts: bool) -> NoReturn:
    if mounts:
        try:
            kernel.hide_other_processes()
        except OSError:
            mounts = False
        if "disk" not in request["walls"]["off"]:
            with contextlib.suppress(OSError):
                kernel.mount_private_disk(request["folder"], request["limits"]["disk_bytes"])
    worker = os.fork()
    if worker == 0:
        kernel.die_with_parent(parent)
        _worker(request, channel, log)
    close_all([channel, log])
    limit = request["limits"]["processes"] if mounts else None  # only then does /proc show these processes alone
    said = {"code": -signal.SIGKILL, "why": "started too many processes"}
    if (code := _wait_for(worker, limit)) is not None:
        said = {"code": os.waitstatus_to_exitcode(code)}
    os.write(status, json.dumps(said).encode())
    if parent != 1:
        kill_descendants(os.getpid())
    os._exit(0)


def _wait_for(worker: int, most_processes: int | None) -> int | None:
    """The worker's wait status; ``None`` when too many processes are alive around it.

    The kernel's own limit comes first, but it does not hold for root.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        ended, code = os.waitpid(-1, os.WNOHANG)
        if ended == worker:
            return code
        if ended:
            continue
        if most_processes is not None:
            alive = sum(entry.name.isdigit() for entry in Path("/proc").iterdir())
            if alive > most_processes + 1:
                return None
        signal.sigtimedwait([signal.SIGCHLD], _GUARD_S)


def _worker(request: dict[str, Any], channel: int, log: int) -> NoReturn:
    """Become the worker: descriptors, environment and limits first, then its entry function; never returns."""
    code = 1
    try:
        os.setsid()
        _arrange_descriptors(channel, log)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        folder = request["folder"]
        os.chdir(folder)
        os.environ.update(HOME=folder, TMPDIR=folder, TORCH_EXTENSIONS_DIR=f"{folder}/extensions")
        os.environ.update(TRITON_CACHE_DIR=f"{folder}/triton", TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor")
        os.environ.update(XDG_CACHE_HOME=f"{folder}/cache", CUDA_CACHE_PATH=f"{folder}/nv")
        sys.path[:] = [*request["sys_path"], *(p for p in sys.path if p not in request["sys_path"])]
        os.environ.update(USER="worker", LOGNAME="worker")  # libraries that ask who they are need no account file
        os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1")  # its pool of processes would need sockets
        limit_resources(request["limits"])
        _threads(int(request["limits"]["threads"] or 1))
        raise_walls(folder, request["walls"])
        module, function = request["entry"].split(":")
        getattr(import_module(module), function)(Channel(socket.socket(fileno=_CHANNEL_FD)), Path(folder))
        code = 0
    except EOFError:
        code = 0  # the parent has closed the channel: an orderly end
    except BaseException:  # noqa: BLE001  # a forked child must not run on into the server's own frames
        traceback.print_exc()
    finally:
        # No interpreter shutdown: it would run the server's exit handlers, and CUDA's can hang.
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _arrange_descriptors(channel: int, log: int) -> None:
    """0: null, 1 and 2: the log, 3: the channel; everything else that was inherited is closed."""
    spare = os.dup(channel), os.dup(log), os.open(os.devnull, os.O_RDONLY)
    high = [os.dup2(fd, 200 + i, inheritable=False) for i, fd in enumerate(spare)]
    for target, fd in ((0, high[2]), (1, high[1]), (2, high[1])):
        os.dup2(fd, target, inheritable=True)
    os.dup2(high[0], _CHANNEL_FD, inheritable=False)
    os.closerange(_CHANNEL_FD + 1, os.sysconf("SC_OPEN_MAX"))


def _threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
