"""The rules of the embedded Verifier's diagnosis: what to do in each case, and the note that says why.

A note is cited as the documentation index cites it, ``page › heading``.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.core.records import Evaluation, FeedbackKind, Status, TimingReport

__all__ = ["RULES", "Rule", "failure_rule", "likely_cause", "passed_rule"]


@dataclass(frozen=True)
class Rule:
    """One rule: ``instruction`` to the Coder, or the likely cause of wrong values."""

    instruction: str
    note: str = ""
    """Empty only where nothing about CUDA is claimed."""
    expectation: str = ""


REPEATED = "The same failure keeps coming back: plan without the sub-task that causes it."

FAILURES = {
    Status.BUILD_FAILED: Rule(
        "Mend the first compiler error; if that is no option, take back the newest kernel.",
        "nvcc-errors.md › Front-end errors",
    ),
    Status.RUNTIME_ERROR: Rule(
        "Mend the error that the call raised; access outside of a tensor is the usual cause of a CUDA error.",
        "launch-errors.md › Usual causes of an illegal address",
    ),
    Status.TIMEOUT: Rule(
        "Take back the newest change: the call did not end in time.", "error-launch-failure.md › Hangs"
    ),
    Status.WRONG_SHAPE: Rule(
        "Give every output the reference's shape and dtype.", "pytorch-tensors-in-extensions.md › At the door"
    ),
    Status.WRONG_DTYPE: Rule(
        "Give every output the reference's shape and dtype.", "pytorch-tensors-in-extensions.md › At the door"
    ),
    Status.CHEATING: Rule(
        "Compute every output from the inputs of this call, in own kernels.",
        "speed-of-light-and-roofline.md › Least time of a problem",
    ),
}
MACHINE = Rule("The machine is at fault, not the candidate.")

STALE = Rule("a result of an earlier call is returned again", "launch-errors.md › Silent failures")
MUTATED = Rule("the candidate writes into its inputs", "error-out-of-memory.md › In place")
UNKNOWN = Rule("unknown", "fast-math-and-accuracy.md › Why results differ from the reference")
NOT_FINITE = Rule("overflow or a division by zero that the reference does not have", "number-formats.md › Choosing")
BORDER = Rule(
    "elements at a border: a tail or an alignment that the kernel treats wrongly", "vectorised-access.md › Conditions"
)
ACCURACY = Rule(
    "accuracy: a reduction or function that is less exact than the reference's",
    "fast-math-and-accuracy.md › Why results differ from the reference",
)
FORMULA = Rule(
    "a wrong formula, or a wrong order of operands or dimensions", "elementwise-fusion.md › Getting the ops right"
)
PLACE = Rule(
    "some rows or channels are located wrongly: index arithmetic or a broadcast",
    "programming-model.md › Index arithmetic",
)

NEXT = Rule(
    "Go on with the next sub-task of the plan; keep what is there.",
    "elementwise-fusion.md › Why fuse",
    "less memory traffic, right outputs",
)
LAUNCHES = Rule(
    "Launches dominate: larger groups would help more than schedules; try the next schedule.",
    "launch-overhead.md › What to do, in this order",
)
SCHEDULE = Rule(
    "Change the schedule of the slowest own kernel, one thing at a time.",
    "occupancy-and-limits.md › Steering it",
    "a shorter median",
)
MISFIT = Rule("The plan does not fit what was measured.", "speed-of-light-and-roofline.md › Least time of a problem")
DONE = Rule("Nothing is left to do.", "speed-of-light-and-roofline.md › Least time of a problem")

RULES = (
    *FAILURES.values(),
    *(MACHINE, STALE, MUTATED, UNKNOWN, NOT_FINITE, BORDER, ACCURACY, FORMULA, PLACE),
    *(NEXT, LAUNCHES, SCHEDULE, MISFIT, DONE),
)
"""All of them."""


def failure_rule(evaluation: Evaluation, kind: FeedbackKind) -> Rule:
    """What to do about a candidate that did not pass."""
    if evaluation.status is Status.WRONG_VALUES:
        cause = likely_cause(evaluation)
        rule = Rule(
            f"Likely cause: {cause.instruction}. Take back the riskiest choice of the newest kernel.", cause.note
        )
    else:
        rule = FAILURES.get(evaluation.status, MACHINE)
    return Rule(REPEATED, rule.note) if kind == "replan" else rule


def likely_cause(evaluation: Evaluation) -> Rule:
    """Why values may be wrong, from how many are and by how much."""
    failed = [item for item in evaluation.check.outputs if not item.ok] if evaluation.check is not None else []
    if "stale_output" in evaluation.reasons:
        return STALE
    if "input_mutated" in evaluation.reasons:
        return MUTATED
    if not failed:
        return UNKNOWN
    worst = max(failed, key=lambda item: item.mismatched_fraction or 0.0)
    fraction, relative = worst.mismatched_fraction, worst.max_rel_error
    if "finite" in worst.message or "nan" in worst.message.lower():
        return NOT_FINITE
    if fraction is not None and fraction < 0.01:
        return BORDER
    if relative is not None and relative < 1e-2:
        return ACCURACY
    if fraction is not None and fraction > 0.9:
        return FORMULA
    return PLACE


def passed_rule(timing: TimingReport | None, kind: FeedbackKind) -> Rule:
    """What comes after a candidate that passed."""
    if kind == "next_subtask":
        return NEXT
    if kind == "optimise":
        return LAUNCHES if timing is not None and timing.launch_bound else SCHEDULE
    return MISFIT if kind == "replan" else DONE
