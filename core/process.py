"""Run a command to its end, within a wall-clock limit, with bounded output.

Comes in: an argument list. Goes out: ``Completed``, also for a command that failed or ran out of
time; only a program that does not exist raises. The command gets its own process group, and the
whole group is killed at the limit or when the caller is interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.core.errors import ToolchainError

__all__ = ["Completed", "kill_group", "run_command"]

OUTPUT_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True)
class Completed:
    """What a command did. ``output`` is stdout and stderr together; ``cut_bytes`` were left out of its middle."""

    command: tuple[str, ...]
    returncode: int
    output: str
    cut_bytes: int
    timed_out: bool
    cancelled: bool
    seconds: float

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and not self.timed_out and not self.cancelled


def kill_group(pid: int) -> None:
    """SIGKILL the process group led by ``pid``; a group that is gone is fine."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def run_command(
    command: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    cancel: threading.Event | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
) -> Completed:
    """Run ``command`` and wait for it.

    Args:
        timeout_s: wall-clock limit; past it the group is killed and ``timed_out`` is set.
        cancel: when set by another thread, the group is killed within 50 ms.

    Raises:
        ToolchainError: the program does not exist or cannot be executed.
    """
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolchainError(f"cannot run {command[0]}: {error.strerror or error}") from error

    head, tail = bytearray(), bytearray()
    total = 0
    half = output_limit_bytes // 2

    def drain() -> None:
        nonlocal total
        assert process.stdout is not None
        while chunk := process.stdout.read1(65536):  # type: ignore[attr-defined]  # a BufferedReader
            total += len(chunk)
            room = max(0, half - len(head))
            head.extend(chunk[:room])
            tail.extend(chunk[room:])
            if len(tail) > half:
                del tail[: len(tail) - half]

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    timed_out = cancelled = False
    try:
        while True:
            try:
                process.wait(timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                cancelled = cancel is not None and cancel.is_set()
                timed_out = not cancelled and time.monotonic() - started > timeout_s
                if cancelled or timed_out:
                    break
    finally:
        kill_group(process.pid)
        process.wait()
    reader.join(timeout=2)
    if not reader.is_alive():  # else something that left the group still holds the other end
        assert process.stdout is not None
        process.stdout.close()
    cut = total - len(head) - len(tail)
    middle = f"\n… {cut} bytes cut …\n".encode() if cut > 0 else b""
    return Completed(
        command=tuple(command),
        returncode=process.returncode,
        output=(bytes(head) + middle + bytes(tail)).decode("utf-8", errors="replace"),
        cut_bytes=max(0, cut),
        timed_out=timed_out,
        cancelled=cancelled,
        seconds=time.monotonic() - started,
    )
