"""The timing protocol, driven by the parent: candidate and baselines in turns, two clocks, verified outputs.

Candidate and reference live in two processes on one GPU and only ever work one at a time. Each round gives every side
the same calls: contents × a random factor in a random slot, so that neither contents nor addresses repeat in a
pattern. What the last call of a round returned is checked against a golden of exactly those contents.
"""

from __future__ import annotations

import random
import time
from typing import Any

from stitchcuda.core.records import BaselineTiming, Status, TimingReport
from stitchcuda.tools.checks.session import CandidateFailed, CandidateSession, ReferenceSession
from stitchcuda.tools.checks.verdict import TOLERANCES, judge_leaf
from stitchcuda.tools.sandbox.wire import close_all
from stitchcuda.tools.timing.stats import ratio_interval, stats

__all__ = ["run_timing"]

_SET_BUDGET_BYTES = 4 << 30
_WARM_UPS = 5
_CALLS_PER_ROUND = 10
_MIN_ROUNDS = 5
_MAX_ROUNDS = 50
_TARGET_WIDTH = 0.02
_VERIFY_EVERY = 4
_FIRST_CALL = 1_000_000
"""Timed calls are numbered from here, apart from those of the check."""


def run_timing(
    reference: ReferenceSession, candidate: CandidateSession, *, budget_s: float, seed: int, input_bytes: int
) -> TimingReport:
    """Rounds until the interval of the ratio is within 2 % or ``budget_s`` is spent.

    Raises:
        CandidateFailed: with ``cheating`` when a timed output is wrong or the clocks disagree.
    """
    started = time.monotonic()
    secret = random.Random(seed)
    sets = max(1, min(4, _SET_BUDGET_BYTES // max(1, input_bytes)))
    for _ in range(sets):
        reply, inputs = reference.ask("time_setup", seed=secret.randrange(1 << 31))
        try:
            _, attached = candidate.ask("time_setup", inputs, inputs=reply["inputs"])
            close_all(attached)
        finally:
            close_all(inputs)
    sides = ("eager", "candidate", "eager_tf32")
    for side in sides:
        _round(reference, candidate, side, _order(secret, sets, _WARM_UPS))
    first = _round(reference, candidate, "candidate", _order(secret, sets, 3))
    slowest = max(sorted(first)[1], sorted(_round(reference, candidate, "eager", _order(secret, sets, 3)))[1])
    # A round of slow calls is short, so that several rounds fit into the budget.
    calls = max(1, min(_CALLS_PER_ROUND, int(budget_s * 1e3 / (slowest * len(sides) * _MIN_ROUNDS * 1.5))))

    times: dict[str, list[list[float]]] = {side: [] for side in sides}
    for number in range(_MAX_ROUNDS):
        order = _order(secret, sets, calls)
        turn = list(sides)
        secret.shuffle(turn)
        for side in turn:
            times[side].append(_round(reference, candidate, side, order))
        if number % _VERIFY_EVERY == 0:
            _verify(reference, candidate, order[-1], _FIRST_CALL + number)
        if number + 1 >= _MIN_ROUNDS:
            ratio, low, high = ratio_interval(times["eager"], times["candidate"])
            if (high - low) / ratio <= _TARGET_WIDTH or time.monotonic() - started > budget_s:
                break
        elif time.monotonic() - started > 2 * budget_s:
            break
    _verify(reference, candidate, order[-1], _FIRST_CALL + _MAX_ROUNDS)
    mine = stats(times["candidate"])
    wall_ms = _second_clock(candidate, mine.median_ms, budget_s)
    baselines = []
    for side in ("eager", "eager_tf32"):
        ratio, low, high = ratio_interval(times[side], times["candidate"])
        baselines.append(
            BaselineTiming(name=side, stats=stats(times[side]), speedup=ratio, speedup_low=low, speedup_high=high)
        )
    return TimingReport(
        candidate=mine,
        baselines=tuple(baselines),
        rounds=len(times["candidate"]),
        # Back-to-back calls that take as long as a lone one, and that short: the CPU's launches set the pace.
        launch_bound=mine.median_ms < 0.05 and wall_ms > 0.8 * mine.median_ms,
        seconds=time.monotonic() - started,
    )


def _order(secret: random.Random, sets: int, calls: int) -> list[list[Any]]:
    return [[secret.randrange(sets), secret.randrange(sets), secret.uniform(0.9, 1.1)] for _ in range(calls)]


def _round(reference: ReferenceSession, candidate: CandidateSession, side: str, order: list[list[Any]]) -> list[float]:
    if side != "candidate":
        reply, attached = reference.ask("time_round", order=order, tf32=side == "eager_tf32")
    else:
        reply, attached = candidate.ask("time_round", order=order)
    close_all(attached)
    times = reply.get("ms")
    if not isinstance(times, list) or len(times) != len(order):
        raise CandidateFailed(Status.CHEATING, "timing_disagreement", f"{side} reported a wrong number of times")
    if not all(isinstance(ms, float) and ms > 0 for ms in times):
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


def _second_clock(candidate: CandidateSession, median_ms: float, budget_s: float) -> float:
    """Milliseconds per call by the parent's wall clock around device-wide synchronised batches.

    The difference of a long and a short batch cancels the cost of talking to the worker. Work that the events did not
    see (another stream, a late thread) shows here, because the batch waits for the whole device.
    """
    many = max(4, min(200, int(0.2 * budget_s * 1e3 / max(median_ms, 0.02))))

    def wall(calls: int) -> float:
        started = time.perf_counter()
        _, attached = candidate.ask("time_batch", calls=calls)
        close_all(attached)
        return (time.perf_counter() - started) * 1e3

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
