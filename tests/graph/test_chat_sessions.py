"""Sessions of a chat Coder that is seeded, samples, comes from the cache, or runs out of money; and its secrets."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from test_sessions import ADVICE, BOTH, Play, as_answer, candidate, plan

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import SettingsError
from stitchcuda.graph.context import Context
from stitchcuda.graph.solve import SolveResult, solve
from stitchcuda.nodes.engines.chat import FakeAnswer, FakeOpenAIServer
from stitchcuda.problems import load_problem

KEY = "planted-0123456789abcdef"


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    one = Play(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return one


def coder_prompts(play: Play) -> list[str]:
    return [request.text for request in play.server.requests if request.role == "coder"]


# --- seeds ------------------------------------------------------------------------------------------------------


async def test_with_a_useless_model_the_run_ends_with_the_embedded_best(play: Play) -> None:
    result = await play.run(
        {"planner": [plan("a", "b")], "coder": ["I do not know."] * 20},
        seed_embedded=True,
        repair_limit=1,
        max_replans=0,
    )
    assert (result.status, result.solved, result.stop_reason) == ("passed", True, "subtask_given_up")
    assert play.statuses() == ["passed"]
    assert result.attempts == 3  # the seed, and one answer without code for each sub-task
    best = json.loads((play.run_dir / "best.json").read_text())["candidate"]
    assert best["author"] == "embedded"
    assert best["summary"].startswith("Seed: ")
    # The model was given the seed and what was established about it.
    assert play.best().strip() in coder_prompts(play)[0]
    assert "status: passed" in coder_prompts(play)[0]
    assert "| 01 | passed" in (play.run_dir / "report.md").read_text()


async def test_without_a_gain_to_show_the_seed_stays(play: Play) -> None:
    """The seed has kernels for all ops of the sub-task, and nothing is timed here."""
    result = await play.run({"planner": [plan("c")], "coder": [candidate(BOTH)]}, seed_embedded=True)
    assert (result.stop_reason, result.attempts) == ("complete", 2)
    assert play.statuses() == ["passed", "passed"]
    best = json.loads((play.run_dir / "best.json").read_text())["candidate"]
    assert (best["author"], best["id"], best["covers"]) == ("embedded", 1, [])
    assert sorted(best["own_ops"]) == ["mul", "relu", "sub", "sum_1"]


async def test_an_embedded_coder_is_not_seeded(play: Play) -> None:
    result = await play.run({}, planner="embedded", coder="embedded", verifier="embedded", seed_embedded=True)
    assert result.solved
    assert "Seed" not in (play.run_dir / "report.md").read_text()


# --- samples ----------------------------------------------------------------------------------------------------


async def test_the_best_of_several_samples_goes_on(play: Play) -> None:
    samples = [candidate(BOTH, offset="0.25f"), "no program", candidate(BOTH)]
    result = await play.run(
        {"planner": [plan("c")], "coder": [*samples, "none", "none"]}, samples=3, concurrency=1, max_attempts=1
    )
    assert (result.status, result.attempts) == ("passed", 1)
    assert '"0.5f"' in play.best()
    kept = play.run_dir / "samples" / "01"
    statuses = sorted(json.loads(file.read_text())["status"] for file in kept.glob("*.json"))
    assert statuses == ["passed", "wrong_values"]
    assert result.usage["calls"] == 1 + 5 + 1


async def test_samples_that_are_all_useless_are_one_failed_attempt(play: Play) -> None:
    result = await play.run({"planner": [plan("c")], "coder": ["none"] * 6}, samples=2, max_attempts=1)
    assert (result.status, result.attempts) == ("no_candidate", 1)
    assert "no usable answer among 2" in (play.run_dir / "report.md").read_text()


# --- the cache --------------------------------------------------------------------------------------------------


async def test_a_run_that_is_repeated_costs_nothing(play: Play, tmp_path: Path) -> None:
    wrong = candidate(BOTH, offset="0.25f")
    answers = {"planner": [plan("c")], "coder": [wrong, candidate(BOTH)], "verifier": [ADVICE] * 2}

    async def run(server: FakeOpenAIServer, name: str, **settings: Any) -> SolveResult:
        roles = {"planner": "openai:fake", "coder": "openai:fake", "verifier": "openai:fake"}
        context = Context.model_validate(
            {
                "device": "cpu",
                "trials": 2,
                "seed": 3,
                "cross_compile": None,
                "base_url": server.url,
                **roles,
                **settings,
            }
        )
        return await solve(load_problem(play.path), context, run_dir=tmp_path / name)

    given = {role: [as_answer(one) for one in list_] * 2 for role, list_ in answers.items()}
    with FakeOpenAIServer(given) as server:
        first = await run(server, "first")
        asked = len(server.requests)
        second = await run(server, "second")
        assert len(server.requests) == asked
        third = await run(server, "third", cache_answers=False)
        assert len(server.requests) == 2 * asked
    assert first.usage["calls"] == third.usage["calls"] == asked
    assert second.usage == {"calls": 0, "input_tokens": 0, "output_tokens": 0}
    assert (second.status, second.attempts) == (first.status, first.attempts) == ("passed", 2)
    for name in ("candidates/01.py", "candidates/02.py"):
        assert (tmp_path / "second" / name).read_text() == (tmp_path / "first" / name).read_text()
    usage = json.loads((tmp_path / "second" / "result.json").read_text())["usage"]
    assert usage["cached"] == asked
    assert "5 answers from the cache" in (tmp_path / "second" / "report.md").read_text()
    # The trace shows what was asked and answered all the same.
    trace = (tmp_path / "second" / "trace.jsonl").read_text()
    assert "You are the Coder" in trace + "".join(p.read_text() for p in (tmp_path / "second/blobs").glob("*"))


# --- time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "max_seconds", "status"),
    [("planner", 3.0, "no_candidate"), ("coder", 8.0, "no_candidate"), ("verifier", 8.0, "passed")],
)
async def test_no_call_runs_past_the_runs_seconds(play: Play, role: str, max_seconds: float, status: str) -> None:
    engines = {"planner": "embedded", "coder": "embedded", "verifier": "embedded", role: "openai:fake"}
    started = time.monotonic()
    result = await play.run({role: [FakeAnswer("late", delay_s=120.0)] * 3}, max_seconds=max_seconds, **engines)
    assert time.monotonic() - started < 100.0  # a slow machine needs its time for the rest; the answer would take 120 s
    assert (result.stop_reason, result.status) == ("seconds_spent", status)
    assert result.attempts == (0 if role == "planner" else 1)
    assert "Stopped because the budget of seconds is spent." in (play.run_dir / "report.md").read_text()
    assert any("out_of_time" in event.message for event in play.events)


# --- money ------------------------------------------------------------------------------------------------------


async def test_the_money_budget_ends_the_run_and_each_role_is_accounted_for(play: Play) -> None:
    wrong = candidate(BOTH, offset="0.25f")
    result = await play.run({"planner": [plan("c")], "coder": [wrong] * 5}, prices="fake=1000/2000", max_cost_usd=0.4)
    assert (result.stop_reason, result.attempts, result.status) == ("cost_spent", 1, "wrong_values")
    usage = json.loads((play.run_dir / "result.json").read_text())["usage"]
    assert usage["cost_usd"] == pytest.approx(3 * (100 * 1000 + 20 * 2000) / 1e6)
    assert {role: part["calls"] for role, part in usage["roles"].items()} == {"planner": 1, "coder": 1, "verifier": 1}
    assert json.loads((play.run_dir / "run.json").read_text())["usage"] == usage
    report = (play.run_dir / "report.md").read_text()
    assert "Stopped because the budget of money is spent." in report
    assert "  - coder: 1 calls, 100 tokens in, 20 out, $0.1400" in report


async def test_a_money_budget_needs_prices(play: Play) -> None:
    with pytest.raises(SettingsError, match="prices has no entry for 'fake'"):
        await play.run({"planner": [plan("c")], "coder": []}, max_cost_usd=1.0)


# --- secrets ----------------------------------------------------------------------------------------------------


async def test_a_key_that_the_endpoint_echoes_everywhere_is_in_no_file(play: Play) -> None:
    told = {**plan("c"), "rationale": f"your key is {KEY}"}
    leaking = candidate(BOTH).replace("import torch\n", f"import torch  # {KEY}\n", 1)
    advice = {**ADVICE, "instruction": f"use {KEY}"}
    hiccup = FakeAnswer(status=500, error=f"upstream refused Bearer {KEY}")
    result = await play.run(
        {"planner": [hiccup, told], "coder": [hiccup, f"{KEY}", leaking], "verifier": [advice] * 3}, model_retries=1
    )
    assert result.status == "passed"
    assert any(request.key == KEY for request in play.server.requests)
    answers = Environment().cache_dir / "answers"
    files = [path for path in [*play.run_dir.rglob("*"), *answers.rglob("*")] if path.is_file()]
    assert len(files) > 10
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in "".join(event.message for event in play.events)
    assert "[key]" in (play.run_dir / "candidates" / "01.py").read_text()
