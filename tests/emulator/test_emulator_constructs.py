"""Ways of writing CUDA C++, compiled as C++20: each must compile, and mean on the CPU what it means on a GPU."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from emulator_build import p


def test_shared_memory_of_a_device_template(constructs: ctypes.CDLL) -> None:
    x = np.random.default_rng(1).standard_normal(700)
    x32, out32, out64 = x.astype(np.float32), np.zeros(2, np.float32), np.zeros(2)
    constructs.two_sums(p(x32), p(out32), p(x), p(out64), 700)
    np.testing.assert_allclose(out32, [x.sum(), (x * x).sum()], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(out64, [x.sum(), (x * x).sum()], rtol=1e-12)


@pytest.mark.parametrize("kind", [0, 1])
def test_overloads_defaults_and_structs_by_value(constructs: ctypes.CDLL, kind: int) -> None:
    n = 10
    x, y, z = np.ones(n, np.float32), np.ones(n), np.zeros(n, np.int32)
    constructs.affine(p(x), p(y), p(z), n, kind)
    once = 2 + np.where(np.arange(n) % 2 == 0, 1, 5)
    np.testing.assert_array_equal(x, (once if kind == 0 else np.ones(n)) * 2 + once - 2)
    np.testing.assert_array_equal(y, once if kind == 1 else np.ones(n))
    np.testing.assert_array_equal(z, np.full(n, 1000))


def test_dynamic_shared_memory_in_all_its_forms(constructs: ctypes.CDLL) -> None:
    out = np.zeros(8, np.float32)
    constructs.everywhere_run(p(out))
    assert out.tolist() == [14, 12, 10, 8, 6, 4, 2, 0]
    x = np.array([3, -1, 4, -1, 5], np.float32)
    total, count = np.zeros(1, np.float32), np.zeros(1, np.int32)
    constructs.split_dynamic(p(x), p(total), p(count), 5)
    assert (total[0], count[0]) == (10, 3)
    x, y = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    constructs.rows(p(x), p(y))
    rows = 10 * np.arange(4)[:, None] + np.arange(8)[None] % 4
    np.testing.assert_array_equal(y, x[:, ::-1] * 3 + 1 + rows + 4 * 9)


def test_math_overloads(constructs: ctypes.CDLL) -> None:
    x = np.array([-2.5, -0.5, 0.25, 1.5, 3.5], np.float32)
    out = np.zeros((5, 16), np.float32)
    constructs.math(p(x), p(out), 5)
    for i, v in enumerate(x.tolist()):
        a = abs(v)
        expected = [
            math.exp(v), max(v, 0), min(i, 3), a**0.5, 1 / math.sqrt(a + 1), math.tanh(v), 0, max(v, 1),
            min(max(v, 0), 1), 1 / v, round(v), v / (1 + math.exp(-v)), max(i, 2), math.log1p(a), a, math.sqrt(a),
        ]  # fmt: skip
        np.testing.assert_allclose(out[i], expected, rtol=1e-6)


def test_vector_operators_and_packed_atomics(constructs: ctypes.CDLL) -> None:
    a, b = np.random.default_rng(2).standard_normal((2, 16)).astype(np.float32)
    out, total, one = np.zeros(16, np.float32), np.zeros(2, np.float16), np.ones(1, np.float16)
    constructs.packed(p(a), p(b), p(out), p(total), p(one))
    np.testing.assert_array_equal(out, a + b)
    assert total.tolist() == [4, 2]
    assert one[0] == 9


def test_kernels_through_pointers_and_packs(constructs: ctypes.CDLL) -> None:
    x = np.zeros(2, np.float32)
    constructs.pointers(p(x))
    assert x.tolist() == [31, 6.5]


def test_host_api(constructs: ctypes.CDLL) -> None:
    out = np.zeros(4, np.float32)
    assert constructs.host_api(p(out)) == 0
    assert out.tolist() == [11, 2, 3, 4]
