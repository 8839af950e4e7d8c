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
from stitchcuda.nodes.evidence import Citation, DeviceFacts
from stitchcuda.nodes.progress import say
from stitchcuda.traces import span

if TYPE_CHECKING:
    from stitchcuda.rag_index import DocsIndex, Hit

__all__ = ["documentation_index", "look_up"]

HITS = 4
REACH = 3
"""Further hits that may rise among the best when they name the GPU's own architecture."""
OWN_ARCHITECTURE = 1.1
"""Factor on the score of a passage that names it: some ranks, no more."""


async def look_up(
    context: Context,
    *,
    ops: Sequence[str] = (),
    evaluation: Evaluation | None = None,
    device: DeviceFacts | None = None,
) -> tuple[Citation, ...]:
    """The passages that fit the ops, and the failure or the bottleneck, best; empty when retrieval is off.

    Where the GPU is known, what only holds for newer ones is left out, and what names its own architecture rises.
    """
    if not context.retrieval:
        return ()
    text = await asyncio.to_thread(_question, tuple(ops), evaluation)
    if not text:
        return ()
    asked = {"query": text, "compute_capability": device.compute_capability if device is not None else ""}
    async with span("retrieve", asked, run_type="retriever") as step:
        try:
            found = await asyncio.to_thread(_query, text, asked["compute_capability"])
        except RetrievalError as error:
            say("retrieval", f"no documentation: {one_line(error)}")
            return ()
        step.outputs = {"documents": [{"text": hit.text, "citation": hit.source, "link": hit.link} for hit in found]}
    return found


def _question(ops: tuple[str, ...], evaluation: Evaluation | None) -> str:
    from stitchcuda.rag_index import build_query, query_for_evaluation

    return query_for_evaluation(evaluation, ops=ops) if evaluation is not None else build_query(ops=ops)


@functools.cache
def documentation_index() -> DocsIndex:
    """One index per process; it is opened on the first question."""
    from stitchcuda.rag_index import DocsIndex

    return DocsIndex.open(Environment().cache_dir / "docs")


def _query(text: str, compute_capability: str) -> tuple[Citation, ...]:
    from stitchcuda.rag_index import architecture_name, architectures_up_to

    own = architecture_name(compute_capability)
    where = {"architecture": architectures_up_to(own)} if own else None
    hits = documentation_index().query(text, k=HITS + REACH if own else HITS, where=where)

    def score(hit: Hit) -> float:
        return hit.score * (OWN_ARCHITECTURE if own in hit.architectures else 1.0)

    best = sorted(hits, key=score, reverse=True)[:HITS]
    return tuple(Citation(source=hit.citation, text=hit.text, score=score(hit), link=_link(hit)) for hit in best)


def _link(hit: Hit) -> str:
    """Where the passage stands; for a note, the first official document behind it."""
    from stitchcuda.rag_index import reference_link

    return hit.link or next(filter(None, map(reference_link, hit.references)), "")
