"""CUB's block and warp primitives and cuBLAS products, against numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulator_build import build_shared_object, p

from stitchcuda.tools.emulator import UnsupportedOnCpu, rewrite


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build_shared_object("libraries.cu", "c++17", tmp_path_factory.mktemp("libraries"))


def test_block_reductions(libraries: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 500), dtype=np.float32)
    sums, maxima, where = np.zeros(3, np.float32), np.zeros(3, np.float32), np.zeros(3, np.int32)
    libraries.row_stats(p(x), p(sums), p(maxima), p(where), 3, 500)
    np.testing.assert_allclose(sums, x.sum(1), rtol=1e-4, atol=1e-4)
    assert maxima.tolist() == x.max(1).tolist()
    assert where.tolist() == x.argmax(1).tolist()


def test_block_scans_loads_and_stores(libraries: ctypes.CDLL, rng: np.random.Generator) -> None:
    n = 250
    x = rng.integers(0, 9, n).astype(np.int32)
    inclusive, exclusive, totals = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(64, np.int32)
    libraries.scans(p(x), p(inclusive), p(exclusive), p(totals), n)
    assert inclusive.tolist() == np.cumsum(x).tolist()
    assert exclusive.tolist() == (np.cumsum(x) - x).tolist()
    assert totals.tolist() == [100 * 1000 + 63] * 64


def test_warp_reductions_and_scans(libraries: ctypes.CDLL) -> None:
    x = np.arange(64, dtype=np.float32)
    sums, scanned = np.zeros(2, np.float32), np.zeros(64, np.float32)
    libraries.warps(p(x), p(sums), p(scanned))
    assert sums.tolist() == [x[:32].sum(), x[32:].sum()]
    assert scanned.tolist() == np.cumsum(x.reshape(8, 8), axis=1).ravel().tolist()


def test_cublas_products(libraries: ctypes.CDLL, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((7, 9), dtype=np.float32), rng.standard_normal((9, 5), dtype=np.float32)
    c = np.full((7, 5), np.nan, np.float32)
    assert libraries.sgemm(p(a), p(b), p(c), 7, 5, 9) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    ah, bt = rng.standard_normal((2, 4, 8)).astype(np.float16), rng.standard_normal((2, 6, 8)).astype(np.float16)
    out = np.ones((2, 4, 6), np.float32)
    assert libraries.half_batched(p(ah), p(bt), p(out), 2, 4, 6, 8) == 0
    expected = 2 * ah.astype(np.float32) @ bt.astype(np.float32).transpose(0, 2, 1) + 1
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_device_wide_algorithms_are_refused() -> None:
    text = "#include <cub/cub.cuh>\nvoid f() { cub::DeviceReduce::Sum(a, b, c, d, e); }\n"
    with pytest.raises(UnsupportedOnCpu, match="CUB's DeviceReduce") as caught:
        rewrite(text, "a.cu")
    assert caught.value.line == 2
