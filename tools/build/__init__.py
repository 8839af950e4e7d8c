"""Builds a candidate's C++/CUDA extension: captured from ``load_inline``, compiled here, kept by content.

Comes in: an ``ExtensionSpec``. Goes out: an ``ExtensionBuild`` whose shared object lies in a content-hash store.
Importing this package imports neither torch nor the compiler's headers; ``capture`` and ``loader`` run in the
candidate's worker and are imported by module name there.
"""

from __future__ import annotations

from stitchcuda.tools.build.builder import Builder
from stitchcuda.tools.build.spec import ExtensionSpec
from stitchcuda.tools.build.store import Store

__all__ = ["Builder", "ExtensionSpec", "Store"]
