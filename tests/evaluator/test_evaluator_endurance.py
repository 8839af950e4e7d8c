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

GOOD = plain("return self.compute(x)")
WRONG = plain("return self.compute(x) + 1")
FORKS = """
import os, signal
def burst():
    for _ in range(5):
        if os.fork() == 0:
            signal.pause()
"""
BAD = [
    (plain("return x", top="import os\nos._exit(0)\n"), Status.RUNTIME_ERROR, "early_exit"),
    (plain("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), Status.RUNTIME_ERROR, "crashed"),
    (plain("while True: pass"), Status.TIMEOUT, "timeout"),
    (plain("return torch.empty(1 << 45)"), Status.RUNTIME_ERROR, "out_of_memory"),
    (plain("burst(); return self.compute(x)", top=FORKS), Status.PASSED, ""),
    (plain("import os; [os.open('/dev/null', 0) for _ in range(9000)]"), Status.RUNTIME_ERROR, "exception"),
    (plain("open('much', 'wb').write(bytes(1 << 26)); return x + 1"), Status.WRONG_VALUES, ""),
    (plain("import os; os.write(3, b'PASSED'); os._exit(0)"), Status.RUNTIME_ERROR, "protocol_broken|early_exit"),
    (plain("import os; os.memfd_create('kept'); import sys; sys.exit(0)"), Status.RUNTIME_ERROR, "early_exit"),
    (plain("open('/tmp/left-by-a-candidate', 'w'); return x"), Status.RUNTIME_ERROR, "exception"),
]


def _sequence(count: int) -> list[tuple[str, Status, str]]:
    """Four right or wrong candidates, then one of the bad ones in turn. With a bar between reasons, either is true."""
    good = [(GOOD, Status.PASSED, ""), (WRONG, Status.WRONG_VALUES, "")]
    return [BAD[i // 5 % len(BAD)] if i % 5 == 4 else good[i % 2] for i in range(count)]


def _footprint() -> dict[str, object]:
    """What evaluations could leave behind."""
    server = client._server
    folders = sorted(p.name for p in server.root.iterdir() if p.is_dir()) if server else []
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "processes": len(descendants(os.getpid())),
        "folders": folders,
        "files": sum(1 for _ in server.root.rglob("*")) if server else 0,
        "shared memory": sorted(p.name for p in Path("/dev/shm").iterdir() if p.owner() == Path.home().owner()),
        "threads": threading.active_count(),
    }


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_many_evaluations_in_a_row_leave_nothing(make_evaluator, count):
    evaluator = make_evaluator(SCALE, policy="any", trials=2, call_timeout_s=4)
    evaluator.check(GOOD)
    before = _footprint()
    unexpected = []
    for i, (source, status, reason) in enumerate(_sequence(count)):
        report = evaluator.check(source)
        if report.status is not status or (reason and not set(report.reasons[:1]) & set(reason.split("|"))):
            unexpected.append((i, source[-80:], report.status, report.reasons, report.message))
    assert unexpected == []
    assert _footprint() == before
    assert not Path("/tmp/left-by-a-candidate").exists()
    evaluator.close()
    after = _footprint()
    assert after["processes"] < before["processes"]
    assert len(after["folders"]) < len(before["folders"])


def test_cancel_ends_a_hanging_candidate_within_a_second(make_evaluator):
    evaluator = make_evaluator(SCALE, policy="any", call_timeout_s=60)
    evaluator.check(GOOD)
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
        evaluator.check(GOOD)
    evaluator.close()
