"""The ``cpu`` device: CUDA C++ candidates run on a machine without a GPU.

``rewrite`` turns a candidate's source into text for a host compiler, ``include_dir`` holds the headers that give it
CUDA's language, runtime and host API; ``device.cuda_on_cpu`` does the same for a candidate's Python.
What it leaves to others: compiling (``tools.build``), isolation (``tools.sandbox``), and any statement about speed.
"""

from stitchcuda.tools.emulator.rewriter import (
    Rewritten,
    compile_flags,
    include_dir,
    prelude,
    rewrite,
    sanitizer_source,
)
from stitchcuda.tools.emulator.unsupported import UnsupportedOnCpu

__all__ = ["Rewritten", "UnsupportedOnCpu", "compile_flags", "include_dir", "prelude", "rewrite", "sanitizer_source"]
