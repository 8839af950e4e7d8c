"""Sanitized builds: every planted bug is told with the candidate's line, its correct twin is left alone."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
import torch
from emulator_bugs import CASES, SOURCE, marked_lines

from stitchcuda.tools.emulator import compile_flags, include_dir, prelude, rewrite, sanitizer_source


def build_sanitized(source: Path, folder: Path) -> ctypes.CDLL:
    torch_dir = Path(torch.__file__).parent
    text, checks, library = folder / "text.cpp", folder / "checks.o", folder / f"{source.stem}.so"
    text.write_text(prelude() + f'#line 1 "{source.name}"\n' + rewrite(source.read_text(), source.name).text)
    include = ["-I", str(include_dir())]
    unchecked = ("-std=c++20", *compile_flags(), *include, "-isystem", str(torch_dir / "include"))
    checked = ("-std=c++17", *compile_flags(sanitize=True), *include, f"-L{torch_dir / 'lib'}")
    commands = [
        [*unchecked, "-c", str(sanitizer_source()), "-o", str(checks)],
        [*checked, "-shared", str(text), str(checks), "-o", str(library), "-lc10"],
    ]
    for command in commands:
        done = subprocess.run(["g++", *command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(library))
    loaded.message.restype = ctypes.c_char_p
    return loaded


@pytest.fixture(scope="module")
def bugs(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build_sanitized(SOURCE, tmp_path_factory.mktemp("bugs"))


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
