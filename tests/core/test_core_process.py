"""Commands end: by themselves, at their limit, or when told to; with everything that they started."""

from __future__ import annotations

import threading
import time

import pytest

from stitchcuda.core.errors import ToolchainError
from stitchcuda.core.process import run_command


def alive(marker: str) -> bool:
    return run_command(["pgrep", "-f", marker], timeout_s=10).ok


def test_output_and_code() -> None:
    done = run_command(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout_s=10)
    assert (done.returncode, done.ok, done.timed_out) == (3, False, False)
    assert sorted(done.output.split()) == ["err", "out"]


def test_a_limit_ends_the_whole_group() -> None:
    started = time.monotonic()
    done = run_command(["sh", "-c", "sleep 314.15926 & sleep 314.15926"], timeout_s=0.3)
    assert done.timed_out
    assert not done.ok
    assert time.monotonic() - started < 5
    assert not alive("sleep 314.15926")


def test_cancel_ends_it_soon() -> None:
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    started = time.monotonic()
    done = run_command(["sleep", "271.8281"], timeout_s=100, cancel=cancel)
    assert (done.cancelled, done.timed_out, done.ok) == (True, False, False)
    assert time.monotonic() - started < 3


def test_left_over_children_are_ended_too() -> None:
    run_command(["sh", "-c", "sleep 161.8033 & exit 0"], timeout_s=10)
    assert not alive("sleep 161.8033")


def test_output_is_capped_in_the_middle() -> None:
    done = run_command(
        ["sh", "-c", "echo first; yes | head -c 3000000; echo last"], timeout_s=30, output_limit_bytes=10_000
    )
    assert done.output.startswith("first")
    assert done.output.endswith("last\n")
    assert len(done.output) < 11_000
    assert done.cut_bytes == 3_000_000 + len("first\nlast\n") - 10_000
    assert str(done.cut_bytes) in done.output


def test_a_program_that_does_not_exist() -> None:
    with pytest.raises(ToolchainError, match="cannot run no-such-program"):
        run_command(["no-such-program"], timeout_s=1)
