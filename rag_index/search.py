"""Fuse the rankings of chunks into hits with citations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from stitchcuda.core.records import Record
from stitchcuda.rag_index.chunks import Chunk

__all__ = ["NOTES_SCORE", "NOTES_SIMILARITY", "Hit", "Mode", "fuse"]

Mode = Literal["hybrid", "lexical", "vector"]
RRF_K = 60
"""The constant of Cormack, Clarke, Büttcher 2009, who proposed reciprocal rank fusion."""
NAMES_WEIGHT = 0.3
"""Of a third ranking, by the names of the query alone (``__hfma2_relu``): ranks forget by how much an exact name leads,
and its page would lose to pages that are middling in both other rankings."""
VECTOR_WEIGHT = 0.15
"""Of a rank by likeness against one by words: hashed vectors are the weaker ranking. On the part ``tune`` with headers,
recall@5 is 0.93 with this weight, 0.92 with 0.3 and 0.91 with 0.5."""
NOTES_SCORE = 1.35
NOTES_SIMILARITY = 1.5
"""Factors on the BM25 score and the cosine of our notes against those of manuals and headers, which have twenty times
as many passages and answer less directly. On scores, not on fused ranks, so that a rare identifier still wins. With the
toolkit's headers in the index they raised recall@5 on the part ``tune`` from 0.88 to 0.93."""


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
    architectures: tuple[str, ...] = ()
    """The ones that the passage names; empty for one that holds everywhere."""
    score: float
    """Weighted sum of 1 / (60 + rank) over the rankings that found it; comparable within one query only."""
    lexical_rank: int | None = None
    vector_rank: int | None = None
    mode: Mode = "hybrid"
    """``lexical``: no vector store on this machine, or asked for; found by words alone."""


def fuse(
    chunk: Callable[[str], Chunk],
    lexical: Sequence[str] | None,
    vector: Sequence[str] | None,
    names: Sequence[str],
    k: int,
) -> list[Hit]:
    """The ``k`` best chunks of the rankings of ids (best first); ``None``: there is no such ranking."""
    lexical_rank = {key: rank for rank, key in enumerate(lexical or (), 1)}
    vector_rank = {key: rank for rank, key in enumerate(vector or (), 1)}
    scores: dict[str, float] = {}
    name_rank = {key: rank for rank, key in enumerate(names, 1)}
    for ranks, weight in ((lexical_rank, 1.0), (vector_rank, VECTOR_WEIGHT), (name_rank, NAMES_WEIGHT)):
        for key, rank in ranks.items():
            scores[key] = scores.get(key, 0.0) + weight / (RRF_K + rank)
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
                architectures=found.architectures,
                toolkit=found.toolkit,
                score=round(scores[key], 6),
                lexical_rank=lexical_rank.get(key),
                vector_rank=vector_rank.get(key),
                mode=mode,
            )
        )
    return hits
