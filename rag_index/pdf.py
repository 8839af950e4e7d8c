"""PDF files to chunks: headings from the outline, running heads removed, links with the page number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.loaders import PdfText, read_pdf
from stitchcuda.rag_index.packing import TARGET_CHARS, Section, pack_sections

__all__ = ["parse_pdf"]

REPEATED_SHARE = 0.4
"""A first or last line that so many pages share, digits apart, is a running head or foot."""


def parse_pdf(data: bytes, *, source: str, page: str, url: str = "", toolkit: str = "") -> list[Chunk]:
    """The chunks of one file; one section per outline entry, or per page where there is no outline.

    Raises:
        RetrievalError: It is broken, encrypted or has no text.
    """
    return pack_sections(list(_sections(read_pdf(data), page, url)), source=source, page=page, toolkit=toolkit)


def _sections(text: PdfText, name: str, url: str) -> Iterator[Section]:
    title = text.title or name
    pages = _without_running_heads([page.splitlines() for page in text.pages])
    waiting = list(text.outline)
    path: list[str] = []
    for number, lines in enumerate(pages, start=1):
        current = Section(_headings(title, path, number), link=_link(url, number))
        rest = lines
        while waiting and waiting[0][0] <= number:
            _, depth, heading = waiting.pop(0)
            at = _position(rest, heading)
            current.blocks = _paragraphs(rest[:at])
            if current.blocks:
                yield current
            rest = rest[at:]
            path = [*path[: depth - 1], heading]
            current = Section(_headings(title, path, number), link=_link(url, number))
        current.blocks = _paragraphs(rest)
        if current.blocks:
            yield current


def _headings(title: str, path: Sequence[str], number: int) -> tuple[str, ...]:
    return (title, *path) if path else (title, f"page {number}")


def _link(url: str, number: int) -> str:
    return f"{url}#page={number}" if url else ""


def _key(line: str) -> str:
    return re.sub(r"[\d\W_]+", "", line).lower()


def _without_running_heads(pages: list[list[str]]) -> list[list[str]]:
    stripped = [[line.strip() for line in page if line.strip()] for page in pages]
    edges = Counter(key for page in stripped for key in {_key(line) for line in (*page[:2], *page[-2:])})
    least = max(3, int(REPEATED_SHARE * len(pages)))
    repeated = {key for key, count in edges.items() if count >= least}

    def runs(page: list[str], position: int) -> bool:
        at_edge = position < 2 or position >= len(page) - 2
        return at_edge and (_key(page[position]) in repeated or page[position].isdigit())

    return [[line for position, line in enumerate(page) if not runs(page, position)] for page in stripped]


def _position(lines: list[str], heading: str) -> int:
    """Where the heading stands among the page's lines; the top when it is not found (set in an image, say)."""
    wanted = _key(heading)
    for position, line in enumerate(lines):
        if wanted and _key(line) == wanted:
            return position
    return 0


def _paragraphs(lines: list[str]) -> list[str]:
    """Lines joined into paragraphs: PDF text has no blank lines, so the end of a sentence closes one."""
    blocks: list[str] = []
    current: list[str] = []
    size = 0
    for line in lines:
        current.append(line)
        size += len(line) + 1
        if (size >= TARGET_CHARS // 2 and re.search(r"[.:;!?)]$", line)) or size >= 2 * TARGET_CHARS:
            blocks.append("\n".join(current))
            current, size = [], 0
    if current:
        blocks.append("\n".join(current))
    return blocks
