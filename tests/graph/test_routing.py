"""The routing table, row by row."""

from __future__ import annotations

import pytest

from stitchcuda.core.records import Plan, SubTask
from stitchcuda.graph.routing import Budget, decide, open_subtasks
from stitchcuda.nodes.evidence import Attempt


def task(id: str) -> SubTask:
    return SubTask(id=id, title=id, ops=(id,), contract="", technique="", done_when="")


PLAN = Plan(subtasks=(task("a"), task("b")))


def budget(**changes: object) -> Budget:
    values: dict[str, object] = {
        "max_attempts": 20,
        "max_replans": 1,
        "max_seconds": 100.0,
        "max_tokens": None,
        "repair_limit": 3,
        "patience": 2,
        "target_speedup": None,
    }
    return Budget.model_validate(values | changes)


def failed(status: str = "wrong_values", *reasons: str) -> Attempt:
    return Attempt(candidate_id=1, status=status, reasons=reasons)


def passed(*covers: str, speedup: float | None = None) -> Attempt:
    return Attempt(candidate_id=1, status="passed", covers=covers, speedup=speedup)


ROWS = [
    # name, attempts, options, expected kind, reason, sub-task
    ("machine error stops", [failed("machine_error")], {}, "stop", "machine_error", None),
    ("unsupported is repairable", [failed("machine_error", "unsupported_on_cpu")], {}, "repair", "machine_error", "a"),
    (
        "machine errors are not counted",
        [failed("machine_error"), failed()],
        {"budget": budget(max_attempts=2)},
        "repair",
        "wrong_values",
        "a",
    ),
    ("attempts", [failed()] * 2, {"budget": budget(max_attempts=2)}, "stop", "attempts_spent", None),
    ("seconds", [passed("a")], {"budget": budget(seconds=100.0)}, "stop", "seconds_spent", None),
    ("tokens", [passed("a")], {"budget": budget(max_tokens=10, tokens=10)}, "stop", "tokens_spent", None),
    ("no plan", [], {"plan": None}, "replan", "no_plan", None),
    ("no plan, no replans", [], {"plan": None, "budget": budget(replans=1)}, "stop", "no_plan", None),
    ("nothing to do", [], {"plan": Plan()}, "stop", "nothing_to_do", None),
    ("repair", [failed()], {}, "repair", "wrong_values", "a"),
    ("engine failure", [failed("engine_failure")], {}, "repair", "engine_failure", "a"),
    ("two of a class", [failed()] * 2, {}, "repair", "wrong_values", "a"),
    ("three of a class", [failed()] * 3, {}, "replan", "repeated_wrong_values", None),
    ("three, but not of one class", [failed(), failed("timeout"), failed()], {}, "repair", "wrong_values", "a"),
    (
        "three, but not for one reason",
        [failed("cheating", "not_own_kernel"), failed("cheating"), failed("cheating", "stale_output")],
        {},
        "repair",
        "cheating",
        "a",
    ),
    ("given up", [failed()] * 3, {"budget": budget(replans=1)}, "next_subtask", "subtask_given_up", "b"),
    (
        "last one given up",
        [failed()] * 3,
        {"budget": budget(replans=1), "skipped": ["b"]},
        "stop",
        "subtask_given_up",
        None,
    ),
    (
        "optimising keeps failing",
        [passed("a", "b", speedup=1.5), *[failed()] * 3],
        {"budget": budget(replans=1), "current": None},
        "stop",
        "optimising_failed",
        None,
    ),
    ("next", [passed("a")], {}, "next_subtask", "subtask_done", "b"),
    (
        "next even when the target is reached",
        [passed("a", speedup=9.0)],
        {"timed": True},
        "next_subtask",
        "subtask_done",
        "b",
    ),
    ("plan contradicted", [passed("a")], {"proposal": "replan"}, "replan", "plan_contradicted", None),
    (
        "plan contradicted, no replans",
        [passed("a")],
        {"proposal": "replan", "budget": budget(replans=1)},
        "next_subtask",
        "subtask_done",
        "b",
    ),
    ("accept does not skip sub-tasks", [passed("a")], {"proposal": "accept"}, "next_subtask", "subtask_done", "b"),
    ("complete", [passed("a"), passed("a", "b")], {}, "stop", "complete", None),
    (
        "target",
        [passed("a", "b", speedup=2.0)],
        {"timed": True, "budget": budget(target_speedup=2.0)},
        "stop",
        "target_reached",
        None,
    ),
    ("accept", [passed("a", "b", speedup=1.1)], {"timed": True, "proposal": "accept"}, "stop", "nothing_left", None),
    ("room left", [passed("a", "b", speedup=1.1)], {"timed": True}, "optimise", "room_left", None),
    (
        "stagnated",
        [passed("a", "b", speedup=s) for s in (1.5, 1.5, 1.505)],
        {"timed": True},
        "stop",
        "stagnated",
        None,
    ),
    (
        "a gain starts the count anew",
        [passed("a", "b", speedup=s) for s in (1.5, 1.5, 1.6, 1.6)],
        {"timed": True},
        "optimise",
        "room_left",
        None,
    ),
]


@pytest.mark.parametrize(
    ("attempts", "options", "kind", "reason", "subtask"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_table(
    attempts: list[Attempt], options: dict[str, object], kind: str, reason: str, subtask: str | None
) -> None:
    values: dict[str, object] = {"plan": PLAN, "skipped": [], "current": "a", "budget": budget(), "timed": False}
    values |= options
    decision = decide(
        attempts,
        values["plan"],  # type: ignore[arg-type]
        values["skipped"],  # type: ignore[arg-type]
        values["current"],  # type: ignore[arg-type]
        values["budget"],  # type: ignore[arg-type]
        timed=bool(values["timed"]),
        proposal=values.get("proposal"),  # type: ignore[arg-type]
    )
    assert (decision.kind, decision.reason, decision.subtask_id) == (kind, reason, subtask)


def test_given_up_names_the_skipped() -> None:
    decision = decide([failed()] * 3, PLAN, [], "a", budget(replans=1), timed=False)
    assert decision.skip == "a"


def test_only_passed_candidates_close_a_subtask() -> None:
    attempts = [failed().model_copy(update={"covers": ("a",)}), passed("b")]
    assert open_subtasks(PLAN, attempts, []) == ["a"]
    assert open_subtasks(PLAN, attempts, ["a"]) == []
