"""The timing stage of one evaluation: a lock on the GPU, one or more candidate processes, remembered baselines."""

from __future__ import annotations

import contextlib
import fcntl
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.core.errors import WorkerError
from stitchcuda.core.records import TimingReport
from stitchcuda.tools.checks.run import construct, set_weights
from stitchcuda.tools.checks.session import CandidateSession, ReferenceSession
from stitchcuda.tools.sandbox.wire import close_all
from stitchcuda.tools.timing.baselines import COMPILED, Baseline, Remembered, recall, remember
from stitchcuda.tools.timing.nvml import read_clocks, used_and_total_bytes
from stitchcuda.tools.timing.report import learned, summarise
from stitchcuda.tools.timing.run import Measured, measure

__all__ = ["TimingOptions", "run_timing"]

_LOCK_PATIENCE_S = 1800.0


@dataclass(frozen=True)
class TimingOptions:
    """What does not depend on the candidate."""

    device: str
    baselines: tuple[Baseline, ...]
    budget_s: float
    """For each process."""
    processes: int
    folder: Path
    """Where locks and compiled baselines are kept."""
    key: str
    """Digest of the problem and the machine."""


def run_timing(
    reference: ReferenceSession,
    open_candidate: Callable[[], AbstractContextManager[CandidateSession]],
    options: TimingOptions,
    seed: int,
    should_stop: Callable[[], None] = lambda: None,
) -> TimingReport:
    """Time the candidate against every baseline; compiled ones only when they are not remembered yet.

    Args:
        open_candidate: a new process with the candidate imported.
        should_stop: raises when the evaluation was cancelled.

    Raises:
        CandidateFailed: the timed calls gave it away.
        WorkerError: the reference's process failed, or other evaluations never let go of the GPU.
    """
    started = time.monotonic()
    secret = random.Random(seed)
    kept = {name: recall(options.folder, options.key, name) for name in options.baselines if name in COMPILED}
    remembered: dict[str, Remembered] = {name: entry for name, entry in kept.items() if entry is not None}
    wanted = [name for name in options.baselines if name not in remembered]
    measured: list[Measured] = []
    with _gpu_alone(options.folder / f"{options.device.replace(':', '-')}.lock", should_stop):
        clocks = {f"before_{name}": value for name, value in read_clocks(options.device).items()}
        for _ in range(max(1, options.processes)):
            try:
                measured.append(_one_process(reference, open_candidate, options, wanted, secret))
            except WorkerError:
                # Where compiling ends the worker it would do so again: next time without it.
                for name in (name for name in wanted if name in COMPILED):
                    remember(options.folder, options.key, name, Remembered(error="the worker ended with it"))
                raise
        clocks |= {f"after_{name}": value for name, value in read_clocks(options.device).items()}
    for baseline, found in learned(measured).items():
        remember(options.folder, options.key, baseline, found)
    return summarise(measured, options.baselines, remembered, clocks, time.monotonic() - started)


def _one_process(
    reference: ReferenceSession,
    open_candidate: Callable[[], AbstractContextManager[CandidateSession]],
    options: TimingOptions,
    baselines: Sequence[str],
    secret: random.Random,
) -> Measured:
    with open_candidate() as candidate:
        transfer = construct(reference, candidate)
        fresh = transfer.how in ("by_name", "by_order")
        set_weights(reference, candidate, transfer, secret.randrange(1 << 31) if fresh else None)
        found = measure(
            reference,
            candidate,
            baselines=baselines,
            budget_s=options.budget_s,
            seed=secret.randrange(1 << 62),
            input_bytes=int(reference.info["input_bytes"]),
            used_bytes=lambda: (used_and_total_bytes(options.device) or (None,))[0],
        )
    close_all(reference.ask("time_end")[1])
    return found


@contextlib.contextmanager
def _gpu_alone(path: Path, should_stop: Callable[[], None], patience_s: float = _LOCK_PATIENCE_S) -> Iterator[None]:
    """One timing at a time on a GPU, over all processes that share ``path``.

    Raises:
        WorkerError: another one held it for longer than ``patience_s``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience_s
    with path.open("w") as file:
        while True:
            should_stop()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise WorkerError("another evaluation has been timing on this GPU for too long") from None
                time.sleep(0.05)
        yield
