"""Where a setting comes from: flag > file > environment > default."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitchcuda.cli.settings import resolve_settings
from stitchcuda.core.errors import SettingsError

FLAG = {"trials": 9}
FILE = "trials = 2\n"
ENVIRON = {"STITCHCUDA_TRIALS": "3"}


@pytest.mark.parametrize(
    ("flag", "file", "environ", "trials"),
    [
        (True, True, True, 9),
        (True, True, False, 9),
        (True, False, True, 9),
        (True, False, False, 9),
        (False, True, True, 2),
        (False, True, False, 2),
        (False, False, True, 3),
        (False, False, False, 5),
    ],
)
def test_precedence(tmp_path, flag, file, environ, trials):
    path = tmp_path / "settings.toml"
    path.write_text(FILE)
    context = resolve_settings(FLAG if flag else {}, path if file else None, environ=ENVIRON if environ else {})
    assert context.trials == trials


@pytest.mark.parametrize(
    ("flags", "file", "environ", "coder", "planner"),
    [
        ({"model": "openai:a"}, "", {}, "openai:a", "openai:a"),
        ({"model": "openai:a", "coder": "embedded"}, "", {}, "embedded", "openai:a"),
        ({"model": "openai:a"}, 'coder = "openai:b"', {}, "openai:a", "openai:a"),
        ({"coder": "openai:c"}, 'model = "openai:b"', {}, "openai:c", "openai:b"),
        ({}, 'model = "openai:b"', {"STITCHCUDA_CODER": "openai:e"}, "openai:b", "openai:b"),
        ({}, "", {"STITCHCUDA_MODEL": "openai:e"}, "openai:e", "openai:e"),
        ({}, "", {}, "embedded", "embedded"),
    ],
)
def test_model_stands_for_the_three_roles(tmp_path, flags, file, environ, coder, planner):
    path = tmp_path / "settings.toml"
    path.write_text(file)
    context = resolve_settings(flags, path, environ=environ)
    assert (context.coder, context.planner, context.verifier) == (coder, planner, planner)


def test_a_resumed_run_keeps_its_settings_whatever_the_environment_says():
    resumed = {"trials": 4, "policy": "any", "run_dir": None, "a_setting_of_another_version": 1}
    context = resolve_settings({"policy": "libraries"}, None, environ=ENVIRON, resumed=resumed)
    assert (context.trials, context.policy) == (4, "libraries")


def test_dotenv_is_read_and_the_environment_beats_it(monkeypatch):
    Path(".env").write_text("STITCHCUDA_TRIALS=6\nSTITCHCUDA_SEED=11\n")
    monkeypatch.setenv("STITCHCUDA_SEED", "12")
    context = resolve_settings({})
    assert (context.trials, context.seed) == (6, 12)


def test_environment_values_are_read_as_their_type():
    environ = {"STITCHCUDA_REVIEW_PLAN": "true", "STITCHCUDA_TEMPERATURE": "0.5", "STITCHCUDA_SEED": ""}
    context = resolve_settings({}, environ=environ)
    assert (context.review_plan, context.temperature, context.seed) == (True, 0.5, None)


def test_none_unsets(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('cross_compile = "none"')
    assert resolve_settings({}, path, environ={}).cross_compile is None
    with pytest.raises(SettingsError):
        resolve_settings({"trials": "none"}, environ={})


@pytest.mark.parametrize(
    ("flags", "file", "environ", "said"),
    [
        ({"trials": 0}, "", {}, ["command line", "trials"]),
        ({"trails": 1}, "", {}, ["command line", "did you mean 'trials'"]),
        ({}, "trials = 'many'", {}, ["settings.toml", "trials"]),
        ({}, "trials = ", {}, ["settings.toml", "not TOML"]),
        ({}, "[evaluation]\ntrials = 3", {}, ["settings.toml", "evaluation", "table"]),
        ({}, "openai_api_key = 'sk-secret'", {}, ["settings.toml", "openai_api_key"]),
        ({}, "run_dir = 'x'", {}, ["settings.toml", "run_dir"]),
        ({}, "", {"STITCHCUDA_POLICY": "sk-secret"}, ["environment", "policy"]),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it_and_its_source(tmp_path, flags, file, environ, said):
    path = tmp_path / "settings.toml"
    path.write_text(file)
    with pytest.raises(SettingsError) as caught:
        resolve_settings(flags, path, environ=environ)
    message = str(caught.value)
    assert all(text in message for text in said)
    assert "\n" not in message
    assert "sk-secret" not in message


def test_settings_reach_the_run(cli, fake_solve, problem_file, monkeypatch):
    Path("s.toml").write_text('policy = "any"\nmax-attempts = 3\n')
    monkeypatch.setenv("STITCHCUDA_PATIENCE", "2")
    done = cli(
        "solve", problem_file, "--settings", "s.toml", "--max-attempts", 4, "--set", "temperature=0.5", "--device=cpu"
    )
    assert done.code == 0
    context = fake_solve.calls[0]["context"]
    assert (context.policy, context.max_attempts, context.patience, context.temperature) == ("any", 4, 2, 0.5)
