"""The documentation as a LangChain tool, for chat engines whose model can call tools.

The same search as everywhere; only the answer's form is made for a model: passages with their citations, as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.rag_index.index import DocsIndex
from stitchcuda.rag_index.search import Hit

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["render_hits", "search_tool"]

MOST_PASSAGES = 8
MOST_CHARS = 8000
"""Of one answer: a model that asks often must not fill its context with passages."""


def render_hits(hits: Sequence[Hit], most_chars: int = MOST_CHARS) -> str:
    """Passages for a prompt, each under its citation; whole ones, as many as fit."""
    parts: list[str] = []
    size = 0
    for number, hit in enumerate(hits, start=1):
        head = f"[{number}] {hit.citation}" + (f" ({hit.link})" if hit.link else "")
        foot = "".join(f"\nsee {reference}" for reference in hit.references)
        part = f"{head}\n{hit.text}{foot}"
        if size + len(part) > most_chars and parts:
            break
        parts.append(part[:most_chars])
        size += len(part)
    return "\n\n".join(parts)


def search_tool(open_index: Callable[[], DocsIndex]) -> BaseTool:
    """A tool ``search_cuda_docs(query, passages, architecture)``.

    Args:
        open_index: Gives the index at the first call; a failure is told to the model as text, it ends nothing.
    """
    from langchain_core.tools import StructuredTool

    def search_cuda_docs(
        query: Annotated[str, "An error message, an identifier, or a question, in English."],
        passages: Annotated[int, "How many passages to return, 1 to 8."] = 4,
        architecture: Annotated[str, "For example sm_90: leaves out what only holds for others."] = "",
    ) -> tuple[str, list[Hit]]:
        """Search CUDA documentation: notes on kernels and performance, official manuals, headers of the toolkit."""
        try:
            where = {"architecture": architecture} if architecture else None
            hits = open_index().query(query, k=max(1, min(passages, MOST_PASSAGES)), where=where)
        except RetrievalError as error:
            return f"The documentation cannot be searched: {one_line(error)}", []
        text = render_hits(hits)
        return text or "Nothing in the documentation fits this query.", [hit for hit in hits if hit.text in text]

    return StructuredTool.from_function(
        search_cuda_docs,
        parse_docstring=False,
        response_format="content_and_artifact",  # the hits themselves, for whoever has to know what was shown
        handle_validation_error=lambda error: f"Wrong arguments: {one_line(error)}",  # back to the model
    )
