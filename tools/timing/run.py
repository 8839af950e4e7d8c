"""The timing protocol, driven by the parent: candidate and baselines in turns, two clocks, verified outputs.

Candidate and reference live in two processes on one GPU and only ever work one at a time. Each round gives every side
the same calls: contents × a random factor in a random slot, so that neither contents nor addresses repeat in a
pattern. What the last call of a round returned is checked against a golden of exactly those contents.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stitchcuda.core.records import Status
from stitchcuda.tools.checks.session import CandidateFailed, CandidateSession, ReferenceSession
from stitchcuda.tools.checks.verdict import TOLERANCES, judge_leaf
from stitchcuda.tools.sandbox.wire import close_all
from stitchcuda.tools.timing.nvml import PeakMemory
from stitchcuda.tools.timing.stats import ratio_interval, stats

__all__ = ["Measured", "measure"]

_SET_BUDGET_BYTES = 4 << 30
_FLOOR_LIMIT_BYTES = 4 << 30
"""Inputs above this are not probed for what of them matters: it would take seconds."""
_WARM_UPS = 5
_CALLS_PER_ROUND = 10
_MIN_ROUNDS = 5
_MAX_ROUNDS = 50
_TARGET_WIDTH = 0.02
_VERIFY_EVERY = 4
_FIRST_CALL = 1_000_000
"""Timed calls are numbered from here, apart from those of the check."""

Clock = Callable[[], float]


@dataclass
class Measured:
    """What one candidate process gave."""

    times: dict[str, list[list[float]]]
    """Milliseconds, ``[side][round][call]``; the side ``candidate`` is always there, and ``eager``."""
    wall_ms: float = 0.0
    floor_ms: float | None = None
    stopped_by: Literal["interval", "budget", "rounds"] = "rounds"
    peak_extra_bytes: dict[str, int] = field(default_factory=dict)
    uncompiled: dict[str, str] = field(default_factory=dict)


def measure(
    reference: ReferenceSession,
    candidate: CandidateSession,
    *,
    baselines: Sequence[str],
    budget_s: float,
    seed: int,
    input_bytes: int,
    used_bytes: Callable[[], int | None] = lambda: None,
    clock: Clock = time.perf_counter,
) -> Measured:
    """Rounds until the interval of the ratio to eager is within 2 % or ``budget_s`` is spent.

    Args:
        baselines: ways to run the reference; ``eager`` is added when it is missing.
        used_bytes: memory in use on the whole device, by the driver.

    Raises:
        CandidateFailed: with ``cheating`` when a timed output is wrong, the clocks disagree, or the time is below
            what the problem's bytes take.
    """
    secret = random.Random(seed)
    found = Measured(times={})
    sets = _send_inputs(reference, candidate, secret, input_bytes)
    sides = list(dict.fromkeys(("eager", "candidate", *baselines)))
    for side in list(sides):
        try:
            _round(reference, candidate, side, _order(secret, sets, _WARM_UPS))
        except _Uncompiled as reason:
            sides.remove(side)
            found.uncompiled[side] = str(reason)
    started = clock()
    slowest = max(sorted(_round(reference, candidate, side, _order(secret, sets, 3)))[1] for side in sides)
    # A round of slow calls is short, so that several rounds fit into the budget.
    calls = max(1, min(_CALLS_PER_ROUND, int(budget_s * 1e3 / (slowest * len(sides) * _MIN_ROUNDS * 1.5))))

    found.times = {side: [] for side in sides}
    for number in range(_MAX_ROUNDS):
        order = _order(secret, sets, calls)
        turn = list(sides)
        secret.shuffle(turn)
        for side in turn:
            found.times[side].append(_round(reference, candidate, side, order))
        if number % _VERIFY_EVERY == 0:
            _verify(reference, candidate, order[-1], _FIRST_CALL + number)
        if number + 1 >= _MIN_ROUNDS:
            ratio, low, high = ratio_interval(found.times["eager"], found.times["candidate"])
            if (high - low) / ratio <= _TARGET_WIDTH:
                found.stopped_by = "interval"
                break
        if clock() - started > (budget_s if number + 1 >= _MIN_ROUNDS else 2 * budget_s):
            found.stopped_by = "budget"
            break
    _verify(reference, candidate, order[-1], _FIRST_CALL + _MAX_ROUNDS)
    median_ms = stats(found.times["candidate"]).median_ms
    found.wall_ms = _second_clock(candidate, median_ms, budget_s, clock)
    found.floor_ms = _above_floor(reference, median_ms, secret, input_bytes)
    found.peak_extra_bytes = _peak_memory(reference, candidate, used_bytes)
    return found


class _Uncompiled(Exception):
    """``torch.compile`` refuses the reference."""


def _send_inputs(
    reference: ReferenceSession, candidate: CandidateSession, secret: random.Random, input_bytes: int
) -> int:
    """The sets of contents that all calls are made from; how many there are."""
    sets = max(1, min(4, _SET_BUDGET_BYTES // max(1, input_bytes)))
    for _ in range(sets):
        reply, inputs = reference.ask("time_setup", seed=secret.randrange(1 << 31))
        try:
            _, attached = candidate.ask("time_setup", inputs, inputs=reply["inputs"])
            close_all(attached)
        finally:
            close_all(inputs)
    return sets


def _order(secret: random.Random, sets: int, calls: int) -> list[list[Any]]:
    return [[secret.randrange(sets), secret.randrange(sets), secret.uniform(0.9, 1.1)] for _ in range(calls)]


def _round(reference: ReferenceSession, candidate: CandidateSession, side: str, order: list[list[Any]]) -> list[float]:
    if side != "candidate":
        reply, attached = reference.ask("time_round", order=order, side=side)
        if "uncompiled" in reply:
            close_all(attached)
            raise _Uncompiled(reply["uncompiled"])
    else:
        reply, attached = candidate.ask("time_round", order=order)
    close_all(attached)
    times = reply.get("ms")
    if not isinstance(times, list) or len(times) != len(order):
        raise CandidateFailed(Status.CHEATING, "timing_disagreement", f"{side} reported a wrong number of times")
    if not all(isinstance(ms, float) and 0 < ms < float("inf") for ms in times):
        raise CandidateFailed(Status.CHEATING, "timing_disagreement", f"{side} reported impossible times")
    return [float(ms) for ms in times]


def _verify(reference: ReferenceSession, candidate: CandidateSession, entry: list[Any], call: int) -> None:
    _, attached = reference.ask("time_golden", entry=entry, call=call)
    close_all(attached)
    reply, outputs = candidate.ask("time_last")
    try:
        numbers, attached = reference.ask(
            "compare",
            outputs,
            outputs=reply.get("outputs"),
            call=call,
            tolerances=TOLERANCES,
            buffers=None,
            names={},
        )
        close_all(attached)
    finally:
        close_all(outputs)
    if "malformed" in numbers:
        raise CandidateFailed(Status.RUNTIME_ERROR, "protocol_broken", f"malformed outputs: {numbers['malformed']}")
    failed = [check for check, _ in (judge_leaf("timed", leaf) for leaf in numbers["leaves"]) if not check.ok]
    if failed:
        message = f"right when checked, wrong when timed: {failed[0].output}: {failed[0].message}"
        raise CandidateFailed(Status.CHEATING, "stale_output", message)


def _second_clock(candidate: CandidateSession, median_ms: float, budget_s: float, clock: Clock) -> float:
    """Milliseconds per call by the parent's wall clock around device-wide synchronised batches.

    The difference of a long and a short batch cancels the cost of talking to the worker. Work that the events did not
    see (another stream, a late thread) shows here, because the batch waits for the whole device.
    """
    many = max(4, min(200, int(0.2 * budget_s * 1e3 / max(median_ms, 0.02))))

    def wall(calls: int) -> float:
        started = clock()
        _, attached = candidate.ask("time_batch", calls=calls)
        close_all(attached)
        return (clock() - started) * 1e3

    wall(2)
    per_call = min((wall(many + 2) - wall(2)) / many for _ in range(2))
    if per_call > 2.0 * median_ms + 0.15:
        raise CandidateFailed(
            Status.CHEATING,
            "timing_disagreement",
            f"device events say {median_ms:.3f} ms per call, the wall clock {per_call:.3f} ms: work outside of the "
            "timed span",
        )
    return per_call


def _above_floor(
    reference: ReferenceSession, median_ms: float, secret: random.Random, input_bytes: int
) -> float | None:
    """The roofline floor in milliseconds; a time below it is impossible for a program that does the work."""
    if input_bytes > _FLOOR_LIMIT_BYTES:
        return None
    reply, attached = reference.ask("time_floor", seed=secret.randrange(1 << 31))
    close_all(attached)
    if not reply["bytes_per_s"]:
        return None
    floor_ms = float(reply["bytes"] / reply["bytes_per_s"] * 1e3)
    if median_ms < floor_ms:
        raise CandidateFailed(
            Status.CHEATING,
            "below_floor",
            f"{median_ms:.4f} ms per call, but moving the {reply['bytes'] / 1e6:.1f} MB that no program can do without "
            f"takes {floor_ms:.4f} ms at the memory's peak rate",
        )
    return floor_ms


def _peak_memory(
    reference: ReferenceSession, candidate: CandidateSession, used_bytes: Callable[[], int | None]
) -> dict[str, int]:
    found = {}
    for name, session in (("candidate", candidate), ("eager", reference)):
        close_all(session.ask("time_batch", calls=0)[1])
        with PeakMemory(used_bytes) as peak:
            close_all(session.ask("time_batch", calls=2)[1])
        if peak.extra_bytes is not None:
            found[name] = peak.extra_bytes
    return found
