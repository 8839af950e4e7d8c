"""The parent's side: one fork server per process, and a handle on each worker.

Comes in: the name of a trusted entry function and limits. Goes out: a ``Worker`` to talk to. A worker that ends,
hangs, floods its log or breaks the protocol raises ``WorkerGone``, which says which of these it was; what that means
(a bad candidate, a machine at fault) is left to the caller. Never imports torch.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stitchcuda.core.errors import ToolchainError, WorkerError
from stitchcuda.tools.sandbox.log import LogReader
from stitchcuda.tools.sandbox.tree import kill_descendants
from stitchcuda.tools.sandbox.wire import Channel, ProtocolError, close_all

__all__ = ["Limits", "Worker", "WorkerGone", "spawn_worker", "warm_up"]

_START_TIMEOUT_S = 180.0
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
    "main(setup['control_fd'], setup['root'])\n"
)

Handler = Callable[[dict[str, Any], list[int]], tuple[dict[str, Any], Sequence[int]]]


class WorkerGone(WorkerError):
    """A worker that does not answer any more.

    ``how`` is ``exit`` (ended by itself), ``signal``, ``timeout``, ``protocol``, ``flood`` or ``cancelled``.
    """

    def __init__(self, message: str, how: str, log: str = "") -> None:
        super().__init__(message)
        self.how = how
        self.log = log


@dataclass(frozen=True)
class Limits:
    """What a worker may use. ``None``: not limited."""

    as_bytes: int | None = None
    """Address space; not usable with CUDA, which reserves far more than it uses."""
    file_bytes: int | None = 4 << 30
    """Size of one file, memory files included."""
    processes: int | None = 512
    """Processes and threads; counted per user where user namespaces are missing, so not applied there."""
    threads: int = 1
    """Torch's CPU threads."""


class _ForkServer:
    """The running server of this process; replaced when it has died."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.root = Path(tempfile.mkdtemp(prefix="stitchcuda-"))
        ours, theirs = socket.socketpair()
        setup = {"sys_path": _python_path(), "control_fd": theirs.fileno(), "root": str(self.root)}
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        environment |= {"HOME": str(self.root), "TMPDIR": str(self.root)}
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


def _python_path() -> list[str]:
    """This process's import path, absolute, without the current folder's moving entry."""
    home = str(Path(sys.modules["stitchcuda"].__path__[0]).parent)
    entries = [str(Path(entry).resolve()) for entry in sys.path if entry]
    return [home, *(entry for entry in entries if entry != home)]


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
        if _server is not None and _server.owner == os.getpid():
            _server.stop()
        _server = None


def spawn_worker(entry: str, limits: Limits, *, name: str = "worker") -> Worker:
    """Fork a worker that starts with the trusted ``module:function`` (called with its channel and folder).

    Raises:
        ToolchainError: the fork server does not start on this machine.
    """
    with _lock:
        for attempt in (1, 2):
            server = _running_server()
            try:
                server.wait_ready()
                return _spawn(server, entry, limits, name)
            except (OSError, EOFError) as error:
                # The server died between two requests: once is bad luck, twice is the machine.
                server.stop()
                if attempt == 2:
                    raise WorkerError(f"the fork server of workers keeps dying: {error}") from error
    raise AssertionError("unreachable")


def _spawn(server: _ForkServer, entry: str, limits: Limits, name: str) -> Worker:
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=server.root))
    ours, theirs = socket.socketpair()
    log_read, log_write = os.pipe()
    status_read, status_write = os.pipe()
    processes = limits.processes if "user" in (server.namespaces or ()) else None
    request = {
        "entry": entry,
        "folder": str(folder),
        "sys_path": _python_path(),
        "limits": {
            "as_bytes": limits.as_bytes,
            "file_bytes": limits.file_bytes,
            "processes": processes,
            "threads": limits.threads,
        },
    }
    try:
        server.control.send(request, [theirs.fileno(), log_write, status_write], timeout_s=10)
        header, descriptors = server.control.receive(timeout_s=30)
    except BaseException:
        close_all([log_read, status_read])
        ours.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        theirs.close()
        close_all([log_write, status_write])
    return Worker(header["pid"], descriptors[0], Channel(ours), LogReader(log_read), status_read, folder)


class Worker:
    """A handle on one worker. One caller at a time; ``kill`` may come from any thread."""

    def __init__(self, pid: int, pidfd: int, channel: Channel, log: LogReader, status_fd: int, folder: Path) -> None:
        self.pid = pid
        """The warden's process id."""
        self.folder = folder
        self._pidfd = pidfd
        self._channel = channel
        self._log = log
        self._status_fd = status_fd
        self._why: Literal["", "timeout", "protocol", "flood", "cancelled", "closed"] = ""
        self._kill_lock = threading.Lock()
        self._closed = False
        log.on_flood = lambda: self.kill("flood")

    def request(
        self,
        header: dict[str, Any],
        descriptors: Sequence[int] = (),
        *,
        timeout_s: float,
        handlers: dict[str, Handler] | None = None,
    ) -> tuple[dict[str, Any], list[int]]:
        """Send ``header`` and wait for its reply, serving the worker's own requests named in ``handlers`` meanwhile.

        Time spent in a handler does not count. The reply carries the request's number, which is random, so that a
        reply made in advance does not pass.

        Raises:
            WorkerGone: there is no valid reply; the worker has been killed.
        """
        number = secrets.token_hex(8)
        deadline = time.monotonic() + timeout_s
        try:
            self._channel.send(header | {"request": number}, descriptors, timeout_s=timeout_s)
            while True:
                message, received = self._channel.receive(timeout_s=max(0.001, deadline - time.monotonic()))
                if message.get("reply") == number:
                    return message, received
                close_all(received)
                handler = (handlers or {}).get(str(message.get("ask")))
                if handler is None:
                    raise ProtocolError("a message that nobody asked for on the worker's channel")
                started = time.monotonic()
                answer, attached = handler(message, [])
                deadline += time.monotonic() - started
                self._channel.send(answer, attached, timeout_s=max(0.001, deadline - time.monotonic()))
        except TimeoutError:
            self.kill("timeout")
            raise self._gone(f"no answer within {timeout_s:g} s") from None
        except ProtocolError as error:
            self.kill("protocol")
            raise self._gone(str(error)) from None
        except (EOFError, OSError):
            raise self._gone("ended before it answered") from None

    def kill(self, why: Literal["timeout", "protocol", "flood", "cancelled", "closed"] = "cancelled") -> None:
        """End the worker and everything that it started; returns when they are gone."""
        with self._kill_lock:
            if self._closed:
                return
            self._why = self._why or why
            kill_descendants(self.pid)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self._wait(2.0)

    def close(self) -> None:
        """End the worker, remove its folder, close every descriptor. Safe to call twice."""
        self.kill("closed")
        with self._kill_lock:
            if self._closed:
                return
            self._closed = True
            self._channel.close()
            self._log.close()
            close_all([self._status_fd, self._pidfd])
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def log(self) -> str:
        """What the worker has written to stdout and stderr, its middle cut when long."""
        return self._log.text()

    def _wait(self, timeout_s: float) -> bool:
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    def _gone(self, message: str) -> WorkerGone:
        """Find out how it ended (the channel may break a moment before the process does)."""
        how: str = self._why
        if not how:
            if not self._wait(1.0):
                self.kill("protocol")
                return WorkerGone("closed its channel and went on running", "protocol", self.log)
            how = self._why
        if not how:
            code = self._exit_code()
            if code < 0:
                how = "signal"
                message = f"was killed by {_signal_name(-code)}"
                if code == -signal.SIGKILL:
                    message += " (out of memory?)"
            else:
                how, message = "exit", f"ended with exit code {code} before it answered"
        elif how == "flood":
            message = "wrote too much to stdout or stderr"
        elif how == "cancelled":
            message = "was cancelled"
        return WorkerGone(message, how, self.log)

    def _exit_code(self) -> int:
        poller = select.poll()
        poller.register(self._status_fd, select.POLLIN)
        if not poller.poll(1000):
            return -signal.SIGKILL
        data = os.read(self._status_fd, 256)
        try:
            return int(json.loads(data)["code"])
        except (ValueError, KeyError, TypeError):
            return -signal.SIGKILL  # the walls fell with the worker: only a kill from outside does that


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
