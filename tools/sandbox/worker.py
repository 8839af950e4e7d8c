"""A handle on one worker: ask it, kill it, close it. In the parent; never imports torch.

A worker that ends, hangs, floods its log or breaks the protocol raises ``WorkerGone``, which says which of these it
was; what that means (a bad candidate, a machine at fault) is left to the caller.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stitchcuda.core.errors import WorkerError
from stitchcuda.tools.sandbox.log import LogReader
from stitchcuda.tools.sandbox.tree import kill_descendants
from stitchcuda.tools.sandbox.wire import Channel, ProtocolError, close_all

__all__ = ["Limits", "Worker", "WorkerGone"]

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
    disk_bytes: int = 4 << 30
    """All files of the private folder together, where it can be a disk of its own."""
    open_only: tuple[Path, ...] = ()
    """Folders outside of the private one whose files may be read, but not listed."""


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
            code, why = self._exit_code()
            if why:
                how, message = "signal", f"was killed: it {why}"
            elif code < 0:
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

    def _exit_code(self) -> tuple[int, str]:
        """The exit code, and why the guard ended it if it did."""
        poller = select.poll()
        poller.register(self._status_fd, select.POLLIN)
        if not poller.poll(1000):
            return -signal.SIGKILL, ""
        data = os.read(self._status_fd, 256)
        try:
            told = json.loads(data)
            return int(told["code"]), str(told.get("why", ""))
        except (ValueError, KeyError, TypeError):
            return -signal.SIGKILL, ""  # the walls fell with the worker: only a kill from outside does that


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
