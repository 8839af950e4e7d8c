"""wmma, mma.sync, ldmatrix, cp.async and small PTX snippets, against numpy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from emulator_build import build_shared_object, p

from stitchcuda.tools.emulator import UnsupportedOnCpu, rewrite


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build_shared_object("tensor_cores.cu", "c++17", tmp_path_factory.mktemp("cores"))


def _bfloat(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("name", ["wmma_half", "mma_half", "wmma_bfloat", "wmma_tf32", "mma_tf32"])
def test_matrix_products(cores: ctypes.CDLL, name: str) -> None:
    rng = np.random.default_rng(4)
    m, n, k = 32, 48, 64
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    if name.endswith("half"):
        ah, bh = a.astype(np.float16), b.astype(np.float16)
        expected = ah.astype(np.float64) @ bh.astype(np.float64)
        getattr(cores, name)(p(ah), p(bh), p(c), m, n, k)
    elif name.endswith("bfloat"):
        a16, b16 = _bfloat(a), _bfloat(b)
        wide = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in (a16, b16)]
        expected = wide[0] @ wide[1]
        cores.wmma_bfloat(p(a16), p(b16), p(c), m, n, k)
    else:
        expected = a.astype(np.float64) @ b
        given = np.ascontiguousarray(b.T) if name == "wmma_tf32" else b
        getattr(cores, name)(p(a), p(given), p(c), m, n, k)
    scale = 2 if name in ("wmma_half", "wmma_bfloat") else 1
    tolerance = 3e-2 if name.endswith("tf32") else 1e-3
    np.testing.assert_allclose(c, expected * scale, rtol=tolerance, atol=tolerance)
    if name.endswith("tf32"):  # rounded to ten bits of mantissa, as on a GPU
        assert np.abs(c - expected).max() > 1e-4


def test_small_snippets(cores: ctypes.CDLL) -> None:
    x, y = np.linspace(-2, 2, 40, dtype=np.float32), np.zeros(128, np.float32)
    cores.snippets(p(x), p(y))
    np.testing.assert_allclose(y[:32], 2.0 ** -x[:32], rtol=1e-6)
    np.testing.assert_allclose(y[32:64], np.arange(32) + x[7], rtol=1e-6)
    assert set(y[64:96]) == {751}
    assert set(y[96:]) == {(0x0F & 0x33) | (0x0F & 0x55) | (0x33 & 0x55)}


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0}, %1, %2, 1;",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0}, {%0}, {%0}, {%0};",
        "cp.async.bulk.tensor.2d.shared::cluster.global [%0], [%1];",
        "bar.sync 1, 64;",
        "ld.acquire.gpu.global.u32 %0, [%1];",
        "mul.hi.u32 %0, %1, %2;",
        "shfl.sync.bfly.b32 %0, %1, %2;",
    ],
)
def test_unknown_ptx_is_refused_with_its_text(text: str) -> None:
    source = f'__device__ void f(int a, int b, int c) {{\n    asm volatile("{text}" : "+r"(a) : "r"(b), "r"(c));\n}}\n'
    with pytest.raises(UnsupportedOnCpu, match="inline PTX `" + text[:20].replace(".", r"\.")) as caught:
        rewrite(source, "a.cu")
    assert caught.value.line == 2
