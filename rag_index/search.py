"""Fuse two rankings of chunks into hits with citations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from stitchcuda.core.records import Record
from stitchcuda.rag_index.chunks import Chunk

__all__ = ["Hit", "Mode", "fuse"]

Mode = Literal["hybrid", "lexical", "vector"]
RRF_K = 60
"""The constant of Cormack, Clarke, Büttcher 2009, who proposed reciprocal rank fusion."""


class Hit(Record):
    """A passage that was found."""

    chunk_id: str
    source: str
    page: str
    headings: tuple[str, ...]
    citation: str
    """``page › heading``, for example ``warp-shuffles.md › A warp-wide sum``."""
    text: str
    references: tuple[str, ...] = ()
    """The official documents behind the passage, as ``key: section``."""
    link: str = ""
    """Where the passage stands: a URL, or ``file:line`` in an installed header; empty for a note."""
    toolkit: str = ""
    score: float
    """Sum of 1 / (60 + rank) over the rankings that found it; comparable within one query only."""
    lexical_rank: int | None = None
    vector_rank: int | None = None
    mode: Mode = "hybrid"
    """``lexical``: no vector store on this machine, or asked for; found by words alone."""


def fuse(
    chunk: Callable[[str], Chunk],
    lexical: Sequence[str] | None,
    vector: Sequence[str] | None,
    k: int,
) -> list[Hit]:
    """The ``k`` best chunks of two rankings of ids (best first); ``None``: there is no such ranking."""
    lexical_rank = {key: rank for rank, key in enumerate(lexical or (), 1)}
    vector_rank = {key: rank for rank, key in enumerate(vector or (), 1)}
    scores: dict[str, float] = {}
    for ranks in (lexical_rank, vector_rank):
        for key, rank in ranks.items():
            scores[key] = scores.get(key, 0.0) + 1.0 / (RRF_K + rank)
    last = len(lexical_rank) + 1
    # Ties go to the lexical ranking: an exact identifier beats a likeness.
    order = sorted(scores, key=lambda key: (-scores[key], lexical_rank.get(key, last), key))
    mode: Mode = "lexical" if vector is None else "vector" if lexical is None else "hybrid"
    hits = []
    for key in order[:k]:
        found = chunk(key)
        hits.append(
            Hit(
                chunk_id=key,
                source=found.source,
                page=found.page,
                headings=found.headings,
                citation=found.citation,
                text=found.text,
                references=found.references,
                link=found.link,
                toolkit=found.toolkit,
                score=round(scores[key], 6),
                lexical_rank=lexical_rank.get(key),
                vector_rank=vector_rank.get(key),
                mode=mode,
            )
        )
    return hits
