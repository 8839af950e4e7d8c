"""Look up the documentation index with a query built from evidence; no index is said, not fatal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.records import Evaluation, Feedback
from stitchcuda.graph.context import Context
from stitchcuda.nodes.evidence import Citation
from stitchcuda.nodes.progress import say

__all__ = ["look_up"]

HITS = 4


async def look_up(
    context: Context,
    *,
    ops: Sequence[str] = (),
    evaluation: Evaluation | None = None,
    feedback: Feedback | None = None,
) -> tuple[Citation, ...]:
    """The passages that fit the ops, the failure or the bottleneck best; empty when retrieval is off."""
    if not context.retrieval:
        return ()
    try:
        return await asyncio.to_thread(_query, tuple(ops), evaluation, feedback)
    except RetrievalError as error:
        say("retrieval", f"no documentation: {one_line(error)}")
        return ()


def _query(ops: tuple[str, ...], evaluation: Evaluation | None, feedback: Feedback | None) -> tuple[Citation, ...]:
    from stitchcuda.rag_index import DocsIndex, build_query

    errors: list[str] = []
    if evaluation is not None and not evaluation.passed:
        errors = [evaluation.message, *evaluation.reasons]
    text = build_query(ops=ops, errors=errors, bottleneck=" ".join(feedback.evidence) if feedback else "")
    if not text:
        return ()
    index = DocsIndex.open(Environment().cache_dir / "docs")
    return tuple(Citation(source=hit.citation, text=hit.text, score=hit.score) for hit in index.query(text, k=HITS))
