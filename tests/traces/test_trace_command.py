"""``stitchcuda trace …`` as a user meets it: what is printed, filters, exit codes, one line per error."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from played_session import SECRET

from stitchcuda.cli.main import main

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["trace", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def runs(played: Path, tmp_path: Path) -> Path:
    """A batch: one run that passed, one that did not, one that goes on."""
    shutil.copytree(played, tmp_path / "batch" / "good")
    other = Path(shutil.copytree(played, tmp_path / "batch" / "deep" / "bad"))
    (other / "problem.json").write_text(json.dumps({"level": 1, "id": 2, "name": "softmax"}))
    (other / "result.json").write_text(json.dumps({"status": "wrong_values", "seconds": 9.0, "attempts": 5}))
    going = Path(shutil.copytree(played, tmp_path / "batch" / "going"))
    (going / "result.json").unlink()
    return tmp_path / "batch"


def names(out: str) -> list[str]:
    return [run["path"].rsplit("/", 1)[1] for run in json.loads(out)["runs"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["bad", "going", "good"]),
        (("--status", "passed"), ["good"]),
        (("--status", "passed", "--status", "unfinished"), ["going", "good"]),
        (("--problem", "1_2_soft"), ["bad"]),
        (("--min-speedup", "1.5"), ["good"]),
        (("--max-speedup", "1.4"), []),
        (("--min-seconds", "5"), ["bad"]),
        (("--min-tokens", "32"), ["good"]),
        (("--min-cost", "0.02"), ["good"]),
        (("--sort", "cost_usd"), ["good", "bad", "going"]),
        (("--sort", "seconds"), ["bad", "good", "going"]),
        (("--sort", "attempts", "--limit", "1"), ["bad"]),
    ],
)
def test_list_filters_and_sorts(cli: Cli, runs: Path, options: tuple[str, ...], expected: list[str]) -> None:
    code, out, _ = cli("list", runs, "--json", *options)
    assert names(out) == expected
    assert code == (0 if expected else 1)


def test_list_prints_a_table(cli: Cli, runs: Path) -> None:
    code, out, _ = cli("list", runs)
    assert code == 0
    good = next(line for line in out.splitlines() if line.rstrip().endswith("good"))
    assert all(
        text in good for text in ("relu", "passed", "1.50x", "2", "4.0", "32", "$0.025", "complete", "2026-12-01 12:00")
    ), good


def test_show_draws_the_tree_and_one_run(cli: Cli, played: Path) -> None:
    code, out, _ = cli("show", played)
    assert code == 0
    assert "verifier" in out
    assert "build_failed identifier y is undefined" in out
    assert "failed: line 4: identifier y is undefined" in out
    assert "11→5 tokens" in out
    assert sum("engine.coder" in line and "$0.013" in line for line in out.splitlines()) == 2
    assert "after_verifier" not in out

    number = next(line.split()[0] for line in out.splitlines() if "GenericFakeChatModel" in line)
    _, full, _ = cli("show", played, "--run", number)
    assert "--- system ---\nYou are the Coder." in full
    assert "Write attempt 1; [redacted]" in full
    assert SECRET not in full
    assert full.count("</script><b>not markup</b>") == 40  # the answer is whole, although it lies in a file of its own

    _, text, _ = cli("show", played, "--run", number, "--json")
    assert json.loads(text)["outputs"]["generations"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--kind", "llm"), 2),
        (("--name", "evaluator"), 2),
        (("--depth", "0"), 1),
        (("--slowest", "3"), 3),
        (("--status", "error"), 0),
        (("--limit", "4"), 4),
    ],
)
def test_show_filters(cli: Cli, played: Path, options: tuple[str, ...], expected: int) -> None:
    code, out, _ = cli("show", played, "--json", *options)
    found: dict[str, Any] = json.loads(out)
    assert len(found["runs"]) == expected
    assert code == (0 if expected else 1)


def test_diff_of_the_last_two_attempts(cli: Cli, played: Path) -> None:
    code, out, _ = cli("diff", played)
    assert code == 0
    assert "-__global__ void k(float* x) { x[0] = y; }" in out
    assert "+__global__ void k(float* x) { x[0] = 2.0f; }" in out
    assert "== plan: the same" in out
    assert "-status: build_failed" in out
    assert "+status: passed" in out
    assert cli("diff", played, 1, 1)[0] == 1
    code, out, err = cli("diff", played, 1, 9, "--json")
    assert code == 2
    assert json.loads(out)["error"] == "SettingsError"
    assert "there is no attempt 9; there are: 1, 2" in err


def test_grep_tells_each_text_once_where_it_was_made(cli: Cli, runs: Path) -> None:
    code, out, _ = cli("grep", r"x\[0\] = 2\.0f", runs / "good")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == ["GenericFakeChatModel", "engine.coder"]
    code, out, _ = cli("grep", "-F", "x[0] = 2.0f", runs, "--json")
    assert {Path(hit["run_dir"]).name for hit in json.loads(out)["hits"]} == {"good", "bad", "going"}
    assert cli("grep", "nowhere to be found", runs)[0] == 1
    code, _, err = cli("grep", "x[", runs)
    assert code == 2
    assert "is no regular expression" in err
    assert cli("grep", SECRET, runs)[0] == 1


def test_export(cli: Cli, runs: Path, tmp_path: Path) -> None:
    code, out, _ = cli("export", runs, "--out", tmp_path / "x" / "all.jsonl", "--kind", "llm", "--json")
    assert code == 0
    rows = [json.loads(line) for line in (tmp_path / "x" / "all.jsonl").read_text().splitlines()]
    assert json.loads(out)["runs"] == len(rows) == 6
    assert all(row["prompt"][0] == {"role": "system", "content": "You are the Coder."} for row in rows)
    assert all("not markup" in row["answer"] for row in rows)
    code, _, _ = cli("export", runs / "good", "--out", tmp_path / "spans.json", "--format", "otlp")
    assert code == 0
    assert json.loads((tmp_path / "spans.json").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert cli("export", tmp_path / "x", "--out", tmp_path / "none.jsonl")[0] == 2


def test_parquet(cli: Cli, runs: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    code, _, err = cli("export", runs, "--out", tmp_path / "all.parquet")
    assert code == 0, err
    cli("export", runs, "--out", tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    rows = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert [(row["run_dir"], row["number"], row["name"]) for row in rows] == [
        (line["run_dir"], line["number"], line["name"]) for line in lines
    ]
    for row, line in zip(rows, lines, strict=True):
        assert row["duration_s"] == line["duration_s"]
        assert row["hidden"] is line["hidden"]
        assert json.loads(row["inputs"]) == line["inputs"]
        assert json.loads(row["outputs"]) == line["outputs"]
        assert row["answer"] == line["answer"]
    calls = [row for row in rows if row["run_type"] == "llm"]
    assert {(row["prompt_tokens"], row["completion_tokens"], row["cost_usd"]) for row in calls} == {(11, 5, None)}
    assert json.loads(calls[0]["prompt"])[0] == {"role": "system", "content": "You are the Coder."}
    assert [row["cost_usd"] for row in rows if row["name"] == "engine.coder"] == [0.0125] * 6


def test_parquet_without_pyarrow_is_one_line(
    cli: Cli, played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = cli("export", played, "--out", tmp_path / "all.parquet")
    assert code == 3
    assert "Parquet needs pyarrow" in err
    assert not list(tmp_path.glob("*.parquet"))


def test_ui_writes_a_page(cli: Cli, played: Path, tmp_path: Path) -> None:
    code, out, _ = cli("ui", played, "--out", tmp_path / "page.html", "--json")
    assert code == 0
    assert json.loads(out)["cut"] == 0
    assert (tmp_path / "page.html").stat().st_size == json.loads(out)["bytes"]


@pytest.mark.parametrize("arguments", [("show",), ("diff",), ("ui", "--out", "x.html"), ("push",)])
def test_a_folder_without_a_trace_is_one_line(cli: Cli, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, _, err = cli(arguments[0], tmp_path, *arguments[1:])
    assert code == 2
    assert "trace" in err
    assert len(err.strip().splitlines()) == 1
