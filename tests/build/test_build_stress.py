"""Sixteen processes build the same and different candidates in one store while some of them are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.build.loader import load_extension

WORKER = """
import random, sys
from pathlib import Path
from stitchcuda.tools.build import Builder, ExtensionSpec
seed, cache = int(sys.argv[1]), Path(sys.argv[2])
builder = Builder(cache, timeout_s=280)
numbers = list(range(6))
random.Random(seed).shuffle(numbers)
for number in numbers:
    spec = ExtensionSpec("same", (f"int64_t value() {{ return {number}; }}",), functions=("value",))
    build = builder.build(spec, "cpu")
    assert build.ok, build.diagnostics
    print(number, build.path, flush=True)
"""


@pytest.mark.slow
def test_a_store_survives_sixteen_builders_of_which_some_are_killed(tmp_path: Path) -> None:
    def start(seed: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, str(seed), str(tmp_path)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    workers = [start(seed) for seed in range(16)]
    chance = random.Random(1)
    victims = chance.sample(workers, 8)
    for victim in victims:
        time.sleep(chance.uniform(0.3, 2.0))
        os.kill(victim.pid, signal.SIGKILL)  # its compilers live on for a moment, as after a real crash
    survivors = [worker for worker in workers if worker not in victims]
    paths: dict[str, set[str]] = {}
    for worker in workers:
        output, errors = worker.communicate(timeout=280)
        if worker in survivors:
            assert worker.returncode == 0, errors
            assert len(output.splitlines()) == 6
        for line in output.splitlines():
            number, path = line.split()
            paths.setdefault(number, set()).add(path)
    assert {number: len(found) for number, found in paths.items()} == dict.fromkeys("012345", 1)
    builder = Builder(tmp_path, timeout_s=60)
    for number in range(6):
        spec = ExtensionSpec("same", (f"int64_t value() {{ return {number}; }}",), functions=("value",))
        build = builder.build(spec, "cpu")
        assert build.cached
        assert load_extension(build.model_dump(), spec).value() == number
    # Nothing unfinished can be taken for a result, and a later builder clears what a killed one left.
    assert all((entry / "manifest.json").exists() for entry in (tmp_path / "extensions" / "entries").iterdir())
