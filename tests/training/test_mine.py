"""From run folders, written by the real tracer, to rows on the right side of the split."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph

from stitchcuda.core.errors import SettingsError
from stitchcuda.core.files import sha256_text, write_json, write_text
from stitchcuda.core.records import (
    BaselineTiming,
    Candidate,
    Evaluation,
    Feedback,
    Plan,
    Status,
    TimingReport,
    TimingStats,
)
from stitchcuda.traces import JsonlTracer
from stitchcuda.training import Row, mine_runs, problem_similarity, read_rows, split_by_problem, stats, write_rows
from stitchcuda.training.mine import verdict_on_row

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = (Status.BUILD_FAILED, Status.WRONG_VALUES, Status.PASSED)
"""One run: a failure, another failure, a repair."""


class State(TypedDict, total=False):
    plan: Plan
    candidate: Candidate | None
    feedback: Feedback | None
    evaluation: Evaluation | None


async def make_run(folder: Path, reference: str, name: str, *, chat: bool, tag: str = "") -> None:
    """A run folder as the graph leaves it, with ``len(STEPS)`` candidates."""
    write_json(folder / "run.json", {"format_version": 1, "settings": {}, "machine": {"gpu": "none"}})
    write_json(folder / "problem.json", {"level": 3, "id": 1, "name": name, "source": reference})

    async def coder(state: State) -> State:
        previous = state.get("candidate")
        number = previous.id + 1 if previous else 1
        if chat:
            model = GenericFakeChatModel(messages=iter([AIMessage(content="here")]))
            await model.ainvoke([SystemMessage("You write CUDA."), HumanMessage(f"Attempt {number} " + "x" * 5000)])
        source = f"class ModelNew:\n    attempt = {number}  # {tag}\n"
        write_text(folder / "candidates" / f"{number:02d}.py", source)
        candidate = Candidate(
            id=number,
            parent_id=previous.id if previous else None,
            author="chat" if chat else "embedded",
            path=f"candidates/{number:02d}.py",
            sha256=sha256_text(source),
        )
        return {"candidate": candidate, "feedback": None}

    async def verifier(state: State) -> State:
        candidate = state.get("candidate")
        assert candidate is not None
        status = STEPS[candidate.id - 1]
        reasons = () if status is Status.PASSED else (status.value,)
        evaluation = Evaluation(candidate_id=candidate.id, status=status, reasons=reasons, device="cpu")
        write_json(folder / "evaluations" / f"{candidate.id:02d}.json", evaluation.model_dump(mode="json"))
        return {"evaluation": evaluation, "feedback": Feedback(kind="repair", instruction="mend it")}

    builder = StateGraph(State)
    builder.add_node("coder", coder)
    builder.add_node("verifier", verifier)
    builder.add_edge(START, "coder")
    builder.add_edge("coder", "verifier")
    builder.add_conditional_edges(
        "verifier", lambda state: END if state["evaluation"].passed else "coder", {"coder": "coder", END: END}
    )
    tracer = JsonlTracer(folder)
    await builder.compile().ainvoke({"plan": Plan(summary="a plan")}, config={"callbacks": [tracer]})


def row(reference: str, **changes: Any) -> Row:
    fields: dict[str, Any] = {
        "skill": "scratch",
        "run": "r",
        "problem": "p",
        "problem_sha256": sha256_text(reference),
        "reference": reference,
        "candidate_id": 1,
        "parent_id": None,
        "author": "embedded",
        "answer": "x",
        "answer_digest": "d",
        "messages": None,
        "plan": None,
        "previous": None,
        "previous_evaluation": None,
        "feedback": None,
        "evaluation": Evaluation(candidate_id=1, status=Status.PASSED, device="cpu"),
        "device": "cpu",
        "policy": "libraries",
        "machine": {},
        "kept": True,
        "why": "passed",
    }
    return Row.model_validate(fields | changes)


async def test_a_run_becomes_rows_with_reasons(tmp_path: Path) -> None:
    await make_run(tmp_path / "a", "reference = 1\n", "toy", chat=True)
    mined = mine_runs([tmp_path / "a"])
    assert mined.problems == []
    (kept,) = mined.rows
    assert (kept.skill, kept.why, kept.candidate_id, kept.parent_id) == ("feedback", "repaired", 3, 2)
    assert kept.previous is not None
    assert "attempt = 2" in kept.previous
    assert kept.previous_evaluation is not None
    assert kept.previous_evaluation.status is Status.WRONG_VALUES
    assert kept.feedback is not None
    assert kept.feedback.instruction == "mend it"
    assert kept.plan is not None
    assert kept.machine == {"gpu": "none"}
    assert kept.messages is not None
    assert [message["role"] for message in kept.messages] == ["system", "user"]
    assert kept.messages[1]["content"].startswith("Attempt 3 ")
    assert len(kept.messages[1]["content"]) > 5000  # stored by reference, mined in full
    assert [(row.skill, row.why) for row in mined.rejected] == [("scratch", "failed"), ("feedback", "failed")]


def timed(speedup: float) -> Evaluation:
    stats = TimingStats(median_ms=1, p25_ms=1, p75_ms=1, calls=10)
    baseline = BaselineTiming(
        name="eager", stats=stats, speedup=speedup, speedup_low=speedup * 0.95, speedup_high=speedup * 1.05
    )
    timing = TimingReport(candidate=stats, baselines=(baseline,), rounds=3)
    return Evaluation(candidate_id=1, status=Status.PASSED, device="cuda:0", timing=timing)


def ended(status: Status) -> Evaluation:
    reasons = () if status is Status.PASSED else (status.value,)
    return Evaluation(candidate_id=1, status=status, reasons=reasons, device="cuda:0")


@pytest.mark.parametrize(
    ("skill", "before", "after", "expected"),
    [
        ("scratch", None, ended(Status.PASSED), (True, "passed")),
        ("scratch", timed(2.0), ended(Status.PASSED), (True, "passed")),
        ("scratch", None, ended(Status.TIMEOUT), (False, "failed")),
        ("scratch", None, ended(Status.CHEATING), (False, "cheating")),
        ("feedback", ended(Status.TIMEOUT), ended(Status.PASSED), (True, "repaired")),
        ("feedback", timed(2.0), timed(2.1), (False, "no_gain")),
        ("feedback", timed(2.0), timed(2.3), (True, "faster")),
        ("feedback", timed(2.0), ended(Status.WRONG_VALUES), (False, "broke_it")),
        ("feedback", ended(Status.PASSED), ended(Status.PASSED), (False, "not_timed")),
        ("feedback", ended(Status.MACHINE_ERROR), ended(Status.PASSED), (False, "machine_error")),
    ],
)
def test_what_is_kept(skill: str, before: Evaluation | None, after: Evaluation, expected: tuple[bool, str]) -> None:
    assert verdict_on_row(skill, before, after) == expected


async def test_duplicates_damage_and_foreign_folders(tmp_path: Path) -> None:
    await make_run(tmp_path / "a", "reference = 1\n", "toy", chat=False)
    await make_run(tmp_path / "b", "reference = 1\n", "toy", chat=False, tag="another comment")
    await make_run(tmp_path / "c", "reference = 2\n", "other", chat=False)
    (tmp_path / "c" / "candidates" / "03.py").write_text("edited = True\n")
    (tmp_path / "c" / "evaluations" / "02.json").write_text('{"candidate_id": 2, "sta')
    (tmp_path / "d").mkdir()
    mined = mine_runs(tmp_path / name for name in "abcd")
    assert [row.run for row in mined.rows] == ["a"]
    assert mined.rows[0].messages is None
    assert [row.why for row in mined.rejected if row.run == "b"] == ["failed", "failed", "duplicate"]
    assert mined.incomplete == {"not_evaluated": 1, "source_missing_or_changed": 1}
    assert len(mined.problems) == 1
    assert str(tmp_path / "d") in mined.problems[0]


def test_twins_of_a_problem_stay_on_one_side() -> None:
    sources = [path.read_text() for path in sorted(EXAMPLES.glob("*.py"))]
    twins = [re.sub(r"\b\d+\b", lambda match: str(int(match[0]) + 3), source) for source in sources]
    assert all(problem_similarity(*pair) > 0.9 for pair in zip(sources, twins, strict=True))
    for seed in range(5):
        split = split_by_problem([row(source) for source in sources + twins], heldout_share=0.4, seed=seed)
        sides = [split.side[sha256_text(source)] for source in sources]
        assert sides == [split.side[sha256_text(twin)] for twin in twins]
        assert split.closest_across < 0.7
        assert {len(group) for group in split.groups} == {2}
    assert {split_by_problem([row(s) for s in sources], heldout_share=0.5).side[sha256_text(s)] for s in sources} == {
        "train",
        "heldout",
    }


def test_files_add_up_and_can_be_read_again(tmp_path: Path) -> None:
    sources = [path.read_text() for path in sorted(EXAMPLES.glob("*.py"))]
    rows = [row(source, candidate_id=number) for source in sources for number in (1, 2)]
    rejected = [row(sources[0], kept=False, why="failed")]
    split = split_by_problem([*rows, *rejected], heldout_share=0.4)
    write_rows(tmp_path, rows, rejected, split.side)
    parts = {name: read_rows(tmp_path / f"{name}.jsonl") for name in ("train", "heldout", "rejected")}
    assert len(parts["train"]) + len(parts["heldout"]) == len(rows)
    assert not {r.problem_sha256 for r in parts["train"]} & {r.problem_sha256 for r in parts["heldout"]}
    written = json.loads((tmp_path / "stats.json").read_text())
    assert written["train"]["rows"] == len(parts["train"])
    assert written["rejected"]["by_why"] == {"failed": 1}
    assert stats([]).rows == 0

    (tmp_path / "bad.jsonl").write_text('{"schema_version": 2}\n')
    with pytest.raises(SettingsError, match=r"bad\.jsonl:1 is no training row"):
        read_rows(tmp_path / "bad.jsonl")
