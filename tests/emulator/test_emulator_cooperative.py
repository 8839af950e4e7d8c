"""Cooperative launches: grid-wide sync, kernels launched through pointers, and what goes wrong with them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulator_build import p


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_blocks_meet_at_each_grid_wide_sync(lib: ctypes.CDLL, blocks: int) -> None:
    values = np.arange(1, blocks + 1, dtype=np.float32)
    expected = values.copy()
    for _ in range(3):
        expected = expected + np.roll(expected, 1)
    assert lib.ring(p(values), blocks, 3) == 0
    assert values.tolist() == expected.tolist()


def test_too_many_blocks_for_a_cooperative_launch(lib: ctypes.CDLL) -> None:
    values = np.zeros(4096, np.float32)
    assert lib.error_text(lib.ring(p(values), 4096, 1)) == b"too many blocks in cooperative launch"
    lib.stitch_take_error()


def test_a_kernel_launched_through_a_pointer(lib: ctypes.CDLL) -> None:
    x = np.arange(32, dtype=np.float32)
    assert lib.scale_by_pointer(p(x), ctypes.c_float(3)) == 0
    assert x.tolist() == (np.arange(32) * 3).tolist()


def test_a_grid_wide_sync_needs_a_cooperative_launch(lib: ctypes.CDLL) -> None:
    values = np.zeros(2, np.float32)
    assert lib.grid_sync_without_cooperation(p(values)) == 1
    assert "needs cudaLaunchCooperativeKernel" in lib.message().decode()
    lib.stitch_take_error()


def test_a_block_that_leaves_before_the_grid_wide_sync(lib: ctypes.CDLL) -> None:
    x = np.zeros(1, np.float32)
    assert lib.half_grid(p(x)) == 1
    assert "1 of 3 blocks have ended" in lib.message().decode()
    lib.stitch_take_error()
    values = np.ones(3, np.float32)
    assert lib.ring(p(values), 3, 1) == 0
    assert values.tolist() == [2, 2, 2]
