"""How fast does the emulator run kernels, against plain C++ loops for the same results?

    python benchmarks/emulator.py                 # medians of seven runs
    python benchmarks/emulator.py --quick --json  # three runs, no sanitized build

Vector add of 2^20 floats, tiled matmul of 256^3, softmax and layer norm of 1024 x 1024; one CPU. `sanitized` is the
same kernel with every access checked. The numbers say how long a check of a candidate takes, nothing about a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from stitchcuda.tools.emulator import compile_flags, include_dir, prelude, rewrite, sanitizer_source

KERNELS = r"""
#include <cuda_runtime.h>
#include <math.h>
#define EXPORT extern "C" __attribute__((visibility("default")))

__global__ void add_kernel(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
EXPORT void vector_add(const float* a, const float* b, float* c) {
    add_kernel<<<(1 << 20) / 256, 256>>>(a, b, c, 1 << 20);
}

#define TILE 16
__global__ void matmul_kernel(const float* a, const float* b, float* c, int n) {
    __shared__ float sa[TILE][TILE], sb[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        sa[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += sa[threadIdx.y][k] * sb[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
EXPORT void matmul(const float* a, const float* b, float* c) {
    matmul_kernel<<<dim3(16, 16), dim3(TILE, TILE)>>>(a, b, c, 256);
}

template <class Combine>
__device__ float block_reduce(float v, Combine combine) {
    __shared__ float part[8], total;
    for (int d = 16; d > 0; d /= 2) v = combine(v, __shfl_xor_sync(0xffffffffu, v, d));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = part[0];
        for (int w = 1; w < 8; ++w) all = combine(all, part[w]);
        total = all;
    }
    __syncthreads();
    float result = total;
    __syncthreads();
    return result;
}
__global__ void softmax_kernel(const float* x, float* y, int n) {
    const float* row = x + blockIdx.x * n;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) most = fmaxf(most, row[i]);
    most = block_reduce(most, [](float a, float b) { return fmaxf(a, b); });
    for (int i = threadIdx.x; i < n; i += 256) sum += __expf(row[i] - most);
    sum = block_reduce(sum, [](float a, float b) { return a + b; });
    for (int i = threadIdx.x; i < n; i += 256) y[blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}
EXPORT void softmax(const float* x, const float*, float* y) { softmax_kernel<<<1024, 256>>>(x, y, 1024); }

__global__ void layer_norm_kernel(const float* x, float* y, int n) {
    const float* row = x + blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += 256) { sum += row[i]; squares += row[i] * row[i]; }
    auto add = [](float a, float b) { return a + b; };
    float mean = block_reduce(sum, add) / n;
    float scale = rsqrtf(block_reduce(squares, add) / n - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 256) y[blockIdx.x * n + i] = (row[i] - mean) * scale;
}
EXPORT void layer_norm(const float* x, const float*, float* y) { layer_norm_kernel<<<1024, 256>>>(x, y, 1024); }
"""
PLAIN = r"""
#include <math.h>
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void vector_add(const float* a, const float* b, float* c) {
    for (int i = 0; i < 1 << 20; ++i) c[i] = a[i] + b[i];
}
EXPORT void matmul(const float* a, const float* b, float* c) {
    for (int i = 0; i < 256 * 256; ++i) c[i] = 0;
    for (int i = 0; i < 256; ++i)
        for (int k = 0; k < 256; ++k)
            for (int j = 0; j < 256; ++j) c[i * 256 + j] += a[i * 256 + k] * b[k * 256 + j];
}
EXPORT void softmax(const float* x, const float*, float* y) {
    for (int r = 0; r < 1024; ++r, x += 1024, y += 1024) {
        float most = x[0], sum = 0;
        for (int i = 1; i < 1024; ++i) most = fmaxf(most, x[i]);
        for (int i = 0; i < 1024; ++i) sum += y[i] = expf(x[i] - most);
        for (int i = 0; i < 1024; ++i) y[i] /= sum;
    }
}
EXPORT void layer_norm(const float* x, const float*, float* y) {
    for (int r = 0; r < 1024; ++r, x += 1024, y += 1024) {
        float sum = 0, squares = 0;
        for (int i = 0; i < 1024; ++i) { sum += x[i]; squares += x[i] * x[i]; }
        const float mean = sum / 1024, scale = 1.0f / sqrtf(squares / 1024 - mean * mean + 1e-5f);
        for (int i = 0; i < 1024; ++i) y[i] = (x[i] - mean) * scale;
    }
}
"""
NAMES = ("vector_add", "matmul", "softmax", "layer_norm")


def build(text: str, name: str, folder: Path, flags: tuple[str, ...], *extra: str) -> ctypes.CDLL:
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(text)
    command = ["g++", "-std=c++17", *flags, "-shared", str(source), *extra, "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def build_all(folder: Path, *, sanitized: bool) -> dict[str, ctypes.CDLL]:
    include = ("-I", str(include_dir()))
    text = prelude() + rewrite(KERNELS, "kernels.cu").text
    libraries = {
        "plain": build(PLAIN, "plain", folder, ("-O2", "-fPIC")),
        "emulated": build(text, "emulated", folder, (*compile_flags(), *include)),
    }
    if sanitized:
        lib = Path(torch.__file__).parent / "lib"
        checks = folder / "checks.o"
        headers = ("-isystem", str(lib.parent / "include"))
        command = ["g++", "-std=c++20", *compile_flags(), *include, *headers, "-c", str(sanitizer_source())]
        subprocess.run([*command, "-o", str(checks)], check=True)
        flags = (*compile_flags(sanitize=True), *include, f"-L{lib}")
        libraries["sanitized"] = build(text, "sanitized", folder, flags, str(checks), "-lc10")
    return libraries


def median_ms(call: Callable[[], object], runs: int) -> float:
    call()
    times = []
    for _ in range(runs):
        begun = time.process_time_ns()
        call()
        times.append((time.process_time_ns() - begun) / 1e6)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three runs, no sanitized build")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    os.environ.pop("STITCHCUDA_SCHEDULE", None)
    runs = 3 if options.quick else 7
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        libraries = build_all(Path(name), sanitized=not options.quick)
        for kernel in NAMES:
            elements = 256 * 256 if kernel == "matmul" else 1 << 20
            rng = np.random.default_rng(0)
            # torch's memory, allocated after the builds: of this the sanitized one knows the bounds.
            a, b = (torch.from_numpy(rng.standard_normal(elements, dtype=np.float32)).clone() for _ in range(2))
            outputs = {}
            rows[kernel] = {}
            for kind, library in libraries.items():
                out = torch.full((elements,), float("nan"))
                pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, out)]
                repeats = 1 if kind == "sanitized" else runs
                rows[kernel][f"{kind}_ms"] = round(median_ms(lambda: getattr(library, kernel)(*pointers), repeats), 2)  # noqa: B023
                outputs[kind] = out
            for kind, out in outputs.items():
                if not torch.allclose(out, outputs["plain"], rtol=1e-4, atol=1e-4):
                    sys.exit(f"{kernel}: {kind} gives other values than the plain loop")
    if options.json:
        print(json.dumps({"unit": "ms of CPU time", "runs": runs, "kernels": rows}))
        return
    columns = list(next(iter(rows.values())))
    print(f"{'kernel':12}" + "".join(f"{column:>16}" for column in columns) + f"{'times plain':>14}")
    for kernel, row in rows.items():
        slower = row["emulated_ms"] / row["plain_ms"]
        print(f"{kernel:12}" + "".join(f"{row[column]:16.2f}" for column in columns) + f"{slower:14.1f}")


if __name__ == "__main__":
    main()
