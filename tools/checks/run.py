"""The correctness protocol: which calls are made, with what, and what is concluded from them.

Call 0 uses the weights of construction, every later call new random ones (the same on both sides), so that neither
"bias is zero" nor weights packed once can pass. Each call has fresh inputs from a secret seed, in lockstep with the
reference, whose buffers move along. After call 1 the result of call 0 is read again (an output buffer that is reused
shows), and the last inputs are sent once more.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from stitchcuda.core.errors import ProblemError
from stitchcuda.core.records import CheckReport, OutputCheck, Policy, Status
from stitchcuda.tools.checks.session import CandidateFailed, CandidateSession, ReferenceSession
from stitchcuda.tools.checks.verdict import TOLERANCES, first_failure, judge_leaf
from stitchcuda.tools.checks.weights import Transfer, match_state, slots
from stitchcuda.tools.sandbox.wire import close_all

__all__ = ["construct", "run_check"]

_LAWS = ("as_given", "as_given", "scaled_3", "negated", "scaled_0.01", "shifted")
_HELD_LIMIT_BYTES = 1 << 30


@dataclass
class _Findings:
    """What the calls so far have shown."""

    checks: list[tuple[OutputCheck, str]] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)
    overwritten: bool = False
    mutated: str = ""
    launches: int | None = None
    launches_total: int | None = 0
    unproven: int = 0
    calls: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.mutated) or self.overwritten or any(not check.ok for check, _ in self.checks)


def construct(reference: ReferenceSession, candidate: CandidateSession) -> Transfer:
    """Construct ``ModelNew`` as the reference was constructed; how weights can be handed over."""
    reply, attached = candidate.ask(
        "construct",
        reference.init_descriptors,
        init=reference.info["init"],
        seed=reference.seed,
        training=reference.info["training"],
    )
    close_all(attached)
    try:
        theirs = slots(reply["state"])
    except (ValueError, KeyError) as error:
        raise CandidateFailed(Status.RUNTIME_ERROR, "protocol_broken", str(error)) from None
    return match_state(slots(reference.info["state"]), theirs)


def set_weights(reference: ReferenceSession, candidate: CandidateSession, transfer: Transfer, seed: int | None) -> None:
    """The same values on both sides: those of construction, or new ones from ``seed``."""
    reply, attached = reference.ask("weights", seed=seed, names=list(transfer.names))
    try:
        _, more = candidate.ask("state", attached, state=reply["state"], names=transfer.names)
        close_all(more)
    finally:
        close_all(attached)


def run_check(
    reference: ReferenceSession, candidate: CandidateSession, *, trials: int, seed: int, policy: Policy
) -> CheckReport:
    """Make the calls and conclude.

    Raises:
        ProblemError: the reference cannot serve as a golden (random, no finite output).
        CandidateFailed: there was no answer to judge.
    """
    started = time.monotonic()
    secret = random.Random(seed)
    transfer = construct(reference, candidate)
    found = _Findings()
    if transfer.how == "same_seed":
        found.notes.append("parameters do not correspond: both sides were only constructed under the same seed")
    set_weights(reference, candidate, transfer, None)
    for number in range(trials):
        if number == 1 and transfer.how in ("by_name", "by_order"):
            set_weights(reference, candidate, transfer, secret.randrange(1 << 31))
        law = _LAWS[number] if number < len(_LAWS) else secret.choice(_LAWS)
        reply, inputs = reference.ask("inputs", call=number, seed=secret.randrange(1 << 31), law=law)
        _one_call(reference, candidate, transfer, found, number, reply, inputs)
        if found.failed and number >= 1:
            break
    else:
        reply, inputs = reference.ask("repeat", call=trials, of=trials - 1)
        _one_call(reference, candidate, transfer, found, trials, reply, inputs)
    if found.unproven == found.calls:
        raise ProblemError("the reference gives no finite output, so nothing can be compared with it")
    return _conclude(found, policy, time.monotonic() - started)


def _one_call(
    reference: ReferenceSession,
    candidate: CandidateSession,
    transfer: Transfer,
    found: _Findings,
    number: int,
    sent: dict[str, Any],
    inputs: list[int],
) -> None:
    """Send the inputs, compare what comes back, note everything that is to be seen."""
    trial = sent["law"] if number < 2 or sent["law"] != "as_given" else f"as_given_{number}"
    trial = "initial_weights" if number == 0 else trial
    small = sum(sent["output_bytes"]) <= _HELD_LIMIT_BYTES
    try:
        reply, outputs = candidate.ask(
            "call",
            inputs,
            inputs=sent["inputs"],
            output_bytes=sent["output_bytes"],
            hold=number == 0 and small,
            held=number == 1 and small,
            buffers=number <= 1,
            count=number <= 1,
        )
    finally:
        close_all(inputs)
    try:
        numbers = _compared(reference, outputs, reply.get("outputs"), number, reply.get("buffers"), transfer)
        held = _compared(reference, outputs, reply["held"], 0, None, transfer) if "held" in reply else None
    finally:
        close_all(outputs)
    judged = [judge_leaf(trial, leaf) for leaf in numbers["leaves"]]
    judged += [
        (check, "buffers_differ" if code else "")
        for check, code in (judge_leaf(trial, leaf) for leaf in numbers["buffers"])
    ]
    found.calls += 1
    found.unproven += not sent["finite"]
    found.checks += judged
    found.digests.append(str(numbers["digest"]))
    if numbers["equals_call"]:
        found.replayed.append(trial)
    first_was_right = all(check.ok for check, _ in found.checks[: len(found.checks) - len(judged)])
    if held is not None and first_was_right and any(not judge_leaf(trial, leaf)[0].ok for leaf in held["leaves"]):
        found.overwritten = True
    if reply.get("mutated") and not sent["inputs_mutated"]:
        found.mutated = f"input tensor {reply['mutated'][0]} was changed by the call ({trial})"
    launches = reply.get("launches")
    if number <= 1:
        if isinstance(launches, int) and found.launches_total is not None:
            found.launches, found.launches_total = launches, found.launches_total + launches
        else:
            found.launches_total = None
    if not sent["exact"] and sent["exact_error"]:
        note = f"no float64 golden ({sent['exact_error'][:120]})"
        if note not in found.notes:
            found.notes.append(note)


def _compared(
    reference: ReferenceSession, outputs: list[int], tree: Any, call: int, buffers: Any, transfer: Transfer
) -> dict[str, Any]:
    reply, attached = reference.ask(
        "compare",
        outputs,
        outputs=tree,
        call=call,
        tolerances=TOLERANCES,
        buffers=buffers,
        names=transfer.names,
    )
    close_all(attached)
    if "malformed" in reply:
        raise CandidateFailed(Status.RUNTIME_ERROR, "protocol_broken", f"malformed outputs: {reply['malformed']}")
    return reply


def _conclude(found: _Findings, policy: Policy, seconds: float) -> CheckReport:
    common: dict[str, Any] = {
        "outputs": _worth_keeping(found.checks),
        "trials": found.calls,
        "own_kernel_launches": found.launches,
        "seconds": seconds,
    }
    notes = "; ".join(found.notes)
    if any(not check.ok for check, _ in found.checks):
        status, codes, message = first_failure(found.checks)
        if status is Status.WRONG_VALUES:
            if found.replayed:
                codes = ("stale_output", *codes)
                message = f"the output is that of an earlier call; {message}"
            elif len(found.digests) > 1 and len(set(found.digests)) == 1:
                codes = ("ignores_input", *codes)
                message = f"the output is the same whatever the input; {message}"
        return CheckReport(ok=False, status=status, reasons=codes, message=message, **common)
    if found.overwritten:
        message = "the result of the first call changed when the second call was made: outputs share one buffer"
        return CheckReport(ok=False, status=Status.WRONG_VALUES, reasons=("stale_output",), message=message, **common)
    if found.mutated:
        return CheckReport(
            ok=False, status=Status.WRONG_VALUES, reasons=("input_mutated",), message=found.mutated, **common
        )
    if policy != "any" and found.launches_total == 0:
        message = "the results are right, but forward launched no kernel of the candidate's own"
        return CheckReport(ok=False, status=Status.CHEATING, reasons=("not_own_kernel",), message=message, **common)
    return CheckReport(ok=True, status=Status.PASSED, message=notes, **common)


def _worth_keeping(checks: list[tuple[OutputCheck, str]], limit: int = 20) -> tuple[OutputCheck, ...]:
    """Failed ones first, then the worst passed one of each trial."""
    failed = [check for check, _ in checks if not check.ok]
    worst: dict[str, OutputCheck] = {}
    for check, _ in checks:
        if check.ok:
            before = worst.get(check.trial)
            if before is None or (check.max_rel_error or 0) > (before.max_rel_error or 0):
                worst[check.trial] = check
    return tuple([*failed, *worst.values()][:limit])
