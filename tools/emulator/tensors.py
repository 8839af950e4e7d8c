"""Checks and options of tensors that name the CUDA device → the same for CPU tensors; and a few single words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stitchcuda.tools.emulator.scanner import Token
from stitchcuda.tools.emulator.splice import Splices

__all__ = ["rewrite_tensors"]

_CUDA_DEVICE = re.compile(r'"cuda(:\d+)?"')
_WORDS = {
    "kCUDA": "kCPU",
    "__CUDACC__": "STITCH_CUDACC",
    "__CUDA_ARCH__": "STITCH_CUDA_ARCH",
    "__NVCC__": "STITCH_CUDACC",
    "RestrictPtrTraits": "DefaultPtrTraits",  # torch declares the former for nvcc only
}
_TORCH_CUDA = {
    "is_available": "::stitch::cuda_is_available",
    "device_count": "::stitch::cuda_device_count",
    "synchronize": "::stitch::cuda_synchronize",
}


def rewrite_tensors(tokens: Sequence[Token], splices: Splices) -> None:
    for index, token in enumerate(tokens):
        before = [other.text for other in tokens[max(0, index - 6) : index]]
        if token.kind == "string":
            if (
                before[-1:] == ["("]
                and before[-2:-1] in (["Device"], ["device"])
                and _CUDA_DEVICE.fullmatch(token.text)
            ):
                splices.replace(token.start, token.end, '"cpu"')
        elif token.kind != "name":
            continue
        elif token.text in _WORDS:
            splices.replace(token.start, token.end, _WORDS[token.text])
        elif token.text == "__noinline__":
            # A header cannot give this word: g++'s own headers use it inside of __attribute__.
            if before[-1:] != ["("]:
                splices.replace(token.start, token.end, "__attribute__((noinline))")
        elif token.text == "is_cuda":
            if before[-4:] == ["type", "(", ")", "."]:  # x.type().is_cuda(): the old spelling has no is_cpu()
                splices.replace(tokens[index - 4].start, tokens[index - 4].end, "device")
            splices.replace(token.start, token.end, "is_cpu")
        elif token.text == "CUDA":
            if before[-3:] in (["DeviceType", ":", ":"], ["DispatchKey", ":", ":"], ["Backend", ":", ":"]) or (
                before[-4:-3] == ["TORCH_LIBRARY_IMPL"] and before[-3:-2] == ["("] and before[-1:] == [","]
            ):
                splices.replace(token.start, token.end, "CPU")
        elif token.text == "cuda":
            if before[-1:] == ["."] and [t.text for t in tokens[index + 1 : index + 3]] == ["(", ")"]:
                splices.replace(token.start, token.end, "cpu")
        elif token.text in _TORCH_CUDA and before[-6:] == ["torch", ":", ":", "cuda", ":", ":"]:
            splices.replace(tokens[index - 6].start, token.end, _TORCH_CUDA[token.text])
