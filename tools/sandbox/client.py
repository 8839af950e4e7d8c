"""The parent's side: one fork server per process, and a handle on each worker.

Comes in: the name of a trusted entry function and limits. Goes out: a ``Worker`` to talk to. A worker that ends,
hangs, floods its log or breaks the protocol raises ``WorkerGone`` (``worker.py``). Never imports torch.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import SettingsError, ToolchainError, WorkerError
from stitchcuda.tools.sandbox.gpu_walls import bearable_walls
from stitchcuda.tools.sandbox.log import LogReader
from stitchcuda.tools.sandbox.paths import device_paths, python_path, readable_paths
from stitchcuda.tools.sandbox.tree import kill_descendants
from stitchcuda.tools.sandbox.walls import SWITCHES
from stitchcuda.tools.sandbox.wire import Channel, close_all
from stitchcuda.tools.sandbox.worker import Limits, Worker, WorkerGone

__all__ = ["Limits", "Worker", "WorkerGone", "kept_environment", "spawn_worker", "walls_off", "warm_up"]

_START_TIMEOUT_S = 180.0
_SPAWN_TIMEOUT_S = 120.0
_KEPT_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
)
"""What workers see of the environment: where libraries and devices are; no keys."""

_BOOT = (
    "import json, sys\n"
    "setup = json.loads(sys.argv[1])\n"
    "sys.path[:] = setup['sys_path']\n"
    "from stitchcuda.tools.sandbox.server import main\n"
    "main(setup['control_fd'], setup['root'], tuple(setup['off']))\n"
)


class _ForkServer:
    """The running server of this process; replaced when it has died."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.root = Path(tempfile.mkdtemp(prefix="stitchcuda-"))
        ours, theirs = socket.socketpair()
        self.off = walls_off()
        setup = {"sys_path": python_path(), "control_fd": theirs.fileno(), "root": str(self.root), "off": self.off}
        environment = kept_environment() | {"HOME": str(self.root), "TMPDIR": str(self.root)}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # The server's own messages (a torch that fails to import) are worth showing; workers have logs of their own.
        self._stderr = tempfile.TemporaryFile(dir=self.root)  # noqa: SIM115  # closed in stop()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, json.dumps(setup)],
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
        )
        theirs.close()
        self.control = Channel(ours)
        self.namespaces: tuple[str, ...] | None = None
        self.off_for_gpu: tuple[str, ...] | None = None

    def wait_ready(self) -> None:
        if self.namespaces is not None:
            return
        try:
            header, _ = self.control.receive(timeout_s=_START_TIMEOUT_S)
        except (EOFError, TimeoutError, OSError) as error:
            self._stderr.seek(0)
            said = self._stderr.read().decode(errors="replace").strip().splitlines()
            self.stop()
            last = said[-1] if said else "no message"
            raise ToolchainError(f"the fork server of workers did not start (is torch installed?): {last}") from error
        self.namespaces = tuple(header["namespaces"])

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        self.control.close()
        try:
            self.process.wait(timeout=4)
        except subprocess.TimeoutExpired:
            kill_descendants(self.process.pid)
            self.process.kill()
            self.process.wait()
        self._stderr.close()
        shutil.rmtree(self.root, ignore_errors=True)


_lock = threading.Lock()
_server: _ForkServer | None = None
_retired: list[_ForkServer] = []


def kept_environment() -> dict[str, str]:
    """The part of the environment that foreign code may see."""
    return {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}


def walls_off() -> tuple[str, ...]:
    """The walls that ``STITCHCUDA_SANDBOX_OFF`` turns off.

    Raises:
        SettingsError: it names something else.
    """
    names = tuple(name.strip() for name in Environment().sandbox_off.split(",") if name.strip())
    if unknown := [name for name in names if name not in SWITCHES]:
        raise SettingsError(f"STITCHCUDA_SANDBOX_OFF names {unknown[0]!r}; it may name {', '.join(SWITCHES)}")
    return names


def _running_server() -> _ForkServer:
    """The server of this process, started if need be; the caller holds the lock."""
    global _server
    if _server is not None and _server.owner != os.getpid():
        _server = None  # inherited through a fork; it belongs to our parent
    if _server is not None and not _server.alive:
        _server.stop()
        _server = None
    if _server is None:
        _server = _ForkServer()
    return _server


def warm_up() -> None:
    """Start the fork server without waiting for it; importing torch takes it seconds."""
    with _lock:
        _running_server()


@atexit.register
def shut_down() -> None:
    """End the fork server and every worker; the next request starts a new one."""
    global _server
    with _lock:
        for server in (*_retired, *([_server] if _server is not None else [])):
            if server.owner == os.getpid():
                server.stop()
        _retired.clear()
        _server = None


def spawn_worker(entry: str, limits: Limits, *, name: str = "worker", gpu: bool = False) -> Worker:
    """Fork a worker that starts with the trusted ``module:function`` (called with its channel and folder).

    Args:
        gpu: the worker will use a GPU: it gets the walls that the driver bears (``gpu_walls``).

    Raises:
        ToolchainError: the fork server does not start on this machine.
        WorkerError: the fork server keeps dying, or does not answer in time.
    """
    with _lock:
        for attempt in (1, 2):
            server = _running_server()
            try:
                server.wait_ready()
                return _spawn(server, entry, limits, name, _off_for_gpu(server) if gpu else server.off)
            except TimeoutError as error:
                # A crowded machine, not a dead server: ending it would end every worker of this process. But its
                # answer may still come, so nobody may ask it again.
                _retire(server)
                raise WorkerError(
                    f"no worker came within {_SPAWN_TIMEOUT_S:.0f} s; is the machine overloaded?"
                ) from error
            except (OSError, EOFError) as error:
                # The server died between two requests: once is bad luck, twice is the machine.
                server.stop()
                if attempt == 2:
                    raise WorkerError(f"the fork server of workers keeps dying: {error}") from error
    raise AssertionError("unreachable")


def _retire(server: _ForkServer) -> None:
    """Let the workers of ``server`` go on, and take a new one for the next; the caller holds the lock."""
    global _server
    _retired.append(server)
    _server = None


def _off_for_gpu(server: _ForkServer) -> tuple[str, ...]:
    """The walls that workers with a GPU do without; tried once per process at most, and remembered beyond it."""
    if server.off_for_gpu is None:

        def spawn(off: tuple[str, ...]) -> Worker:
            return _spawn(server, "stitchcuda.tools.sandbox.gpu_walls:trial", Limits(threads=2), "gpu-trial", off)

        store = Environment().cache_dir / "gpu-walls.json"
        server.off_for_gpu = bearable_walls(spawn, server.off, store)
    return server.off_for_gpu


def _spawn(server: _ForkServer, entry: str, limits: Limits, name: str, off: tuple[str, ...]) -> Worker:
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=server.root))
    ours, theirs = socket.socketpair()
    log_read, log_write = os.pipe()
    status_read, status_write = os.pipe()
    request = {
        "entry": entry,
        "folder": str(folder),
        "sys_path": python_path(),
        "limits": {
            "as_bytes": limits.as_bytes,
            "file_bytes": limits.file_bytes,
            "processes": limits.processes,
            "count_processes": "user" in (server.namespaces or ()),
            "threads": limits.threads,
            "disk_bytes": limits.disk_bytes,
        },
        "walls": {
            "read": readable_paths(),
            "open_only": [str(path.resolve()) for path in limits.open_only],
            "devices": device_paths(),
            "off": off,
        },
    }
    try:
        server.control.send(request, [theirs.fileno(), log_write, status_write], timeout_s=10)
        header, descriptors = server.control.receive(timeout_s=_SPAWN_TIMEOUT_S)
    except BaseException:
        close_all([log_read, status_read])
        ours.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        theirs.close()
        close_all([log_write, status_write])
    return Worker(header["pid"], descriptors[0], Channel(ours), LogReader(log_read), status_read, folder)
