"""Markdown pages to chunks that follow the page's structure.

A section is split at blank lines and list items, never inside a code block or a table; the heading path is kept, and
references in the form ``[key: section]`` are taken out of the text and kept beside it. What is not understood
(front matter, HTML, images) stays as the text that it is.
"""

from __future__ import annotations

import re
from collections import Counter

from stitchcuda.rag_index.chunks import Chunk, make_chunk
from stitchcuda.rag_index.packing import pack, split_long

__all__ = ["parse_markdown"]

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_REFERENCE = re.compile(r"\s*\[([a-z0-9][a-z0-9-]*):\s+([^\]]+)\]")
_LIST_ITEM = re.compile(r"^([-*+]|\d+[.)])\s")


def parse_markdown(text: str, *, source: str, page: str) -> list[Chunk]:
    """The chunks of one page.

    Args:
        text: The page.
        source: Name of the source.
        page: Path inside the source.
    """
    topics = ""
    sections: list[tuple[tuple[str, ...], list[str]]] = []
    path: list[str] = []
    blocks: list[str] = []
    for block in _blocks(text):
        heading = _HEADING.match(block) if "\n" not in block else None
        if heading:
            if blocks:
                sections.append((tuple(path) or (page,), blocks))
                blocks = []
            level = len(heading[1])
            # A skipped level (# then ###) must not leave the old deeper heading in the path.
            path = [*path[: level - 1], heading[2]]
        elif block.startswith("Topics:") and not topics:
            topics = " ".join(block.removeprefix("Topics:").split())
        else:
            blocks.append(block)
    if blocks:
        sections.append((tuple(path) or (page,), blocks))

    chunks: list[Chunk] = []
    seen: Counter[tuple[tuple[str, ...], str]] = Counter()
    for headings, section in sections:
        parts = (part for block in section for part in split_long(block))
        for piece in pack(parts, lambda block: len(_shown(block))):
            references = tuple(dict.fromkeys(f"{key}: {' '.join(where.split())}" for key, where in _references(piece)))
            shown = "\n\n".join(text for text in map(_shown, piece) if text).strip()
            if not shown:
                continue
            occurrence = seen[headings, shown]
            seen[headings, shown] += 1
            chunks.append(
                make_chunk(source, page, headings, shown, references=references, topics=topics, occurrence=occurrence)
            )
    return chunks


def _blocks(text: str) -> list[str]:
    """Headings, fenced code, tables, list items and paragraphs, each as one string."""
    blocks: list[str] = []
    current: list[str] = []
    fence = ""

    def close() -> None:
        if current:
            blocks.append("\n".join(current))
            current.clear()

    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            current.append(line)
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                close()
        elif mark:
            close()
            fence = mark[1]
            current.append(line)
        elif not line.strip():
            close()
        elif _HEADING.match(line):
            close()
            blocks.append(line)
        else:
            if _LIST_ITEM.match(line):
                close()
            current.append(line)
    close()  # an unclosed fence ends with the page
    return blocks


def _shown(block: str) -> str:
    """A block without its references; nothing is left of a line that only names a table's source."""
    if _is_code(block):
        return block
    text = _REFERENCE.sub("", block)
    return "" if text.strip() == "Source of the table:" else text


def _references(blocks: list[str]) -> list[tuple[str, str]]:
    return [found for block in blocks if not _is_code(block) for found in _REFERENCE.findall(block)]


def _is_code(block: str) -> bool:
    return _FENCE.match(block) is not None
