"""Nothing is left over: not after many evaluations, not after ``close``, not after ``cancel``."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from evaluator_programs import SCALE, plain

from stitchcuda.core.records import Status
from stitchcuda.tools.evaluate import Cancelled
from stitchcuda.tools.sandbox import client
from stitchcuda.tools.sandbox.tree import descendants

HOSTILE = [
    plain("return self.compute(x)"),
    plain("return self.compute(x) + 1"),
    plain("return x", top="import os\nos._exit(0)\n"),
    plain("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    plain("return torch.empty(1 << 45)"),
]


def _footprint() -> tuple[int, int, int]:
    """Descriptors, processes below us, folders of workers."""
    server = client._server
    folders = len([p for p in server.root.iterdir() if p.is_dir()]) if server else 0
    return len(list(Path("/proc/self/fd").iterdir())), len(descendants(os.getpid())), folders


def test_twenty_evaluations_leave_nothing(make_evaluator):
    evaluator = make_evaluator(SCALE, policy="any", trials=2)
    evaluator.check(HOSTILE[0])
    before = _footprint()
    statuses = [evaluator.check(HOSTILE[i % len(HOSTILE)]).status for i in range(20)]
    assert statuses.count(Status.PASSED) == 4
    assert statuses.count(Status.WRONG_VALUES) == 4
    assert statuses.count(Status.RUNTIME_ERROR) == 12
    assert _footprint() == before
    evaluator.close()
    after = _footprint()
    assert after[1] < before[1]
    assert after[2] < before[2]


def test_cancel_ends_a_hanging_candidate_within_a_second(make_evaluator):
    evaluator = make_evaluator(SCALE, policy="any", call_timeout_s=60)
    evaluator.check(HOSTILE[0])
    caught: list[BaseException] = []

    def run() -> None:
        try:
            evaluator.check(plain("while True: pass"))
        except Cancelled as cancelled:
            caught.append(cancelled)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1.5)
    started = time.monotonic()
    evaluator.cancel()
    thread.join(timeout=5)
    assert time.monotonic() - started < 1
    assert len(caught) == 1
    with pytest.raises(Cancelled):
        evaluator.check(HOSTILE[0])
    evaluator.close()
