"""Orders of threads: races change the result under one of them, correct kernels give the same under all."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from emulator_build import p

from stitchcuda.tools.emulator.schedules import SCHEDULES, use_schedule


@pytest.fixture(autouse=True)
def _ascending_again() -> Iterator[None]:
    yield
    use_schedule("ascending")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_correct_kernels_give_the_same_under_every_order(lib: ctypes.CDLL, schedule: str) -> None:
    use_schedule(schedule)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 300), dtype=np.float32)
    sums, soft = np.zeros(3, np.float32), np.zeros_like(x)
    lib.block_sum(p(x), p(sums), 3, 300)
    lib.softmax(p(x), p(soft), 3, 300)
    np.testing.assert_allclose(sums, x.sum(1), rtol=1e-4, atol=1e-4)
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(soft, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("race", ["in_place_shift", "warp_order"])
def test_a_race_changes_the_result_under_some_order(lib: ctypes.CDLL, race: str) -> None:
    results = []
    for schedule in SCHEDULES:
        use_schedule(schedule)
        x = np.arange(128, dtype=np.float32)
        getattr(lib, race)(p(x))
        results.append(x.tobytes())
    assert len(set(results)) > 1


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown schedule"):
        use_schedule("random")
