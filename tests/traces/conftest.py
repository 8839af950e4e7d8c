"""A finished run folder for all tests of the room."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from played_session import SOURCES, play


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run folder; not to be changed."""
    run_dir = tmp_path_factory.mktemp("runs") / "3_7_relu"
    (run_dir / "candidates").mkdir(parents=True)
    for number, source in enumerate(SOURCES, start=1):
        (run_dir / "candidates" / f"{number:02d}.py").write_text(source)
    (run_dir / "problem.json").write_text(json.dumps({"level": 3, "id": 7, "name": "relu"}))
    (run_dir / "run.json").write_text(json.dumps({"created": "2026-12-01T12:00:00+00:00", "settings": {}}))
    result = {"status": "passed", "speedup": 1.5, "attempts": 2, "seconds": 4.0, "stop_reason": "complete"}
    result |= {"usage": {"calls": 2, "input_tokens": 22, "output_tokens": 10, "cost_usd": 0.025}}
    result |= {"device": {"device": "cpu"}}
    (run_dir / "result.json").write_text(json.dumps(result))
    asyncio.run(play(run_dir))
    return run_dir
