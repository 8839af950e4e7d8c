"""Features of CUDA that the ``cpu`` device does not have: found by their words and headers, refused with the line."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.tools.emulator.scanner import Lines, Token
from stitchcuda.tools.emulator.unsupported import UnsupportedOnCpu

__all__ = ["refuse_unsupported"]

_HEADERS = {
    "mma.h": "tensor cores (wmma)",
    "cub/": "CUB",
    "thrust/": "Thrust",
    "cutlass/": "CUTLASS",
    "cute/": "CuTe",
    "cuda/": "libcu++",
    "cublas": "cuBLAS called directly",
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
    "ATen/cuda/CUDABlas.h": "cuBLAS called directly",
    "ATen/cudnn/": "cuDNN called directly",
    "ATen/native/cuda/": "torch's own CUDA kernels",
    "ATen/cuda/CUDAGeneratorImpl.h": "CUDA random generators",
    "ATen/cuda/cub": "CUB",
    "cudaTypedefs.h": "the driver API",
}
_NAMES = {
    "wmma": "tensor cores (wmma)",
    "nvcuda": "tensor cores (wmma)",
    "cub": "CUB",
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
    "getCurrentCUDABlasHandle": "cuBLAS called directly",
    "getCurrentCUDASparseHandle": "cuSPARSE",
    "getCudnnHandle": "cuDNN called directly",
    "__nv_fp8_e4m3": "FP8 types",
    "__nv_fp8_e5m2": "FP8 types",
    "__cvta_generic_to_shared": "addresses for inline PTX",
}


def refuse_unsupported(tokens: Sequence[Token], lines: Lines) -> None:
    """Raises ``UnsupportedOnCpu`` for the first feature in ``tokens`` that cannot be run."""
    for index, token in enumerate(tokens):
        if token.kind == "include":
            path = token.text[1:-1]
            for start, feature in _HEADERS.items():
                if path.startswith(start):
                    raise UnsupportedOnCpu(f"{feature}, #include {token.text}", lines(token.start))
        elif token.kind == "name":
            if token.text in ("asm", "__asm__", "__asm"):
                _refuse_ptx(tokens, index, lines)
            elif token.text in _NAMES and _is_used(tokens, index):
                raise UnsupportedOnCpu(f"{_NAMES[token.text]}, {token.text}", lines(token.start))


def _is_used(tokens: Sequence[Token], index: int) -> bool:
    """Whether a name is used as the feature, not as a variable that happens to be called so."""
    text = tokens[index].text
    after = "".join(token.text for token in tokens[index + 1 : index + 3])
    before = tokens[index - 1].text if index else ""
    if text in ("cub", "thrust", "cutlass", "wmma", "nvcuda"):
        return after == "::" or (before == "namespace" and after[:1] == ";")
    return before not in (".", ">")


def _refuse_ptx(tokens: Sequence[Token], index: int, lines: Lines) -> None:
    at = index + 1
    while at < len(tokens) and tokens[at].text in ("volatile", "__volatile__", "goto", "inline"):
        at += 1
    if at + 1 >= len(tokens) or tokens[at].text != "(" or tokens[at + 1].kind != "string":
        return
    if tokens[at + 1].text.strip('" ') == "" and tokens[at + 2 : at + 3] and tokens[at + 2].kind != "string":
        return  # an empty statement, a fence for the compiler only
    raise UnsupportedOnCpu("inline PTX", lines(tokens[index].start))
