"""What a GPU refuses, and what it hides: both must end as an error or as wrong values, never as a hang."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from emulator_build import KERNELS, p


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "text"),
    [
        (1, 1025, 0, b"invalid configuration argument"),
        (0, 32, 0, b"invalid configuration argument"),
        (1, 0, 0, b"invalid configuration argument"),
        (-1, 32, 0, b"invalid configuration argument"),
        (1, 32, 48 * 1024 + 4, b"invalid argument"),
    ],
)
def test_a_launch_that_a_gpu_refuses_does_nothing(
    lib: ctypes.CDLL, grid: int, block: int, shared_bytes: int, text: bytes
) -> None:
    out = np.ones(1, np.float32)
    before = lib.stitch_launch_count()
    error = lib.bad_launch(p(out), grid, block, shared_bytes)
    assert lib.error_text(error) == text
    assert out[0] == 1
    assert lib.stitch_launch_count() == before


def test_a_launch_check_of_torch_throws(lib: ctypes.CDLL) -> None:
    assert lib.checked_launch(None) == 1
    assert lib.message() == b"CUDA error: invalid configuration argument"


def test_large_shared_memory_needs_the_attribute(lib: ctypes.CDLL) -> None:
    out, error = np.zeros(1, np.float32), ctypes.c_int()
    n = 20000
    assert lib.error_text(lib.big_shared(p(out), n, 0, ctypes.byref(error))) == b"invalid argument"
    assert lib.big_shared(p(out), n, 1, ctypes.byref(error)) == 0
    assert out[0] == (n - 1) * 3
    assert lib.big_shared(p(out), n, 2, ctypes.byref(error)) == 0
    assert out[0] == (n - 1) * 2
    lib.big_shared(p(out), 60000, 1, ctypes.byref(error))
    assert lib.error_text(error.value) == b"invalid argument"


def test_divergent_barriers_are_reported_with_both_lines(lib: ctypes.CDLL) -> None:
    lines = (KERNELS / "basics.cu").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if "void divergent_kernel" in line)
    first, second = (i + 1 for i in range(start, start + 10) if "__syncthreads();" in lines[i])
    x = np.zeros(2, np.int32)
    assert lib.divergent(p(x)) == 1
    message = lib.message().decode()
    assert "divergent_kernel" in message
    assert f"line {first}" in message
    assert f"line {second}" in message


def test_a_deadlock_ends_and_the_device_works_afterwards(lib: ctypes.CDLL) -> None:
    x = np.zeros(2, np.int32)
    for _ in range(3):
        assert lib.deadlock(p(x)) == 1
        message = lib.message().decode()
        assert "deadlock_kernel" in message
        assert "1 thread waits in a warp operation with mask 0xffffffff" in message
        assert "63 threads wait at the __syncthreads()" in message
    ones, out = np.ones((3, 300), np.float32), np.zeros(3, np.float32)
    lib.block_sum(p(ones), p(out), 3, 300)
    assert out.tolist() == [300, 300, 300]
    assert lib.stitch_take_error() == b"unspecified launch failure"
    assert lib.stitch_take_error() is None


def test_a_failed_assertion_names_the_thread(lib: ctypes.CDLL) -> None:
    assert lib.failed_assert(32) == 0
    assert lib.failed_assert(20) == 1
    assert "device-side assert triggered" in lib.message().decode()
    assert "thread (20, 0, 0)" in lib.message().decode()


def test_a_write_past_shared_memory_is_seen(lib: ctypes.CDLL) -> None:
    out = np.zeros(64, np.float32)
    assert lib.overrun(p(out), 8) == 0
    assert lib.overrun(p(out), 9) == 1
    assert "past the end of static shared memory" in lib.message().decode()


def test_shared_memory_begins_as_nan_in_each_block(lib: ctypes.CDLL) -> None:
    out = np.zeros((2, 32), np.float32)
    lib.uninitialised(p(out))
    assert np.isnan(out[:, 5]).all()
    assert np.isfinite(np.delete(out, 5, axis=1)).all()


def test_a_missing_barrier_gives_wrong_values(lib: ctypes.CDLL) -> None:
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    lib.missing_barrier(p(x), p(y))
    assert not np.array_equal(y, x[::-1])


def test_two_threads_of_the_host_launch_at_the_same_time(lib: ctypes.CDLL) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal((40, 300), dtype=np.float32) for _ in range(4)]
    outputs = [np.zeros_like(x) for x in inputs]

    def launch(i: int) -> None:
        for _ in range(5):
            lib.softmax(p(inputs[i]), p(outputs[i]), 40, 300)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(launch, range(4)))
    for x, y in zip(inputs, outputs, strict=True):
        e = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)


def test_too_much_static_shared_memory(lib: ctypes.CDLL) -> None:
    out = np.zeros(32, np.float32)
    assert lib.too_much_static(p(out)) == 1
    assert "49152 is the limit" in lib.message().decode()
