"""``stitchcuda solve`` and what every command shares: exit codes, streams, one line per expected error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stitchcuda.core.errors import ModelError, ProblemError, ToolchainError, WorkerError


def test_solved_run_says_where_the_result_lies(cli, fake_solve, problem_file):
    done = cli("solve", problem_file, "--device", "cpu")
    assert done.code == 0
    run_dir = fake_solve.calls[0]["run_dir"]
    assert f"best     {run_dir / 'best.py'}" in done.out
    assert f"report   {run_dir / 'report.md'}" in done.out
    assert "relu: passed" in done.out
    assert run_dir.parent == Path("runs")


@pytest.mark.usefixtures("fake_solve")
def test_json_is_one_object_and_progress_is_on_stderr(cli, problem_file):
    done = cli("solve", problem_file, "--device", "cpu", "--json")
    assert (done.code, done.json["status"], done.json["solved"]) == (0, "passed", True)
    assert {"reasons", "speedup", "candidate", "report", "run_dir", "stop_reason"} <= done.json.keys()
    assert "planner · one sub-task" in done.err
    assert "diagnose · attempt 1 · passed · done" in done.err


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("wrong_values", 1), ("build_failed", 1), (0.9, 1), (1.5, 0), ("machine_error", 3)],
)
def test_exit_code_follows_the_outcome(cli, fake_solve, problem_file, outcome, code):
    fake_solve.outcomes["relu"] = outcome
    done = cli("solve", problem_file, "--device", "cpu", "--json")
    assert done.code == code
    assert done.json["speedup"] == (outcome if isinstance(outcome, float) else None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProblemError("relu: get_inputs raises ValueError: no"), 2),
        (ToolchainError("no compiler"), 3),
        (WorkerError("a worker died"), 3),
        (ModelError("401 from the endpoint"), 3),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_expected_errors_are_one_line(cli, fake_solve, problem_file, error, code, as_json):
    fake_solve.outcomes["relu"] = error
    done = cli("solve", problem_file, "--device", "cpu", *["--json"] * as_json)
    assert done.code == code
    assert done.err.splitlines()[-1] == f"error: {error}"
    assert "Traceback" not in done.err
    if as_json:
        assert done.json == {"error": type(error).__name__, "message": str(error), "exit_code": code}
    else:
        assert done.out == ""


def test_a_bug_keeps_its_traceback(cli, fake_solve, problem_file):
    fake_solve.outcomes["relu"] = KeyError("a bug")
    with pytest.raises(KeyError):
        cli("solve", problem_file, "--device", "cpu")


BAD_PROBLEMS = {
    "syntax.py": b"def broken(:\n",
    "no_model.py": b"import torch\ndef get_inputs():\n    return []\n",
    "no_inputs.py": b"import torch.nn as nn\nclass Model(nn.Module):\n    pass\n",
    "binary.py": bytes(range(256)),
    "empty.py": b"",
    "prose.py": b"Dear reader, this is no Python.\n",
}


@pytest.mark.parametrize("name", [*BAD_PROBLEMS, "absent.py", "folder"])
def test_bad_problems_end_with_2_and_one_line(cli, tmp_path, name):
    if name in BAD_PROBLEMS:
        (tmp_path / name).write_bytes(BAD_PROBLEMS[name])
    elif name == "folder":
        (tmp_path / name).mkdir()
    done = cli("solve", tmp_path / name, "--device", "cpu")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert name.split(".")[0] in done.err
    assert not Path("runs").exists()
    assert cli("solve", tmp_path / name, "--json").json["error"] == "ProblemError"


def test_a_problem_that_fails_when_run_leaves_no_folder_behind(cli, fake_solve, problem_file):
    fake_solve.outcomes["relu"] = ProblemError("relu: get_inputs raises ValueError: no")
    fake_solve.before_run_json = True
    assert cli("solve", problem_file, "--device", "cpu", "--out", "run").code == 2
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve"],
        ["solve", "--kernelbench", "kb", "--level", "1"],
        ["solve", "{problem}", "--kernelbench", "kb"],
        ["solve", "{problem}", "--id", "3"],
        ["solve", "{problem}", "--policy", "everything"],
        ["solve", "{problem}", "--device", "gpu"],
        ["solve", "{problem}", "--max-attempts", "0"],
        ["solve", "{problem}", "--set", "temperature"],
        ["solve", "{problem}", "--set", "temprature=1"],
        ["solve", "{problem}", "--settings", "absent.toml"],
        ["solve", "{problem}", "--out", "{problem}"],
        ["solve", "--resume", "absent"],
        ["solve", "{problem}", "--resume", "absent", "--out", "x"],
        ["solve", "{problem}", "--max-attempts", "many"],
        ["solve", "{problem}", "--bogus"],
        ["bogus"],
        ["eval", "{problem}"],
        ["eval", "{problem}", "absent.py"],
        ["bench"],
        ["bench", "absent"],
        ["bench", "{problem}", "--ids", "x"],
        ["bench", "{problem}", "--slice", "x"],
        ["bench", "{problem}", "--filter", "nothing-like-it"],
        ["report", "absent"],
        ["report", "absent", "absent"],
    ],
)
def test_wrong_usage_ends_with_2_without_traceback(cli, problem_file, arguments):
    given = [argument.format(problem=problem_file) for argument in arguments]
    done = cli(*given)
    assert (done.code, done.out) == (2, "")
    assert done.err
    assert "Traceback" not in done.err
    done = cli(*given, "--json")
    assert done.code == 2
    assert done.json["exit_code"] == 2


def test_a_missing_gpu_is_the_machines_lack(cli, problem_file):
    done = cli("solve", problem_file, "--device", "cuda:77", "--json")
    assert (done.code, done.json["error"]) == (3, "ToolchainError")
    assert "--device cpu" in done.json["message"]


def test_resume_takes_problem_and_settings_from_the_folder(cli, fake_solve, problem_file, monkeypatch):
    fake_solve.outcomes["relu"] = ModelError("endpoint down")
    assert cli("solve", problem_file, "--device", "cpu", "--max-attempts", 7, "--out", "run").code == 3
    del fake_solve.outcomes["relu"]
    monkeypatch.setenv("STITCHCUDA_MAX_ATTEMPTS", "9")
    assert cli("solve", "--resume", "run", "--trials", 2).code == 0
    call = fake_solve.calls[-1]
    assert call["resume"] is True
    assert call["problem"].sha256 == fake_solve.calls[0]["problem"].sha256
    assert (call["context"].max_attempts, call["context"].trials, call["context"].device) == (7, 2, "cpu")


@pytest.mark.usefixtures("fake_solve")
def test_resume_refuses_another_problem(cli, problem_file, tmp_path):
    assert cli("solve", problem_file, "--device", "cpu", "--out", "run").code == 0
    other = tmp_path / "other.py"
    other.write_text(problem_file.read_text().replace("relu", "tanh"))
    done = cli("solve", other, "--resume", "run")
    assert done.code == 2
    assert "is not the problem of the run" in done.err


@pytest.mark.usefixtures("fake_solve")
def test_out_refuses_a_folder_in_use(cli, problem_file):
    assert cli("solve", problem_file, "--device", "cpu", "--out", "run").code == 0
    done = cli("solve", problem_file, "--device", "cpu", "--out", "run")
    assert done.code == 2
    assert "--resume run" in done.err


def test_explain_shows_plan_and_attempts(cli, fake_solve, problem_file):
    fake_solve.outcomes["relu"] = "wrong_values"
    done = cli("solve", problem_file, "--device", "cpu", "--explain")
    assert "s1  fuse [all]: one kernel" in done.out
    assert "left to PyTorch: mm: library" in done.out
    assert "x_reason [why] so" in done.out


def test_a_plan_that_waits_for_review_says_what_to_do(cli, fake_solve, problem_file):
    fake_solve.stop_reason = "plan_review"
    fake_solve.outcomes["relu"] = "wrong_values"
    done = cli("solve", problem_file, "--device", "cpu", "--set", "review_plan=true", "--out", "run")
    assert done.code == 1
    assert str(Path("run") / "plans") in done.out
    assert "stitchcuda solve --resume run" in done.out


@pytest.mark.usefixtures("fake_solve")
def test_names_that_are_not_ascii(cli, problem_file, tmp_path):
    folder = tmp_path / "Übung 日本"
    folder.mkdir()
    path = folder / "3_größe.py"
    path.write_text(problem_file.read_text())
    done = cli("solve", path, "--device", "cpu", "--out", folder / "läuft", "--json")
    assert done.code == 0
    assert Path(done.json["candidate"]) == folder / "läuft" / "best.py"
    assert done.out.isascii()
    assert str(folder / "läuft" / "best.py") in cli("report", folder / "läuft").out


@pytest.mark.usefixtures("fake_solve")
def test_keys_are_never_printed(cli, problem_file, monkeypatch):
    key = "sk-planted-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    Path("settings.toml").write_text(f'openai_api_key = "{key}"\n')
    shown = [
        cli("doctor"),
        cli("doctor", "--json"),
        cli("solve", problem_file, "--device", "cpu", "--out", "run", "--json"),
        cli("solve", problem_file, "--settings", "settings.toml"),
        cli("report", "run", "--json"),
        cli("bench", problem_file, "--device", "cpu", "--out", "batch", "--json"),
    ]
    assert all(key not in done.out + done.err for done in shown)
    assert shown[1].json["machine"]["keys"]["OPENAI_API_KEY"] is True
    files = [path for folder in ("run", "batch") for path in Path(folder).rglob("*") if path.is_file()]
    assert files
    assert all(key not in path.read_text() for path in files)


# --- as a process of its own --------------------------------------------------------------------------------------

SLOW_RUN = """
import asyncio, sys
from pathlib import Path
import stitchcuda.graph.solve as module
from stitchcuda.nodes.run_folder import RunFolder

async def slow(problem, context, *, run_dir, resume=False, on_event=None):
    folder = RunFolder(run_dir)
    folder.write_problem(problem, None)
    folder.write_settings(context.model_dump(mode="json"), {})
    on_event(module.Event(stage="coder", message="thinking"))
    await asyncio.sleep(60)

module.solve = slow
from stitchcuda.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("command", ["solve", "bench"])
def test_interrupt_keeps_the_run_and_says_how_to_go_on(problem_file, command):
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_RUN, command, str(problem_file), "--device", "cpu", "--out", "my run", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "thinking" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "'my run'" in err.splitlines()[-1]
    assert json.loads(out)["error"] == "Interrupted"
    run_dir = Path("my run") if command == "solve" else Path("my run") / "3_relu"
    assert (run_dir / "run.json").exists()
    if command == "bench":
        assert not (Path("my run") / "results.jsonl").exists()


def test_help_imports_nothing_heavy():
    code = textwrap.dedent(
        """
        import sys
        from stitchcuda.cli.main import main
        code = main(["--help"])
        heavy = {"torch", "langgraph", "langchain_core", "pydantic", "pydantic_settings", "chromadb", "numpy"}
        print(code, sorted(heavy & sys.modules.keys()), file=sys.stderr)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "0 []"


@pytest.mark.parametrize("command", ["solve", "eval", "doctor", "bench", "report"])
def test_every_command_has_help_also_when_narrow_and_without_colour(cli, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    done = cli(command, "--help")
    assert done.code == 0
    assert "--json" in done.out
    assert "\x1b[" not in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 40


def test_version(cli):
    done = cli("--version")
    assert (done.code, done.out.split()[0]) == (0, "stitchcuda")
