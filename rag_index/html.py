"""HTML pages to chunks: the heading path, code whole, tables as rows of text, links with the heading's anchor."""

from __future__ import annotations

from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.loaders import read_html
from stitchcuda.rag_index.packing import Section, pack_sections

__all__ = ["parse_html"]


def parse_html(data: bytes, *, source: str, page: str, url: str = "", toolkit: str = "") -> list[Chunk]:
    """The chunks of one page.

    Args:
        data: The file.
        source: Name of the source.
        page: Path inside the source.
        url: Where the page was fetched from; links are made of it and the headings' anchors.
        toolkit: Version of the toolkit that it describes.

    Raises:
        RetrievalError: It is no HTML.
    """
    title, blocks = read_html(data)
    path: list[tuple[int, str]] = []
    sections: list[Section] = []
    current = Section((title or page,), link=url)
    for block in blocks:
        if not block.level:
            current.blocks.append(block.text)
            continue
        if current.blocks:
            sections.append(current)
        # Headings by their own level: pages skip levels and start at any.
        path = [entry for entry in path if entry[0] < block.level] + [(block.level, block.text)]
        names = tuple(text for _, text in path)
        if title and names[0] not in title:
            names = (title, *names)
        current = Section(names, link=f"{url}#{block.anchor}" if url and block.anchor else url)
    if current.blocks:
        sections.append(current)
    return pack_sections(sections, source=source, page=page, toolkit=toolkit)
