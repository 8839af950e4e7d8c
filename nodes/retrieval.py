"""Look up the documentation index with a query built from evidence; no index is said, not fatal."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.records import Evaluation
from stitchcuda.graph.context import Context
from stitchcuda.nodes.evidence import Citation
from stitchcuda.nodes.progress import say
from stitchcuda.traces import span

if TYPE_CHECKING:
    from stitchcuda.rag_index import DocsIndex, Hit

__all__ = ["look_up"]

HITS = 4


async def look_up(
    context: Context, *, ops: Sequence[str] = (), evaluation: Evaluation | None = None
) -> tuple[Citation, ...]:
    """The passages that fit the ops, and the failure or the bottleneck, best; empty when retrieval is off."""
    if not context.retrieval:
        return ()
    text = await asyncio.to_thread(_question, tuple(ops), evaluation)
    if not text:
        return ()
    async with span("retrieve", {"query": text}, run_type="retriever") as step:
        try:
            hits = await asyncio.to_thread(_query, text)
        except RetrievalError as error:
            say("retrieval", f"no documentation: {one_line(error)}")
            return ()
        step.outputs = {"documents": [{"text": hit.text, "citation": hit.citation} for hit in hits]}
    return tuple(Citation(source=hit.citation, text=hit.text, score=hit.score) for hit in hits)


def _question(ops: tuple[str, ...], evaluation: Evaluation | None) -> str:
    from stitchcuda.rag_index import build_query, query_for_evaluation

    return query_for_evaluation(evaluation, ops=ops) if evaluation is not None else build_query(ops=ops)


@functools.cache
def _index() -> DocsIndex:
    """One index per process; it is opened on the first question."""
    from stitchcuda.rag_index import DocsIndex

    return DocsIndex.open(Environment().cache_dir / "docs")


def _query(text: str) -> list[Hit]:
    return _index().query(text, k=HITS)
