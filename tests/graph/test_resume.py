"""``kill -9`` at any moment, then resume: nothing finished is repeated, nothing found is lost, no file is torn."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from stitchcuda.core.errors import SettingsError
from stitchcuda.graph.context import Context
from stitchcuda.graph.solve import load_run, solve
from stitchcuda.problems import load_problem
from stitchcuda.traces import read_trace

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "12_tiny_vit.py"
"""Several sub-tasks, so that a kill can fall between two of them."""

DRIVER = """
import asyncio, sys
from pathlib import Path
from stitchcuda.graph.context import Context
from stitchcuda.graph.solve import load_run, solve
from stitchcuda.problems import load_problem

async def main(run_dir: Path, example: Path) -> None:
    if (run_dir / "run.json").exists():
        problem, context = load_run(run_dir)
    else:
        problem, context = load_problem(example), Context(device="cpu", trials=2, cross_compile=None, seed=7)
    print((await solve(problem, context, run_dir=run_dir, resume=True)).model_dump_json())

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def start(run_dir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(run_dir), str(EXAMPLE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def check_files(run_dir: Path) -> None:
    """Whatever is there after a kill can be read."""
    for path in run_dir.rglob("*.json"):
        json.loads(path.read_text())
    for path in (*run_dir.glob("candidates/*.py"), *run_dir.glob("best.py")):
        compile(path.read_text(), str(path), "exec")
    if (run_dir / "best.py").exists():
        best = json.loads((run_dir / "best.json").read_text())
        assert best["evaluation"]["status"] == "passed"


@pytest.mark.xdist_group("resume")
@pytest.mark.timeout(280)
@pytest.mark.parametrize("kills", [pytest.param(3, id="three"), pytest.param(10, id="ten", marks=pytest.mark.slow)])
def test_killed_again_and_again(tmp_path: Path, kills: int) -> None:
    started = time.monotonic()
    undisturbed = start(tmp_path / "undisturbed")
    out, err = undisturbed.communicate(timeout=250)
    assert undisturbed.returncode == 0, err.decode()[-2000:]
    seconds = time.monotonic() - started
    wanted = json.loads(out)

    run_dir, chance = tmp_path / "killed", random.Random(11)
    best_before: set[str] = set()
    for _ in range(kills):
        process = start(run_dir)
        try:
            process.wait(chance.uniform(0.1, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        check_files(run_dir)
        assert best_before <= {path.name for path in run_dir.glob("best.py")}
        best_before = {path.name for path in run_dir.glob("best.py")}
    last = start(run_dir)
    out, err = last.communicate(timeout=250)
    assert last.returncode == 0, err.decode()[-2000:]
    result = json.loads(out)
    for key in ("status", "solved", "stop_reason", "attempts", "reasons"):
        assert result[key] == wanted[key], key
    assert (run_dir / "best.py").read_text() == (tmp_path / "undisturbed" / "best.py").read_text()
    check_files(run_dir)

    finished = Counter(
        (record.name, record.metadata.get("langgraph_step"), record.metadata.get("langgraph_checkpoint_ns"))
        for record in read_trace(run_dir / "trace.jsonl")
        if record.metadata.get("langgraph_node") == record.name and record.end_time and not record.error
    )
    assert finished
    repeated = {step: count for step, count in finished.items() if count > 1}
    # A step whose end was written to the trace in the instant before its checkpoint was may stand twice: one per kill.
    assert sum(count - 1 for count in repeated.values()) <= kills, repeated


async def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    problem = load_problem(REPOSITORY / "examples" / "01_residual_gelu.py")
    context = Context(device="cpu", trials=2, cross_compile=None, runs_dir=tmp_path)
    first = await solve(problem, context, run_dir=tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "candidates").iterdir()}
    stored_problem, stored_context = load_run(tmp_path / "run")
    second = await solve(stored_problem, stored_context, run_dir=tmp_path / "run", resume=True)
    assert second == first
    assert first.solved
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "candidates").iterdir()}


async def test_a_folder_in_use_or_taken_is_refused(tmp_path: Path) -> None:
    problem = load_problem(REPOSITORY / "examples" / "01_residual_gelu.py")
    context = Context(device="cpu", trials=2, cross_compile=None)
    running = asyncio.create_task(solve(problem, context, run_dir=tmp_path / "run"))
    while not (tmp_path / "run" / "run.json").exists():  # noqa: ASYNC110  # a file, not an event of this loop
        await asyncio.sleep(0.05)
    with pytest.raises(SettingsError, match="another process works in"):
        await solve(problem, context, run_dir=tmp_path / "run", resume=True)
    await running
    with pytest.raises(SettingsError, match="already holds a run"):
        await solve(problem, context, run_dir=tmp_path / "run")


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"run\.json is missing"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text('{"format_version": 99}')
    with pytest.raises(SettingsError, match="format 99"):
        load_run(tmp_path)
