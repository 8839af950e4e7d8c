"""Sanitized builds: every planted bug is told with the candidate's line, its correct twin is left alone."""

from __future__ import annotations

import ctypes
import re

import pytest
from emulator_bugs import CASES, marked_lines
from emulator_build import build_shared_object


@pytest.fixture(scope="module")
def bugs(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    with pytest.MonkeyPatch.context() as patch:
        # The tests of other rooms that run in this process need torch's own allocator.
        patch.setenv("STITCHCUDA_KEEP_ALLOCATOR", "1")
        loaded = build_shared_object("bugs.cu", "c++17", tmp_path_factory.mktemp("bugs"), sanitize=True)
    loaded.message.restype = ctypes.c_char_p
    return loaded


def test_there_are_enough_bugs() -> None:
    assert len(CASES) >= 30
    assert all(marked_lines(case) for case in CASES)


# One of each kind; the other bugs are found with pytest --slow.
USUAL = (
    "guard_off_by_one",
    "struct_of_pointers",
    "into_the_next_array",
    "local_array",
    "misaligned_float4",
    "no_sync_in_reduction",
    "warp_synchronous",
    "counter_between_blocks",
    "barrier_of_two_warps",
    "partly_filled",
)
BUGS = [case if case in USUAL else pytest.param(case, marks=pytest.mark.slow) for case in CASES]


@pytest.mark.parametrize("case", CASES)
def test_a_correct_twin_is_left_alone(bugs: ctypes.CDLL, case: str) -> None:
    assert getattr(bugs, case)(0) == 0, bugs.message().decode()


@pytest.mark.parametrize("case", BUGS)
def test_a_bug_is_found_with_its_line_kernel_and_thread(bugs: ctypes.CDLL, case: str) -> None:
    assert getattr(bugs, case)(1) == 1, "nothing was found"
    message = bugs.message().decode()
    assert f"kernel '{case}_kernel'" in message
    told = {int(number) for number in re.findall(r"(?:bugs\.cu:|line )(\d+)", message.partition("block (")[2])}
    assert told & marked_lines(case), message
    assert "unknown line" not in message
