"""Features of CUDA that the ``cpu`` device does not have: found by their words and headers, refused with the line."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.tools.emulator.ptx import parse_asm, translate
from stitchcuda.tools.emulator.scanner import Lines, Token
from stitchcuda.tools.emulator.splice import Splices
from stitchcuda.tools.emulator.unsupported import UnsupportedOnCpu

__all__ = ["refuse_unsupported", "rewrite_ptx"]

_HEADERS = {
    "thrust/": "Thrust",
    "cutlass/": "CUTLASS",
    "cute/": "CuTe",
    "cublasLt": "cuBLASLt",
    "cublasXt": "cuBLASXt",
    "cudnn": "cuDNN called directly",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "cufft": "cuFFT",
    "curand": "cuRAND",
    "nccl": "NCCL",
    "cuda_fp8.h": "FP8 types",
    "cuda_fp4.h": "FP4 types",
    "cuda_fp6.h": "FP6 types",
    "cooperative_groups/memcpy_async.h": "asynchronous copies (memcpy_async)",
    "ATen/cuda/CUDABlas.h": "cuBLAS through ATen's own wrappers",
    "ATen/cudnn/": "cuDNN called directly",
    "ATen/native/cuda/": "torch's own CUDA kernels",
    "ATen/cuda/CUDAGeneratorImpl.h": "CUDA random generators",
    "ATen/cuda/cub": "CUB",
    "cudaTypedefs.h": "the driver API",
}
_NAMES = {
    "thrust": "Thrust",
    "cutlass": "CUTLASS",
    "this_cluster": "thread block clusters",
    "cluster_group": "thread block clusters",
    "__cluster_dims__": "thread block clusters",
    "this_multi_grid": "multi-device groups",
    "memcpy_async": "asynchronous copies (memcpy_async)",
    "cudaLaunchKernelEx": "cudaLaunchKernelEx",
    "cudaLaunchKernelExC": "cudaLaunchKernelExC",
    "cuLaunchKernel": "the driver API",
    "cudaStreamBeginCapture": "CUDA graphs",
    "cudaGraphLaunch": "CUDA graphs",
    "cudaTextureObject_t": "textures",
    "cudaSurfaceObject_t": "surfaces",
    "tex1Dfetch": "textures",
    "tex2D": "textures",
    "tex3D": "textures",
    "curand_init": "cuRAND",
    "getCurrentCUDASparseHandle": "cuSPARSE",
    "getCudnnHandle": "cuDNN called directly",
    "__nv_fp8_e4m3": "FP8 types",
    "__nv_fp8_e5m2": "FP8 types",
}


_CUB_HEADERS = {
    "cub/cub.cuh", "cub/block/block_reduce.cuh", "cub/block/block_scan.cuh", "cub/block/block_load.cuh",
    "cub/block/block_store.cuh", "cub/warp/warp_reduce.cuh", "cub/warp/warp_scan.cuh", "cub/util_type.cuh",
    "cub/thread/thread_operators.cuh",
}  # fmt: skip
_LIBCUXX = {"cuda/std/functional", "cuda/functional", "cuda/std/limits", "cuda/std/cstdint"}
_CUB = {
    "BlockReduce", "BlockScan", "WarpReduce", "WarpScan", "BlockLoad", "BlockStore", "Sum", "Max", "Min",
    "KeyValuePair",
    "ArgMax", "ArgMin", "BlockReduceAlgorithm", "BlockScanAlgorithm", "BlockLoadAlgorithm", "BlockStoreAlgorithm",
    "BLOCK_REDUCE_RAKING", "BLOCK_REDUCE_WARP_REDUCTIONS", "BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY", "BLOCK_SCAN_RAKING",
    "BLOCK_SCAN_WARP_SCANS", "BLOCK_SCAN_RAKING_MEMOIZE", "BLOCK_LOAD_DIRECT", "BLOCK_LOAD_VECTORIZE",
    "BLOCK_LOAD_TRANSPOSE", "BLOCK_LOAD_STRIPED", "BLOCK_LOAD_WARP_TRANSPOSE", "BLOCK_STORE_DIRECT",
    "BLOCK_STORE_VECTORIZE", "BLOCK_STORE_TRANSPOSE", "BLOCK_STORE_STRIPED", "BLOCK_STORE_WARP_TRANSPOSE",
}  # fmt: skip
"""What ``include/stitch/cub.h`` has of CUB."""


def refuse_unsupported(tokens: Sequence[Token], lines: Lines) -> None:
    """Raises ``UnsupportedOnCpu`` for the first feature in ``tokens`` that cannot be run."""
    for index, token in enumerate(tokens):
        if token.kind == "include":
            path = token.text[1:-1]
            if path.startswith("cuda/") and path not in _LIBCUXX:
                raise UnsupportedOnCpu(f"libcu++, #include {token.text}", lines(token.start))
            if path.startswith("cub/") and path not in _CUB_HEADERS:
                raise UnsupportedOnCpu(f"device-wide CUB, #include {token.text}", lines(token.start))
            for start, feature in _HEADERS.items():
                if path.startswith(start):
                    raise UnsupportedOnCpu(f"{feature}, #include {token.text}", lines(token.start))
        elif token.kind == "name":
            after = [other.text for other in tokens[index + 1 : index + 4]]
            if token.text == "cub" and after[:2] == [":", ":"] and after[2:] and after[2] not in _CUB:
                raise UnsupportedOnCpu(f"CUB's {after[2]}", lines(token.start))
            if token.text in _NAMES and _is_used(tokens, index):
                raise UnsupportedOnCpu(f"{_NAMES[token.text]}, {token.text}", lines(token.start))


def _is_used(tokens: Sequence[Token], index: int) -> bool:
    """Whether a name is used as the feature, not as a variable that happens to be called so."""
    text = tokens[index].text
    after = "".join(token.text for token in tokens[index + 1 : index + 3])
    before = tokens[index - 1].text if index else ""
    if text in ("cub", "thrust", "cutlass", "wmma", "nvcuda"):
        return after == "::" or (before == "namespace" and after[:1] == ";")
    return before not in (".", ">")


def rewrite_ptx(tokens: Sequence[Token], lines: Lines, source: str, splices: Splices) -> None:
    """Inline PTX → C++; raises ``UnsupportedOnCpu`` with the first text that is not known."""
    for index, token in enumerate(tokens):
        if token.kind != "name" or token.text not in ("asm", "__asm__", "__asm"):
            continue
        statement = parse_asm(tokens, index, source)
        if statement is None:
            continue
        line = lines(token.start)
        if statement.template.strip() == "":  # a fence for the compiler only
            continue
        code = translate(statement, line)
        if code is None:
            shown = " ".join(statement.template.split())
            raise UnsupportedOnCpu(f"inline PTX `{shown[:80]}`", line)
        splices.replace(token.start, tokens[statement.end].end, code)
