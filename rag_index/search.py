"""Fuse two rankings of chunks into hits with citations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stitchcuda.core.records import Record
from stitchcuda.rag_index.chunks import Chunk

__all__ = ["Hit", "fuse"]

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
    score: float
    """Sum of 1 / (60 + rank) over the rankings that found it; comparable within one query only."""
    lexical_rank: int | None = None
    vector_rank: int | None = None
    mode: Literal["hybrid", "lexical"] = "hybrid"
    """``lexical``: no vector store on this machine, found by words alone."""


def fuse(
    chunks: dict[str, Chunk],
    lexical: Sequence[str],
    vector: Sequence[str] | None,
    k: int,
) -> list[Hit]:
    """The ``k`` best chunks of two rankings (best first); ``vector=None``: there is no such ranking."""
    lexical_rank = {key: rank for rank, key in enumerate(lexical, 1)}
    vector_rank = {key: rank for rank, key in enumerate(vector or (), 1)}
    scores: dict[str, float] = {}
    for ranks in (lexical_rank, vector_rank):
        for key, rank in ranks.items():
            scores[key] = scores.get(key, 0.0) + 1.0 / (RRF_K + rank)
    # Ties go to the lexical ranking: an exact identifier beats a likeness.
    order = sorted(scores, key=lambda key: (-scores[key], lexical_rank.get(key, len(chunks) + 1), key))
    return [
        Hit(
            chunk_id=key,
            source=chunks[key].source,
            page=chunks[key].page,
            headings=chunks[key].headings,
            citation=chunks[key].citation,
            text=chunks[key].text,
            references=chunks[key].references,
            score=round(scores[key], 6),
            lexical_rank=lexical_rank.get(key),
            vector_rank=vector_rank.get(key),
            mode="lexical" if vector is None else "hybrid",
        )
        for key in order[:k]
    ]
