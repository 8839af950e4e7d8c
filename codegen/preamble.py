"""The C++ that every candidate starts with: memory access, layouts and checks shared by its kernels.

The text lies in ``templates/``; a piece is written into a candidate only when one of its kernels needs it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["preamble"]

STATES = ("Sum", "Max", "Min", "Softmax", "Moments")


@cache
def _template(name: str) -> str:
    return (Path(__file__).parent / "templates" / f"{name}.cuh").read_text(encoding="utf-8")


def preamble(*, dtypes: set[str], helpers: dict[str, str], states: set[str], chains: bool) -> str:
    """The shared C++ of one candidate.

    Args:
        dtypes: dtypes that its kernels touch.
        helpers: device functions by name, as in ``ops.HELPERS``.
        states: names of the row states in use.
        chains: whether there is an elementwise kernel.
    """
    parts = [_template("includes")]
    if "float16" in dtypes or "round_half" in helpers:
        parts.append("#include <cuda_fp16.h>\n")
    if "bfloat16" in dtypes or "round_bfloat16" in helpers:
        parts.append("#include <cuda_bf16.h>\n")
    parts.append(_template("memory"))
    if "float16" in dtypes:
        parts.append(_template("half"))
    if "bfloat16" in dtypes:
        parts.append(_template("bfloat16"))
    if helpers:
        parts.append("\n".join(f"__device__ __forceinline__ {code}" for code in helpers.values()) + "\n")
    parts.append(_template("layout"))
    if chains:
        parts.append(_template("grid"))
    if states:
        parts.append(_template("rows"))
        parts += [_template(f"state_{name.lower()}") for name in STATES if name in states]
    return "\n".join(parts)
