"""CUDA C++ text → the same text for a host compiler, line by line.

In: a ``.cu`` source as a candidate wrote it. Out: text that g++ compiles behind ``prelude()``, with equal line numbers.
Only what a header cannot give is rewritten: launches, ``__shared__`` variables, device checks of tensors and a few
words. What cannot be run faithfully is refused with ``UnsupportedOnCpu``; valid C++ is left to the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stitchcuda.tools.emulator.features import refuse_unsupported, rewrite_ptx
from stitchcuda.tools.emulator.launches import find_kernels, rewrite_launches
from stitchcuda.tools.emulator.scanner import Lines, scan
from stitchcuda.tools.emulator.shared import rewrite_shared
from stitchcuda.tools.emulator.splice import Splices
from stitchcuda.tools.emulator.tensors import rewrite_tensors

__all__ = ["Rewritten", "compile_flags", "include_dir", "prelude", "rewrite", "sanitizer_source"]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten source; ``kernels`` are the names of its ``__global__`` functions in order."""

    text: str
    kernels: tuple[str, ...]


def rewrite(source: str, filename: str) -> Rewritten:
    """Rewrites one source.

    Args:
        source: CUDA C++ or plain C++ text.
        filename: only for messages of the caller; lines count from 1 in ``source``.

    Raises:
        UnsupportedOnCpu: the text uses something that the ``cpu`` device cannot run.
    """
    del filename
    tokens = scan(source)
    lines = Lines(source)
    splices = Splices(source)
    refuse_unsupported(tokens, lines)
    kernels = find_kernels(tokens)
    rewrite_launches(tokens, lines, kernels, splices)
    rewrite_shared(tokens, lines, splices)
    rewrite_tensors(tokens, splices)
    rewrite_ptx(tokens, lines, source, splices)
    return Rewritten(splices.apply(), tuple(dict.fromkeys(kernel.name for kernel in kernels if kernel.name != "*")))


def include_dir() -> Path:
    """The folder that must come first among the include folders."""
    return Path(__file__).resolve().parent / "include"


def prelude() -> str:
    """The line to put above a rewritten source (nvcc includes its runtime header by itself)."""
    return "#include <stitch/cuda.h>\n"


def sanitizer_source() -> Path:
    """The file to compile with ``compile_flags()`` (that is, itself unchecked) and to link into a sanitized build."""
    return Path(__file__).resolve().parent / "sanitizer" / "hooks.cpp"


def compile_flags(*, sanitize: bool = False) -> tuple[str, ...]:
    """Flags that make g++ treat a rewritten source as nvcc treats the original.

    nvcc lets code reinterpret memory (``float*`` as ``float4*``), integers wrap, and narrowing in braces passes;
    data of templates must not be shared between the objects of two candidates.

    Args:
        sanitize: g++ calls ``sanitizer/hooks.cpp`` before each load and store. Merging of accesses is off, as a merged
            one could look misaligned or like a race; line tables tell the places.
    """
    checks = (
        "-DSTITCH_SANITIZE=1",
        "-O1",
        "-g1",
        "-fno-tree-vectorize",
        "-fno-store-merging",
        "-fsanitize=kernel-address,alignment,bounds",
        "--param=asan-instrumentation-with-call-threshold=0",
        "--param=asan-globals=0",
        "--param=asan-stack=0",
    )
    return (
        "-O2",
        "-fPIC",
        "-fno-strict-aliasing",
        "-fwrapv",
        "-fno-gnu-unique",
        "-Wno-narrowing",
        "-Wno-attributes",
        "-Wno-unknown-pragmas",
        "-Wl,-Bsymbolic",
        *(checks if sanitize else ()),
    )
