"""Where the graph goes after a verdict: pure functions of the history, the plan and the budget.

The table, first match wins:

==========================================================  ================  =====================
situation                                                   step              reason
==========================================================  ================  =====================
the machine failed, not the candidate                       stop              machine_error
attempts, seconds, tokens or money are spent                stop              <what>_spent
there is no plan, and replans are left / are spent          replan / stop     no_plan
the plan has no sub-task                                    stop              nothing_to_do
an engine gave no answer, or the candidate failed           repair            engine_failure, <status>
… ``repair_limit`` failures of one class in a row           replan            repeated_<status>
… and no replan is left                                     next_subtask      subtask_given_up
… and no other sub-task is open                             stop              subtask_given_up
… while optimising the whole program                        stop              optimising_failed
passed, and the Verifier finds the plan contradicted        replan            plan_contradicted
passed, and a sub-task is open                              next_subtask      subtask_done
passed everything, on a device without timing               stop              complete
… target reached                                            stop              target_reached
… the Verifier sees nothing left to gain                    stop              nothing_left
… ``patience`` passed candidates without a gain             stop              stagnated
… otherwise                                                 optimise          room_left
==========================================================  ================  =====================

A ``machine_error`` with reason ``unsupported_on_cpu`` counts as a failure that can be repaired: the
Coder can say the same thing in words that the emulator knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stitchcuda.core.records import FeedbackKind, Plan, Record, Status
from stitchcuda.graph.state import Decision, State, StepKind
from stitchcuda.nodes.evidence import Attempt

__all__ = ["STEPS", "Budget", "after_coder", "after_planner", "decide", "follow", "open_subtasks"]

GAIN = 1.01
"""A candidate must beat the best by 1 % to count as a gain; timing intervals are about as wide."""


class Budget(Record):
    """What may be spent, and what was."""

    max_attempts: int
    max_replans: int
    max_seconds: float
    max_tokens: int | None
    max_cost_usd: float | None = None
    repair_limit: int
    patience: int
    target_speedup: float | None
    replans: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float = 0.0


def open_subtasks(plan: Plan, attempts: Sequence[Attempt], skipped: Sequence[str]) -> list[str]:
    """Ids of the plan's sub-tasks that no passed candidate covers and that were not given up, in plan order."""
    done = {covered for attempt in attempts if attempt.status == Status.PASSED for covered in attempt.covers}
    return [task.id for task in plan.subtasks if task.id not in done and task.id not in skipped]


def decide(
    attempts: Sequence[Attempt],
    plan: Plan | None,
    skipped: Sequence[str],
    current: str | None,
    budget: Budget,
    *,
    timed: bool,
    proposal: FeedbackKind | None = None,
) -> Decision:
    """Apply the table of this module.

    Args:
        attempts: all verdicts so far, oldest first.
        skipped: sub-tasks that were given up.
        current: the sub-task that the last attempt worked on; ``None`` while optimising the whole.
        timed: whether this device yields speed-ups (a GPU does, ``cpu`` does not).
        proposal: the Verifier's wish; only ``replan`` and ``accept`` change anything.
    """
    last = attempts[-1] if attempts else None
    if last and _machine_at_fault(last):
        return Decision(kind="stop", reason="machine_error")
    if spent := _spent(attempts, budget):
        return Decision(kind="stop", reason=spent)
    replans_left = budget.replans < budget.max_replans
    if plan is None:
        return Decision(kind="replan" if replans_left else "stop", reason="no_plan")
    if not plan.subtasks:
        return Decision(kind="stop", reason="nothing_to_do")
    if last is None:
        raise ValueError("decide() needs a verdict, or a plan without work")
    if last.status != Status.PASSED:
        return _after_failure(attempts, plan, skipped, current, budget, replans_left)
    if proposal == "replan" and replans_left:
        return Decision(kind="replan", reason="plan_contradicted")
    if remaining := open_subtasks(plan, attempts, skipped):
        return Decision(kind="next_subtask", reason="subtask_done", subtask_id=remaining[0])
    if not timed:
        return Decision(kind="stop", reason="complete")
    best = max((a.speedup for a in attempts if a.speedup is not None), default=None)
    if best is not None and budget.target_speedup is not None and best >= budget.target_speedup:
        return Decision(kind="stop", reason="target_reached")
    if proposal == "accept":
        return Decision(kind="stop", reason="nothing_left")
    if _without_gain(attempts) >= budget.patience:
        return Decision(kind="stop", reason="stagnated")
    return Decision(kind="optimise", reason="room_left")


def _machine_at_fault(attempt: Attempt) -> bool:
    return attempt.status == Status.MACHINE_ERROR and "unsupported_on_cpu" not in attempt.reasons


def _spent(attempts: Sequence[Attempt], budget: Budget) -> str:
    counted = [attempt for attempt in attempts if not _machine_at_fault(attempt)]
    if len(counted) >= budget.max_attempts:
        return "attempts_spent"
    if budget.seconds >= budget.max_seconds:
        return "seconds_spent"
    if budget.max_tokens is not None and budget.tokens >= budget.max_tokens:
        return "tokens_spent"
    if budget.max_cost_usd is not None and budget.cost_usd >= budget.max_cost_usd:
        return "cost_spent"
    return ""


def _failure_class(attempt: Attempt) -> tuple[str, tuple[str, ...]]:
    return attempt.status, attempt.reasons


def _after_failure(
    attempts: Sequence[Attempt],
    plan: Plan,
    skipped: Sequence[str],
    current: str | None,
    budget: Budget,
    replans_left: bool,
) -> Decision:
    last = attempts[-1]
    in_a_row = 0
    for attempt in reversed(attempts):
        if _failure_class(attempt) != _failure_class(last):
            break
        in_a_row += 1
    if in_a_row % budget.repair_limit:
        return Decision(kind="repair", reason=str(last.status), subtask_id=current)
    if replans_left:
        return Decision(kind="replan", reason=f"repeated_{last.status}")
    if current is None:
        return Decision(kind="stop", reason="optimising_failed")
    remaining = [task for task in open_subtasks(plan, attempts, skipped) if task != current]
    if remaining:
        return Decision(kind="next_subtask", reason="subtask_given_up", subtask_id=remaining[0], skip=current)
    return Decision(kind="stop", reason="subtask_given_up", skip=current)


def _without_gain(attempts: Sequence[Attempt]) -> int:
    """Passed and timed candidates since the last one that beat everything before it by ``GAIN``."""
    best = 0.0
    since = 0
    for attempt in attempts:
        if attempt.speedup is None:
            continue
        if attempt.speedup > best * GAIN:
            since = 0
        else:
            since += 1
        best = max(best, attempt.speedup)
    return since


STEPS: dict[StepKind, str] = {
    "repair": "coder",
    "optimise": "coder",
    "next_subtask": "coder",
    "replan": "planner",
    "stop": "report",
}
"""Where each step leads."""


# --- edges ------------------------------------------------------------------------------------------------------


def after_planner(state: State) -> Literal["review_plan", "route"]:
    """A plan goes on to review (a no-op unless asked for); no plan, or an empty one, is a matter for the route."""
    plan = state.get("plan")
    return "review_plan" if plan is not None and plan.subtasks else "route"


def after_coder(state: State) -> Literal["verifier", "route"]:
    """A candidate goes to the Verifier; an engine that gave none is a failed attempt."""
    return "verifier" if state.get("candidate") is not None else "route"


def follow(state: State) -> StepKind:
    """The step that the ``route`` node decided on."""
    decision = state.get("decision")
    assert decision is not None
    return decision.kind
