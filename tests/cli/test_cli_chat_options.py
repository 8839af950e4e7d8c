"""The options of chat engines, and what they cost, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

COMMANDS = pytest.mark.parametrize("command", ["solve", "bench"])


@COMMANDS
def test_the_options_of_chat_engines_reach_the_run(cli, fake_solve, problem_file, command):
    given = ("--seed-embedded", "--samples", 3, "--no-cache", "--reasoning-effort", "low", "--max-cost-usd", "0.25")
    assert cli(command, problem_file, "--device", "cpu", *given, "--out", "out").code == 0
    context = fake_solve.calls[0]["context"]
    assert (context.seed_embedded, context.samples, context.cache_answers) == (True, 3, False)
    assert (context.reasoning_effort, context.max_cost_usd) == ("low", 0.25)


@COMMANDS
def test_flags_that_are_not_given_leave_the_other_layers_alone(cli, fake_solve, problem_file, command):
    Path("settings.toml").write_text("seed_embedded = true\ncache_answers = false\nsamples = 2\n")
    done = cli(command, problem_file, "--device", "cpu", "--settings", "settings.toml", "--out", "out")
    assert done.code == 0
    context = fake_solve.calls[0]["context"]
    assert (context.seed_embedded, context.cache_answers, context.samples) == (True, False, 2)
    assert (context.reasoning_effort, context.max_cost_usd) == (None, None)


@COMMANDS
@pytest.mark.parametrize(
    "given", [("--samples", "0"), ("--max-cost-usd", "-1"), ("--samples", "2", "--set", "samples=3")]
)
def test_values_that_do_not_fit_are_refused(cli, fake_solve, problem_file, command, given):
    done = cli(command, problem_file, "--device", "cpu", *given)
    assert (done.code, fake_solve.calls) == (2, [])
    assert given[0].removeprefix("--").replace("-", "_") in done.err


def test_what_chat_models_cost_is_told_and_recorded(cli, fake_solve, problem_file):
    fake_solve.usage = {"calls": 4, "input_tokens": 1500, "output_tokens": 200}
    fake_solve.cost_usd, fake_solve.cached = 0.0375, 2
    told = "4 calls, 1500 tokens in, 200 out, $0.0375, 2 answers from the cache"
    assert f"models   {told}" in cli("solve", problem_file, "--device", "cpu", "--out", "a").out
    as_json = cli("solve", problem_file, "--device", "cpu", "--out", "b", "--json").json
    assert (as_json["cost_usd"], as_json["cached"], as_json["usage"]["calls"]) == (0.0375, 2, 4)

    done = cli("bench", problem_file, "--device", "cpu", "--out", "batch", "--json")
    result = done.json["problems"][0]["result"]
    assert (result["cost_usd"], result["cached"], result["usage"]) == (0.0375, 2, fake_solve.usage)
    (line,) = Path("batch/results.jsonl").read_text().splitlines()
    assert json.loads(line)["cost_usd"] == 0.0375
    assert f"- chat models: {told}" in Path("batch/report.md").read_text()


def test_without_a_chat_model_nothing_is_said_of_one(cli, fake_solve, problem_file):
    assert "models " not in cli("solve", problem_file, "--device", "cpu", "--out", "a").out
    assert cli("bench", problem_file, "--device", "cpu", "--out", "batch").code == 0
    assert "chat models" not in Path("batch/report.md").read_text()
    assert fake_solve.calls
