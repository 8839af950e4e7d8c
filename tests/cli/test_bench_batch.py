"""``stitchcuda bench`` and ``stitchcuda report``: batches that survive failures, kills and second thoughts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stitchcuda.core.errors import ModelError, ProblemError, WorkerError

NAMES = ("1_relu", "2_tanh", "3_gelu", "4_silu")


@pytest.fixture
def folder(problem_file, tmp_path):
    path = tmp_path / "problems"
    path.mkdir()
    for name in NAMES:
        (path / f"{name}.py").write_text(problem_file.read_text())
    return path


@pytest.fixture
def bench(cli, folder):
    def run(*arguments):
        return cli("bench", folder, "--device", "cpu", "--out", "batch", *arguments)

    return run


def statuses(done) -> dict[str, str | None]:
    return {one["slug"]: one["result"] and one["result"]["status"] for one in done.json["problems"]}


def ran(fake_solve) -> list[str]:
    return [call["problem"].name for call in fake_solve.calls]


def test_a_failing_problem_does_not_stop_the_batch(bench, fake_solve, folder):
    (folder / "2_tanh.py").write_text("class Model(:\n")
    fake_solve.outcomes = {"relu": WorkerError("a worker died"), "gelu": RuntimeError("a bug")}
    done = bench("--json")
    assert done.code == 1
    assert statuses(done) == {
        "1_relu": "machine_error",
        "2_tanh": "problem_error",
        "3_gelu": "internal_error",
        "4_silu": "passed",
    }
    assert "RuntimeError: a bug" in (Path("batch") / "errors" / "3_gelu.txt").read_text()
    assert done.json["scores"]["scorable"] == 1
    assert "problem 1 of 4: 1_relu" in done.err


def test_all_solved_ends_with_0_and_leaves_run_folders_and_a_report(bench, fake_solve):
    fake_solve.outcomes = {"relu": 1.5, "tanh": 2.0, "gelu": 1.25, "silu": 4.0}
    done = bench()
    assert done.code == 0
    assert all((Path("batch") / name / "best.py").exists() for name in NAMES)
    assert "fast_1.0 100.0%" in done.out
    assert "fast_1.5 50.0%" in done.out
    report = (Path("batch") / "report.md").read_text()
    assert "| 2_tanh | passed | 2.00x |" in report
    assert "| geometric mean of speed-ups, passed problems | 1.97x |" in report


def test_the_same_command_goes_on_after_a_torn_line(bench, fake_solve):
    assert bench().code == 0
    lines = (Path("batch") / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    (Path("batch") / "results.jsonl").write_bytes(lines[0] + lines[1] + lines[2][: len(lines[2]) // 2])
    fake_solve.calls.clear()
    done = bench("--json")
    assert ran(fake_solve) == ["gelu", "silu"]
    assert all(call["resume"] for call in fake_solve.calls)
    assert statuses(done) == dict.fromkeys(NAMES, "passed")
    assert "2 done before" in done.err
    fake_solve.calls.clear()
    assert bench().code == 0
    assert ran(fake_solve) == []


def test_outcomes_that_say_nothing_are_run_again_and_resumed(bench, fake_solve):
    fake_solve.outcomes = {"relu": WorkerError("died"), "tanh": ProblemError("no"), "gelu": "wrong_values"}
    bench()
    fake_solve.outcomes, fake_solve.calls = {}, []
    done = bench("--json")
    assert ran(fake_solve) == ["relu"]
    assert fake_solve.calls[0]["resume"] is True
    assert list(statuses(done).values()) == ["passed", "problem_error", "wrong_values", "passed"]


def test_redo_by_status_keeps_the_earlier_run(bench, fake_solve):
    fake_solve.outcomes = {"gelu": "wrong_values"}
    bench()
    fake_solve.outcomes, fake_solve.calls = {}, []
    done = bench("--redo", "wrong_values", "--json")
    assert ran(fake_solve) == ["gelu"]
    assert fake_solve.calls[0]["resume"] is False
    assert (Path("batch") / "3_gelu.1" / "candidates" / "01.py").exists()
    assert statuses(done) == dict.fromkeys(NAMES, "passed")


def test_a_changed_problem_is_owed_again(bench, fake_solve, folder):
    bench()
    (folder / "2_tanh.py").write_text((folder / "2_tanh.py").read_text().replace("size = 8", "size = 16"))
    fake_solve.calls.clear()
    assert bench().code == 0
    assert ran(fake_solve) == ["tanh"]
    assert (Path("batch") / "2_tanh.1").is_dir()


def test_other_settings_need_another_folder(bench, fake_solve):
    bench()
    fake_solve.calls.clear()
    done = bench("--policy", "any", "--json")
    assert (done.code, done.json["error"]) == (2, "SettingsError")
    assert "policy 'libraries' -> 'any'" in done.json["message"]
    assert fake_solve.calls == []


def test_a_folder_that_is_no_batch_is_left_alone(bench):
    Path("batch").mkdir()
    (Path("batch") / "thesis.txt").write_text("mine")
    assert bench().code == 2
    assert (Path("batch") / "thesis.txt").read_text() == "mine"
    assert not (Path("batch") / "batch.json").exists()


def test_two_processes_do_not_share_a_batch(bench, fake_solve):
    from stitchcuda.bench import BatchFolder

    with BatchFolder(Path("batch")).exclusive():
        done = bench()
    assert done.code == 2
    assert "another process works on the batch" in done.err
    assert fake_solve.calls == []


def test_a_batch_does_not_wait_for_a_person(bench):
    assert bench("--set", "review_plan=true").code == 2


def test_a_dead_endpoint_ends_the_batch(bench, fake_solve):
    fake_solve.outcomes = dict.fromkeys(["relu", "tanh", "gelu", "silu"], ModelError("401: wrong key"))
    done = bench("--json")
    assert (done.code, done.json["error"]) == (3, "ModelError")
    assert ran(fake_solve) == ["relu", "tanh", "gelu"]
    assert (Path("batch") / "report.md").exists()


def test_limit_and_filter(bench, fake_solve):
    assert bench("--filter", "elu", "--limit", 1).code == 0
    assert ran(fake_solve) == ["relu"]
    assert bench("--limit", 2).code == 0
    assert ran(fake_solve) == ["relu", "tanh"]


# --- report ---------------------------------------------------------------------------------------------------------


def by_hand(path: Path, rows: dict[str, tuple[str, float | None]], device: str = "cuda:0") -> Path:
    """A batch folder as the documentation describes it, not as our code writes it."""
    path.mkdir()
    problems = [
        {"slug": slug, "name": slug, "level": 1, "id": number, "sha256": f"sha-{slug}", "origin": "by hand"}
        for number, slug in enumerate([*rows, "left"], start=1)
    ]
    batch = {
        "format_version": 1,
        "created": "2026-01-01T00:00:00+00:00",
        "version": "0.1.0",
        "device": device,
        "settings": {"policy": "libraries", "planner": "embedded", "coder": "openai:x", "verifier": "embedded"},
        "problems": problems,
    }
    (path / "batch.json").write_text(json.dumps(batch))
    lines = [
        json.dumps(
            {"slug": slug, "sha256": f"sha-{slug}", "status": status, "speedup": speedup, "message": "a | b <c>"}
        )
        for slug, (status, speedup) in rows.items()
    ]
    (path / "results.jsonl").write_text("\n".join([*lines, '{"slug": "left", "sha']))
    return path


def test_report_of_a_batch_made_by_hand(cli, tmp_path):
    path = by_hand(tmp_path / "a", {"one": ("passed", 1.0), "two": ("passed", 4.0), "three": ("wrong_values", None)})
    done = cli("report", path, "--json")
    assert done.code == 0
    scores = done.json["scores"]
    assert (scores["fast_p"]["0.0"], scores["fast_p"]["1.0"]) == (0.5, 0.25)
    assert scores["geomean_passed"] == pytest.approx(2.0)
    assert scores["geomean_all"] == pytest.approx(4 ** (1 / 3))
    assert scores["counts"] == {"passed": 2, "wrong_values": 1, "owed": 1}
    text = Path(done.json["report"]).read_text()
    assert "| three | wrong_values | – |" in text
    assert "a \\| b &lt;c>" in text
    assert "planner embedded, coder openai:x, verifier embedded" in text
    shown = cli("report", path)
    assert "4 problems: 2 passed, 1 wrong_values, 1 owed" in shown.out
    assert "geometric mean 2.00x over 2 passed and timed, 1.59x over 3 with failures as 1.0x" in shown.out


def test_report_compares_two_batches(cli, tmp_path):
    a = by_hand(tmp_path / "a", {"one": ("passed", 1.0), "two": ("wrong_values", None), "three": ("passed", 2.0)})
    b = by_hand(tmp_path / "b", {"one": ("passed", 3.0), "two": ("passed", 1.5), "four": ("passed", 2.0)})
    done = cli("report", a, b, "--json")
    assert (done.json["gained"], done.json["lost"]) == (1, 0)
    assert done.json["geomean_ratio"] == pytest.approx(3.0)
    assert (done.json["only_a"], done.json["only_b"]) == (["three"], ["four"])
    assert "| one | passed | passed | 1.00x | 3.00x | 3.00x | same |" in Path(done.json["report"]).read_text()
    assert "B is 3.00x as fast as A" in cli("report", a, b, "--out", "c.md").out
    assert Path("c.md").exists()


def test_report_of_a_run(cli, fake_solve, problem_file):
    fake_solve.outcomes["relu"] = "wrong_values"
    cli("solve", problem_file, "--device", "cpu", "--out", "run")
    shown = cli("report", "run")
    assert shown.code == 0
    assert "x_reason [why] so" in shown.out
    assert cli("report", "run", "--json").json["evaluations"][0]["status"] == "wrong_values"


@pytest.mark.parametrize("text", ["{", '{"format_version": 9}', "[]", ""])
def test_a_broken_batch_file_is_one_line(cli, tmp_path, text):
    path = by_hand(tmp_path / "a", {})
    (path / "batch.json").write_text(text)
    done = cli("report", path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
