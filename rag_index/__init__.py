"""The documentation index: our CUDA notes, found by words and by likeness, with citations.

::

    index = DocsIndex.open(cache_dir)
    for hit in index.query(build_query(bottleneck="memory", ops=("aten._softmax.default",)), k=5):
        print(hit.citation, hit.text)

Chroma is imported at the first query that needs it; a machine without it searches by words alone, and each hit
says so. Not there yet: the official documents and the toolkit's headers (HTML, PDF and header parsers, for which
``langchain-community``'s loaders are meant), a Chroma server by URL, and embeddings distilled from a language model.
"""

from __future__ import annotations

from stitchcuda.rag_index.evidence_query import build_query, query_for_evaluation
from stitchcuda.rag_index.index import DocsIndex, IndexStats
from stitchcuda.rag_index.search import Hit
from stitchcuda.rag_index.sources import Source

__all__ = [
    "DocsIndex",
    "Hit",
    "IndexStats",
    "Source",
    "build_query",
    "query_for_evaluation",
]
