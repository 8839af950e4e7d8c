"""The parent's handles on a reference worker and a candidate worker: operations by name, failures as types.

Comes in: sources and descriptors. Goes out: JSON numbers and descriptors that are passed on unread. A reference that
cannot be used raises ``ProblemError``; a candidate that fails raises ``CandidateFailed``, which the stages of the
evaluator turn into data.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import ProblemError, WorkerError
from stitchcuda.core.records import Status
from stitchcuda.tools.checks.verdict import numerics_reason
from stitchcuda.tools.sandbox.client import Limits, Worker, WorkerGone, spawn_worker
from stitchcuda.tools.sandbox.memory import is_sealed
from stitchcuda.tools.sandbox.wire import close_all

__all__ = ["CandidateFailed", "CandidateSession", "ReferenceSession"]

Reply = tuple[dict[str, Any], list[int]]
BuildHandler = Callable[[dict[str, Any]], dict[str, Any]]

_CPU_ADDRESS_SPACE_BYTES = 16 << 30
_FILE_BYTES = 16 << 30
_MAX_BUILDS = 32


class CandidateFailed(Exception):
    """What a candidate did instead of answering; becomes a status, never leaves this room."""

    def __init__(self, status: Status, reason: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.line = line


def _limits(device: str, open_only: tuple[Path, ...] = ()) -> Limits:
    # CUDA reserves address space by the hundred gigabytes, so it cannot be limited there.
    return Limits(
        as_bytes=_CPU_ADDRESS_SPACE_BYTES if device == "cpu" else None,
        file_bytes=_FILE_BYTES,
        processes=512,
        # One: at reduced sizes a second thread costs more than it brings, most of all on a busy machine.
        threads=1 if device == "cpu" else 4,
        open_only=open_only,
    )


class ReferenceSession:
    """One reference worker with its model loaded."""

    def __init__(self, source: str, device: str, timeout_s: float, register: Callable[[Worker], None]) -> None:
        self.timeout_s = timeout_s
        self.device = device
        self.seed = secrets.randbelow(1 << 31)
        """For construction, shared with the candidate; the inputs' seeds are others."""
        self._worker = spawn_worker(
            "stitchcuda.tools.checks.reference_worker:main", _limits(device), name="reference", gpu=device != "cpu"
        )
        register(self._worker)
        try:
            self.info, self._init_descriptors = self.ask("load", source=source, device=device, seed=self.seed)
        except BaseException:
            self._worker.close()
            raise

    def ask(self, op: str, descriptors: Sequence[int] = (), **fields: Any) -> Reply:
        """One operation of ``reference_worker``.

        Raises:
            ProblemError: the reference program cannot be used.
            WorkerError: the worker failed in another way (memory, a crash, a time-out).
        """
        reply, attached = self._worker.request({"op": op, **fields}, descriptors, timeout_s=self.timeout_s)
        if "problem" in reply:
            close_all(attached)
            raise ProblemError(reply["problem"])
        if "failed" in reply:
            close_all(attached)
            told = reply["failed"]
            raise WorkerError(f"the reference worker failed: {told['kind']}: {told['message']}")
        return reply, attached

    @property
    def worker(self) -> Worker:
        return self._worker

    @property
    def init_descriptors(self) -> list[int]:
        return self._init_descriptors

    def close(self) -> None:
        self._worker.close()
        close_all(getattr(self, "_init_descriptors", []))
        self._init_descriptors = []


class CandidateSession:
    """One candidate worker."""

    def __init__(
        self,
        source: str,
        device: str,
        timeout_s: float,
        register: Callable[[Worker], None],
        build: BuildHandler,
        extensions: tuple[Path, ...] = (),
    ) -> None:
        self._source = source
        self._device = device
        self._timeout_s = timeout_s
        self._build = build
        self._builds = 0
        self._worker = spawn_worker(
            "stitchcuda.tools.checks.candidate_worker:main",
            _limits(device, extensions),
            name="candidate",
            gpu=device != "cpu",
        )
        register(self._worker)

    @property
    def worker(self) -> Worker:
        return self._worker

    def import_source(self) -> dict[str, Any]:
        """Execute the file; builds are served meanwhile."""
        reply, attached = self.ask("import", source=self._source, device=self._device)
        close_all(attached)
        if not reply.get("has_modelnew"):
            raise CandidateFailed(Status.RUNTIME_ERROR, "missing_modelnew", "the candidate defines no ModelNew")
        for key, what in (("tampered", "replaced"), ("numerics", "set")):
            told = reply.get(key)
            if isinstance(told, list) and told:
                reason = numerics_reason(told) if key == "numerics" else "harness_tamper"
                raise CandidateFailed(Status.CHEATING, reason, f"the candidate {what} {str(told[0])[:200]} at import")
        return reply

    def ask(self, op: str, descriptors: Sequence[int] = (), **fields: Any) -> Reply:
        """One operation of ``candidate_worker``.

        Raises:
            CandidateFailed: it raised, ended, hung, flooded its log or broke the protocol.
        """
        try:
            reply, attached = self._worker.request(
                {"op": op, **fields},
                descriptors,
                timeout_s=self._timeout_s,
                handlers={"build": self._serve_build},
            )
        except WorkerGone as gone:
            if gone.how == "cancelled":
                raise
            raise _failure(gone, op) from None
        if any(not is_sealed(descriptor) for descriptor in attached):
            close_all(attached)
            raise CandidateFailed(
                Status.RUNTIME_ERROR, "protocol_broken", "the worker sent descriptors that are no sealed memory"
            )
        error = reply.get("error")
        if error is None:
            return reply, attached
        close_all(attached)
        raise _raised(error, op)

    def _serve_build(self, message: dict[str, Any], _: list[int]) -> Reply:
        self._builds += 1
        if self._builds > _MAX_BUILDS:
            return {"build": {"ok": False, "name": "", "target": "", "diagnostics": []}}, []
        return {"build": self._build(message)}, []

    def close(self) -> None:
        self._worker.close()


def _failure(gone: WorkerGone, op: str) -> CandidateFailed:
    status = Status.TIMEOUT if gone.how == "timeout" else Status.RUNTIME_ERROR
    reason = {
        "timeout": "timeout",
        "exit": "early_exit",
        "signal": "crashed",
        "flood": "output_flood",
        "protocol": "protocol_broken",
    }.get(gone.how, "worker_gone")
    said = gone.log.strip().splitlines()
    message = f"the candidate's process {gone} during {op}"
    if gone.how == "signal" and said:
        message += f"; it said: {said[-1][:300]}"
    return CandidateFailed(status, reason, message.replace("process no answer", "process gave no answer"))


def _raised(error: Any, op: str) -> CandidateFailed:
    """The exception that the worker reports; the report itself is foreign data."""
    told = error if isinstance(error, dict) else {}
    kind, message = str(told.get("kind"))[:100], str(told.get("message"))[:1000]
    line = told.get("line") if isinstance(told.get("line"), int) else None
    if kind in ("SystemExit", "KeyboardInterrupt"):
        reason = "early_exit"
    elif told.get("out_of_memory") is True:
        reason = "out_of_memory"
    elif kind == "AcceleratorError" or "CUDA error" in message or "CUDA kernel" in message:
        # What follows the first sentence is torch's advice on debugging flags.
        reason, message = "cuda_error", message.partition(" Search for ")[0]
    elif kind in ("SyntaxError", "IndentationError", "TabError"):
        reason = "syntax_error"
    elif op == "import":
        reason = "import_error"
    else:
        reason = "exception"
    where = f" (line {line})" if line else ""
    if "not supported by the cpu device" in message:  # met while a kernel ran: no verdict about the candidate
        return CandidateFailed(Status.MACHINE_ERROR, "unsupported_on_cpu", f"{message}{where}", line)
    status = Status.BUILD_FAILED if reason == "syntax_error" else Status.RUNTIME_ERROR
    return CandidateFailed(status, reason, f"{kind}: {message}{where}", line)
