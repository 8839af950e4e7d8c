"""A page to chunks, by its format."""

from __future__ import annotations

from stitchcuda.core.errors import RetrievalError
from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.headers import parse_header
from stitchcuda.rag_index.html import parse_html
from stitchcuda.rag_index.markdown import parse_markdown
from stitchcuda.rag_index.pdf import parse_pdf
from stitchcuda.rag_index.sources import Page

__all__ = ["PARSER_VERSION", "parse_page"]

PARSER_VERSION = 5
"""Part of the index's digest: raise it when any page gives other chunks."""


def parse_page(page: Page) -> list[Chunk]:
    """The chunks of ``page``; a header may have none.

    Raises:
        RetrievalError: It cannot be read or has no text; the message says why, without the page's name.
    """
    chunks = _parse(page)
    if not chunks and page.format != "header":
        raise RetrievalError("it has no text")
    return chunks


def _parse(page: Page) -> list[Chunk]:
    try:
        data = page.path.read_bytes()
    except OSError as error:
        raise RetrievalError(error.strerror or "cannot be read") from error
    if page.format == "html":
        return parse_html(data, source=page.source, page=page.name, url=page.url, toolkit=page.toolkit)
    if page.format == "pdf":
        return parse_pdf(data, source=page.source, page=page.name, url=page.url, toolkit=page.toolkit)
    if page.format == "header":
        # Some headers hold a stray Latin-1 character in a comment.
        text = data.decode("utf-8", errors="replace")
        return parse_header(text, source=page.source, page=page.name, path=str(page.path), toolkit=page.toolkit)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RetrievalError("not UTF-8 text") from error
    return parse_markdown(text, source=page.source, page=page.name)
