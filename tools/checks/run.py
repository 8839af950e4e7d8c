"""The correctness protocol: which calls are made, with what, and what is concluded from them.

Call 0 uses the weights of construction, every later call new random ones (the same on both sides), so that neither
"bias is zero" nor weights packed once can pass. Each call has fresh inputs from a secret seed, in lockstep with the
reference, whose buffers move along. After call 1 the result of call 0 is read again (an output buffer that is reused
shows); call 2 has its contents in call 1's tensors (caches by address or object), call 3 shares its ends with call 2
(caches by a few elements). Then come some calls that nobody looks at, and the last inputs once more, with new weights.
At the end, where it is legal, another batch size.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from stitchcuda.core.errors import ProblemError
from stitchcuda.core.records import CheckReport, Policy, Status
from stitchcuda.tools.checks.coverage import read_log
from stitchcuda.tools.checks.findings import Findings, conclude
from stitchcuda.tools.checks.laws import MAGNITUDES, TIES
from stitchcuda.tools.checks.session import CandidateFailed, CandidateSession, ReferenceSession
from stitchcuda.tools.checks.verdict import TOLERANCES, judge_leaf
from stitchcuda.tools.checks.weights import Transfer, match_state, slots
from stitchcuda.tools.sandbox.wire import close_all

__all__ = ["construct", "run_check"]

_FIRST_LAWS = ("as_given", "as_given")
_HELD_LIMIT_BYTES = 1 << 30
_SOAK_CALLS = (8, 25)
_SOAK_BUDGET_S = 0.5


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
    found = Findings()
    if transfer.how == "same_seed":
        found.note("parameters do not correspond: both sides were only constructed under the same seed")
    check = _Check(reference, candidate, transfer, found)
    set_weights(reference, candidate, transfer, None)
    for number in range(trials):
        if number == 1:
            check.new_weights(secret)
        law = _law(number, secret)
        reply, inputs = reference.ask(
            "inputs",
            call=number,
            seed=secret.randrange(1 << 31),
            law=law,
            controls=found.controls,
            tolerances=TOLERANCES,
        )
        found.controls = [name for name in found.controls if name not in reply["failed_controls"]]
        check.call(number, reply, inputs)
        if found.failed and number >= 1:
            break
    else:
        check.soak(secret, trials)
        # What is kept by contents, addresses or for the first few calls meets other weights here, and is counted.
        check.new_weights(secret)
        reply, inputs = reference.ask("repeat", call=trials, of=trials - 1)
        check.call(trials, reply, inputs, again=True)
        if not found.failed:
            check.other_batch(trials + 1)
    if found.unproven == found.calls:
        raise ProblemError("the reference gives no finite output, so nothing can be compared with it")
    operators = read_log(reference.info.get("operators")) or []
    return conclude(found, policy, operators, time.monotonic() - started)


def _law(number: int, secret: random.Random) -> str:
    """Two calls as given, then one of each kind of law, then any."""
    if number < len(_FIRST_LAWS):
        return _FIRST_LAWS[number]
    kinds = {2: (*MAGNITUDES, "sparse", "integers"), 3: ("edited",), 4: ("edge",)}
    return secret.choice(kinds.get(number, (*MAGNITUDES, *TIES, "edited")))


@dataclass
class _Check:
    """The calls of one check."""

    reference: ReferenceSession
    candidate: CandidateSession
    transfer: Transfer
    found: Findings
    call_s: float = 0.0
    """Wall-clock time of the latest call."""

    def new_weights(self, secret: random.Random) -> None:
        if self.transfer.how in ("by_name", "by_order"):
            set_weights(self.reference, self.candidate, self.transfer, secret.randrange(1 << 31))

    def soak(self, secret: random.Random, number: int) -> None:
        """Some unseen calls, where the model's state can be set back afterwards."""
        buffers = {slot[0] for slot in self.reference.info["state"] if slot[1] == "buffer"}
        if not buffers <= set(self.transfer.names):
            return
        calls = min(secret.randrange(*_SOAK_CALLS), int(_SOAK_BUDGET_S / max(self.call_s, 1e-4)))
        if not calls:
            return
        sent, inputs = self.reference.ask("repeat", call=number, of=number - 1)
        try:
            _, attached = self.candidate.ask("soak", inputs, inputs=sent["inputs"], calls=calls)
            close_all(attached)
        finally:
            close_all(inputs)

    def other_batch(self, number: int) -> None:
        """One item less, where that is legal; a candidate that refuses it, whichever way, is within its rights."""
        sent, inputs = self.reference.ask("smaller_batch", call=number)
        if not sent["legal"]:
            return
        try:
            reply, outputs = self.candidate.ask("call", inputs, **_wanted(sent, count=False))
        except CandidateFailed as refused:
            self.found.note(f"refuses another batch size ({refused.message[:120]})")
            return
        finally:
            close_all(inputs)
        try:
            numbers = _compared(self.reference, outputs, reply.get("outputs"), number, None, self.transfer)
        finally:
            close_all(outputs)
        wrong = [
            check for check, _ in (judge_leaf("smaller_batch", leaf) for leaf in numbers["leaves"]) if not check.ok
        ]
        if wrong:
            told = f"right for the given batch size, wrong for one item less: {wrong[0].output}: {wrong[0].message}"
            self.found.other_batch = told

    def call(self, number: int, sent: dict[str, Any], inputs: list[int], *, again: bool = False) -> None:
        """Send the inputs, compare what comes back, note everything that is to be seen."""
        trial = sent["law"] if number < 2 or sent["law"] != "as_given" else f"as_given_{number}"
        trial = "initial_weights" if number == 0 else "seen_before" if again else trial
        small = sum(sent["output_bytes"]) <= _HELD_LIMIT_BYTES
        wanted = _wanted(
            sent,
            hold=number == 0 and small,
            held=number == 1 and small,
            buffers=number <= 1,
            count=number <= 1 or again,
            reuse=number in (1, 2),
        )
        started = time.monotonic()
        try:
            reply, outputs = self.candidate.ask("call", inputs, **wanted)
        finally:
            close_all(inputs)
        self.call_s = time.monotonic() - started
        found, transfer = self.found, self.transfer
        try:
            numbers = _compared(self.reference, outputs, reply.get("outputs"), number, reply.get("buffers"), transfer)
            held = _compared(self.reference, outputs, reply["held"], 0, None, transfer) if "held" in reply else None
        finally:
            close_all(outputs)
        judged = [judge_leaf(trial, leaf) for leaf in numbers["leaves"]]
        judged += [
            (check, "buffers_differ" if code else "")
            for check, code in (judge_leaf(trial, leaf) for leaf in numbers["buffers"])
        ]
        first_was_right = all(check.ok for check, _ in found.checks)
        found.calls += 1
        found.unproven += not sent["finite"]
        found.checks += judged
        found.digests.append(str(numbers["digest"]))
        found.downgraded = found.downgraded or numbers["downgraded"] is True
        if numbers["equals_call"]:
            found.replayed.append(trial)
        if held is not None and first_was_right and any(not judge_leaf(trial, leaf)[0].ok for leaf in held["leaves"]):
            found.overwritten = True
        _note_watched(found, reply, sent, trial, counted=number <= 1 or again)


def _wanted(sent: dict[str, Any], **fields: bool) -> dict[str, Any]:
    """The fields of a ``call`` request."""
    off = {"hold": False, "held": False, "buffers": False, "count": False, "reuse": False}
    return {"inputs": sent["inputs"], "output_bytes": sent["output_bytes"], **off, **fields}


def _note_watched(found: Findings, reply: dict[str, Any], sent: dict[str, Any], trial: str, *, counted: bool) -> None:
    """What the candidate's worker saw besides outputs; its answers are foreign data."""
    if reply.get("mutated") and not sent["inputs_mutated"]:
        found.mutated = f"an input tensor was changed by the call ({trial})"
    if reply.get("late") is True:
        found.late = f"the output changed after the call had returned ({trial})"
    for key, noted in (("tampered", found.tampered), ("numerics", found.numerics)):
        told = reply.get(key)
        noted += [str(item)[:200] for item in told[:5]] if isinstance(told, list) else []
    if counted:
        launches = reply.get("launches")
        found.launches.append(launches if isinstance(launches, int) else None)
        operators = read_log(reply.get("operators"))
        if operators is None or not isinstance(launches, int):
            found.tampered.append("what counts launches and operators")
        elif sum(e for _, e in operators) >= sum(e for _, e in found.operators or []):
            found.operators = operators
    if not sent["exact"] and sent["exact_error"]:
        found.note(f"no float64 golden ({sent['exact_error'][:120]})")


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
