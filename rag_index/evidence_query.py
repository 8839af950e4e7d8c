"""Queries from evidence: the error, the bottleneck, the ops; not the whole prompt.

Pure functions. The words that they add are those of our own notes, since the words of an error or of an op's name
often are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stitchcuda.core.records import Evaluation, Status

__all__ = ["build_query", "query_for_evaluation"]

LIMIT_CHARS = 600

BOTTLENECKS = {
    "memory": "memory-bound coalescing effective bandwidth fused passes vectorised loads",
    "compute": "compute-bound tensor cores matrix product throughput",
    "latency": "occupancy latency hiding block size registers",
    "occupancy": "occupancy registers launch bounds shared memory limit",
    "launch": "launch overhead launch-bound CUDA graph fuse small kernels",
    "host": "host overhead synchronisation CUDA graph idle GPU",
}
"""Bottleneck classes of the profile, in the words of the notes."""

OPS = (
    (r"softmax|logsumexp", "softmax online normaliser row maximum"),
    (r"layer_norm|group_norm|instance_norm|batch_norm|rms_norm|var|std", "layer norm variance Welford rsqrt"),
    (r"attention|sdpa", "attention online softmax tensor cores"),
    (r"mm|matmul|linear|conv|bmm", "matrix multiplication tensor cores shared memory tile epilogue"),
    (r"^(sum|mean|max|min|amax|amin|prod|norm|argmax|argmin|cumsum)", "row reduction block reduction warp sum"),
    (r"transpose|permute|\bt\b", "transpose shared memory tile coalesced"),
    (r"relu|gelu|sigmoid|tanh|add|mul|sub|div|exp|clamp|silu|elu", "elementwise fusion broadcast activation"),
    (r"lstm|gru|rnn", "recurrent persistent kernel launch overhead"),
)
"""Patterns over op names; the first that fits an op names its topic."""

STATUSES = {
    Status.RUNTIME_ERROR: "kernel launch error",
    Status.WRONG_VALUES: "results differ from the reference accuracy order of additions missing guard synchronisation",
    Status.TIMEOUT: "barrier in a branch hangs __syncthreads deadlock",
}

_OP_NAME = re.compile(r"^(?:aten|torch|prims|ops)[.:]+|[.](?:default|Tensor|Scalar|dim|int|out|self|dim_IntList)$")
_PLACE = re.compile(r"(?:/[^\s:()]+|\b[\w.-]+\.(?:cu|cuh|cpp|h|hpp|py))(?:[:(]\d+[):]*)?(?:\d+:)?")


def build_query(
    *,
    error_code: str = "",
    errors: Iterable[str] = (),
    ops: Iterable[str] = (),
    bottleneck: str | None = None,
    technique: str = "",
    architecture: str = "",
) -> str:
    """One query text from the parts of the evidence; empty parts are left out.

    Args:
        error_code: For example ``cudaErrorIllegalAddress`` or the compiler's number.
        errors: Messages of the compiler or the runtime; the first three are used, without file names.
        ops: Op names in any spelling, for example ``aten._softmax.default`` or ``softmax``.
        bottleneck: ``memory``, ``compute``, ``latency``, ``occupancy``, ``launch``, ``host``; or a sentence, in which
            ``memory-bound`` and the like are recognised.
        technique: What a sub-task wants to do.
        architecture: For example ``sm_90``.
    """
    parts = [error_code]
    parts += [_PLACE.sub(" ", line) for line in list(errors)[:3]]
    if bottleneck:
        parts.append(_bottleneck(bottleneck))
    names = list(dict.fromkeys(_OP_NAME.sub("", _OP_NAME.sub("", op)).strip("_") for op in ops))
    topics: dict[str, None] = {}
    for name in names:
        for pattern, words in OPS:
            if re.search(pattern, name):
                topics[words] = None
                break
        else:
            topics[name] = None
    parts += [*list(topics)[:4], technique, architecture]
    return " ".join(" ".join(parts).split())[:LIMIT_CHARS]


def _bottleneck(text: str) -> str:
    known = BOTTLENECKS.get(text.lower().removesuffix("-bound"))
    if known is not None:
        return known
    named = re.findall(rf"\b({'|'.join(BOTTLENECKS)})[- ]bound", text.lower())
    return " ".join((text[:200], *(BOTTLENECKS[name] for name in dict.fromkeys(named))))


def query_for_evaluation(evaluation: Evaluation, *, ops: Iterable[str] = (), bottleneck: str | None = None) -> str:
    """The query of a failed candidate from its first cause; of a passed one from its bottleneck and ops."""
    if evaluation.passed:
        if bottleneck is None and evaluation.timing is not None and evaluation.timing.launch_bound:
            bottleneck = "launch"
        return build_query(ops=ops, bottleneck=bottleneck)
    errors = [
        diagnostic.message
        for extension in (evaluation.build.extensions if evaluation.build else ())
        for diagnostic in extension.diagnostics
        if diagnostic.severity == "error"
    ]
    if errors:
        return build_query(errors=errors)
    lines = [STATUSES.get(evaluation.status, ""), evaluation.message]
    # The ops of a candidate that crashed say little; those of one with wrong values say where to look.
    return build_query(errors=lines, ops=ops if evaluation.status is Status.WRONG_VALUES else ())
