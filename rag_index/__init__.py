"""The documentation index: notes, manuals and headers, found by words and by likeness, with citations.

::

    index = DocsIndex.open(cache_dir)
    for hit in index.query(build_query(bottleneck="memory", ops=("aten._softmax.default",)), k=5):
        print(hit.citation, hit.text)

What is indexed is kept with the cache (``change_choice``, ``fetch_documents``); the notes always are. Chroma is
imported at the first query that needs it; a machine without it searches by words alone, and each hit says so.
"""

from __future__ import annotations

from stitchcuda.rag_index.catalogue import change_choice, configured_sources, find_include
from stitchcuda.rag_index.chunks import architecture_name, architectures_up_to
from stitchcuda.rag_index.documents import Document, read_documents, reference_link
from stitchcuda.rag_index.evaluation import QUESTIONS_FILE, Question, Score, evaluate, read_questions
from stitchcuda.rag_index.evidence_query import build_query, query_for_evaluation
from stitchcuda.rag_index.fetch import FetchResult, fetch_documents
from stitchcuda.rag_index.index import DocsIndex, IndexStats
from stitchcuda.rag_index.search import Hit, Mode
from stitchcuda.rag_index.sources import Source, notes_source, toolkit_source
from stitchcuda.rag_index.tool import render_hits, search_tool

__all__ = [
    "QUESTIONS_FILE",
    "DocsIndex",
    "Document",
    "FetchResult",
    "Hit",
    "IndexStats",
    "Mode",
    "Question",
    "Score",
    "Source",
    "architecture_name",
    "architectures_up_to",
    "build_query",
    "change_choice",
    "configured_sources",
    "evaluate",
    "fetch_documents",
    "find_include",
    "notes_source",
    "query_for_evaluation",
    "read_documents",
    "read_questions",
    "reference_link",
    "render_hits",
    "search_tool",
    "toolkit_source",
]
