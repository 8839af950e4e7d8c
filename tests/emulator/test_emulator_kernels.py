"""Kernels run by the emulator against numpy: every right value is one that a plausible wrong emulator misses."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulator_build import SANITIZED, p


def test_vector_add_with_a_ragged_end(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 1000), dtype=np.float32)
    out = np.full(1001, -1, np.float32)
    before = lib.stitch_launch_count()
    lib.vector_add(p(a), p(b), p(out), ctypes.c_longlong(1000))
    np.testing.assert_array_equal(out[:1000], a + b)
    assert out[1000] == -1
    assert lib.stitch_launch_count() == before + 1


def test_grid_stride_loop_covers_each_element_once(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 5003), dtype=np.float32)
    expected = np.float32(2.5) * x + y
    lib.saxpy(ctypes.c_float(2.5), p(x), p(y), 5003)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_float4(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    from math import erf

    x = rng.standard_normal(1024, dtype=np.float32)
    y = np.zeros_like(x)
    lib.gelu4(p(x), p(y), 1024)
    expected = [0.5 * v * (1 + erf(v / 2**0.5)) for v in x.tolist()]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_block_reduction_in_shared_memory(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.standard_normal((7, 700), dtype=np.float32)
    out = np.zeros(7, np.float32)
    lib.block_sum(p(x), p(out), 7, 700)
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-4, atol=1e-4)


def test_softmax_by_warp_shuffles(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((5, 333)) * 20).astype(np.float32)
    y = np.zeros_like(x)
    lib.softmax(p(x), p(y), 5, 333)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


def test_layer_norm_with_dynamic_shared_memory(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.standard_normal((6, 200), dtype=np.float32)
    gamma, beta = rng.standard_normal((2, 200), dtype=np.float32)
    y = np.zeros_like(x)
    lib.layer_norm(p(x), p(gamma), p(beta), p(y), 6, 200)
    z = x.astype(np.float64)
    expected = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5) * gamma + beta
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiled_matmul_of_a_template(lib: ctypes.CDLL, rng: np.random.Generator, dtype: type) -> None:
    m, n, k = 37, 50, 29
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    c = np.zeros((m, n), dtype)
    function = lib.matmul_float if dtype is np.float32 else lib.matmul_double
    function(p(a), p(b), p(c), m, n, k)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-5)


def test_transpose_in_two_dimensional_blocks(lib: ctypes.CDLL) -> None:
    x = np.arange(45 * 70, dtype=np.int32).reshape(45, 70)
    y = np.zeros((70, 45), np.int32)
    lib.transpose(p(x), p(y), 45, 70)
    np.testing.assert_array_equal(y, x.T)


def test_scan_of_a_full_block(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.integers(-50, 50, 1000, dtype=np.int32)
    y = np.zeros_like(x)
    lib.scan(p(x), p(y), 1000)
    np.testing.assert_array_equal(y, np.cumsum(x))


def test_histogram_by_atomics_in_two_memories(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, 4321, dtype=np.uint8)
    counts = np.zeros(256, np.uint32)
    lib.histogram(p(x), p(counts), 4321)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=256))


def test_atomics_of_each_type(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = (rng.integers(1, 1000, 100)).astype(np.float32)
    ints = np.array([-9, 5000, 0, 0, 0], np.int32)
    floats, longs = np.zeros(2, np.float32), np.zeros(1, np.uint64)
    lib.atomics(p(x), 100, p(ints), p(floats), p(longs))
    assert ints.tolist() == [int(x.max()), int(x.min()), 7, 2**31 - 1, 100 % 5]
    assert floats.tolist() == [x.sum(), x.max()]
    assert longs[0] == 100 << 33


def test_constant_memory_and_device_variables(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.standard_normal(77, dtype=np.float32)
    for taps in (np.array([1, 2, 3, 4, 5], np.float32), np.array([0, 0, -1, 0, 0.5], np.float32)):
        y = np.zeros_like(x)
        lib.filter(p(x), p(taps), p(y), 77)
        np.testing.assert_allclose(y, 0.25 + np.correlate(x, taps, "same"), rtol=1e-5, atol=1e-5)


def test_half_and_bfloat16_arithmetic(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    import torch

    a, b = (rng.standard_normal((2, 64)) * 3).astype(np.float16)
    total, fused, back = np.zeros(64, np.float16), np.zeros(64, np.float16), np.zeros(64, np.float32)
    brain = np.zeros(64, np.int16)
    lib.halves(p(a), p(b), p(total), p(fused), p(brain), p(back), 64)
    np.testing.assert_array_equal(total, a + b)
    exact = b.astype(np.float64) * 2 + a.astype(np.float64)
    np.testing.assert_array_equal(fused, exact.astype(np.float16))
    expected = (torch.from_numpy(a).float() * 3).bfloat16()
    assert torch.equal(torch.from_numpy(brain).view(torch.bfloat16), expected)
    np.testing.assert_array_equal(back, expected.float().numpy() + (a * b).astype(np.float32))


def test_every_rounding_case_of_half_and_bfloat16(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    import torch

    bits = rng.integers(0, 2**32, 60000, dtype=np.uint32)
    near = np.arange(0x33000000, 0x39000000, 4099, dtype=np.uint32)  # half's subnormals and their ties
    edges = np.array([0, 0x80000000, 0x477FEFFF, 0x477FF000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x38800000], np.uint32)
    ties = (np.arange(0, 0x7C00, 7, dtype=np.uint32) << 13) + 0x38001000
    x = np.concatenate([bits, near, edges, ties]).view(np.float32)
    x = x[~np.isnan(x)]
    halves, brains, back = np.zeros(len(x), np.uint16), np.zeros(len(x), np.uint16), np.zeros(len(x), np.float32)
    lib.half_round(p(x), p(halves), p(brains), p(back), len(x))
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(halves, expected.view(np.uint16))
    np.testing.assert_array_equal(back, expected.astype(np.float32))
    np.testing.assert_array_equal(brains.view(np.int16), torch.from_numpy(x).bfloat16().view(torch.int16).numpy())


def test_cooperative_groups(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 96, dtype=np.int32)
    sums, maxima, scans = np.zeros(12, np.int32), np.zeros(96, np.int32), np.zeros(96, np.int32)
    ranks = np.full(96, -1, np.int32)
    lib.tile_reduce(p(x), p(sums), p(maxima), p(scans), p(ranks), 96)
    tiles = x.reshape(12, 8)
    np.testing.assert_array_equal(sums, tiles.sum(1))
    np.testing.assert_array_equal(maxima, np.repeat(tiles.max(1), 8))
    np.testing.assert_array_equal(scans, tiles.cumsum(1).ravel())
    for warp in range(3):
        active = [i for i in range(warp * 32, warp * 32 + 32) if x[i] % 3 == 0]
        assert [ranks[i] for i in active] == [rank * 100 + len(active) for rank in range(len(active))]


@pytest.mark.parametrize("n", [1, 31, 33, 100, 128])
def test_threads_that_return_before_a_barrier(lib: ctypes.CDLL, n: int) -> None:
    x = np.arange(n, dtype=np.int32) * 3
    y = np.zeros(n, np.int32)
    lib.early_return(p(x), p(y), n)
    np.testing.assert_array_equal(y, x[::-1] + x)


def test_sub_masks_votes_and_segments(lib: ctypes.CDLL) -> None:
    y, votes = np.zeros(32, np.int32), np.zeros(128, np.uint32)
    lib.sub_mask(p(y), p(votes))
    assert y[:12].tolist() == [(i + 1) % 12 * 10 for i in range(12)]
    values = list(range(32))
    for offset in (8, 4, 2, 1):
        values = [values[i] + (values[i + offset] if i + offset < 32 else 0) for i in range(32)]
    assert y[12:].tolist() == values[12:]
    lanes = range(32)
    assert set(votes[:32].tolist()) == {sum(1 << i for i in lanes if i % 5 == 0)}
    assert votes[32:64].tolist() == [sum(1 << i for i in lanes if i // 7 == lane // 7) for lane in lanes]
    assert votes[64:96].tolist() == [lane - 3 if lane % 8 >= 3 else lane for lane in lanes]
    assert set(votes[96:].tolist()) == {1 + 0 + 4 * sum(lanes)}


def test_barriers_that_count(lib: ctypes.CDLL) -> None:
    x = np.array([(-1) ** i * i for i in range(50)], np.int32)
    out = np.zeros(50, np.int32)
    lib.counts(p(x), p(out), 50)
    assert set(out.tolist()) == {24 * 100 + 0 + 1}


def test_bit_intrinsics(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.integers(0, 2**32, 30, dtype=np.uint32), np.array([0, 1], np.uint32)])
    out = np.zeros((32, 6), np.int32)
    lib.bits(p(x), p(out), 32)
    for value, row in zip(x.tolist(), out.view(np.uint32).tolist(), strict=True):
        text = f"{value:032b}"
        low = (text[::-1].index("1") + 1) if value else 0
        permuted = 0x0304 << 16 | value & 0xFFFF
        expected = [
            text.count("1"),
            32 - value.bit_length(),
            low,
            int(text[::-1], 2),
            value * 0x9E3779B9 >> 32,
            permuted,
        ]
        assert row == expected


def test_coordinates_in_three_dimensions(lib: ctypes.CDLL) -> None:
    out = np.full(2 * 3 * 2 * 24, -1, np.int32)
    lib.coordinates(p(out))
    expected = [
        x + 10 * y + 100 * z + 1000 * bx + 10000 * by + 100000 * bz
        for bz in range(2)
        for by in range(3)
        for bx in range(2)
        for z in range(4)
        for y in range(2)
        for x in range(3)
    ]
    assert out.tolist() == expected


def test_lanes_that_leave_a_loop_one_after_another(lib: ctypes.CDLL) -> None:
    out = np.zeros(32, np.int32)
    lib.uneven(p(out))
    assert out.tolist() == [sum(32 - 8 * i for i in range(lane % 4 + 1)) for lane in range(32)]


def test_a_value_from_a_lane_that_takes_no_part_is_nan(lib: ctypes.CDLL) -> None:
    out = np.zeros(32, np.float32)
    lib.undefined_lane(p(out))
    assert out[:4].tolist() == [4, 5, 6, 7]
    assert np.isnan(out[4:8]).all()
    assert out[8:].tolist() == list(range(8, 32))


@pytest.mark.skipif(SANITIZED, reason="a finding there")
def test_whole_warps_may_use_different_barriers(lib: ctypes.CDLL) -> None:
    out = np.zeros(64, np.int32)
    assert lib.one_by_one(p(out)) == 0
    assert out.tolist() == [1] * 32 + [2] * 32


def test_asynchronous_copies_arrive_when_they_are_waited_for(lib: ctypes.CDLL, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((5, 128), dtype=np.float32), np.zeros((5, 128), np.float32)
    lib.pipeline(p(x), p(y), 5, 1)
    np.testing.assert_array_equal(y, 2 * x[:, ::-1])
    lib.pipeline(p(x), p(y), 5, 0)
    assert np.isnan(y).all()
