"""``run_isolated``: one call of a trusted function in a worker of its own, JSON in, JSON out.

For our own code that has to import torch or execute a user's reference program: a crash, a hang or a memory leak
stays in the worker, and the caller's process stays light.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import WorkerError, one_line
from stitchcuda.tools.sandbox.client import Limits, WorkerGone, spawn_worker
from stitchcuda.tools.sandbox.wire import Channel, close_all

__all__ = ["IsolatedError", "run_isolated"]


class IsolatedError(WorkerError):
    """The function raised, or its worker ended.

    ``kind`` is the name of the exception class (``ProblemError``), ``TimeoutError`` past the limit, or
    ``WorkerGone`` when the process crashed; ``message`` is one line.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def run_isolated(target: str, kwargs: dict[str, Any], timeout_s: float) -> Any:
    """Call ``module:function(**kwargs)`` in a fresh forked worker and return its JSON-able result.

    Tuples come back as lists. The function runs in an empty private folder, without network, with a clean
    environment, with two torch threads.

    Raises:
        IsolatedError: see there.
        ToolchainError: no worker can be started on this machine.
    """
    worker = spawn_worker(f"{__name__}:serve_one", Limits(threads=2), name="isolated")
    try:
        reply, descriptors = worker.request({"target": target, "kwargs": kwargs}, timeout_s=timeout_s)
        close_all(descriptors)
    except WorkerGone as gone:
        if gone.how == "timeout":
            raise IsolatedError("TimeoutError", f"{target} did not end within {timeout_s:g} s") from None
        last = gone.log.strip().splitlines()
        raise IsolatedError("WorkerGone", f"{gone}; it said: {last[-1]}" if last else str(gone)) from None
    finally:
        worker.close()
    if "error" in reply:
        raise IsolatedError(str(reply["error"]["kind"]), str(reply["error"]["message"]))
    return reply["value"]


def serve_one(channel: Channel, _folder: Path) -> None:
    """Worker side."""
    request, descriptors = channel.receive()
    close_all(descriptors)
    try:
        module, _, function = request["target"].partition(":")
        answer = {"value": getattr(import_module(module), function)(**request["kwargs"])}
    except Exception as error:  # noqa: BLE001  # it is not hidden: it is raised again in the caller's process
        answer = {"error": {"kind": type(error).__name__, "message": one_line(error, 2000)}}
    channel.send(answer | {"reply": request["request"]})
