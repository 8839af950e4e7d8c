"""From the blocks of a section to chunks: grouped to a size that fits a prompt, never across sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from stitchcuda.rag_index.chunks import Chunk, make_chunk

__all__ = ["Section", "pack", "pack_sections", "split_long"]

TARGET_CHARS = 1000
"""A chunk is closed when the next block would exceed this; about 250 tokens, five of which fit any prompt."""
LEAST_CHARS = 250
"""A shorter rest of a section joins the chunk before it: alone it says too little."""
MOST_CHARS = 6000
"""A longer block (a generated table, a listing of a whole file) is cut between its lines."""


@dataclass
class Section:
    """What stands under one heading."""

    headings: tuple[str, ...]
    blocks: list[str] = field(default_factory=list)
    """Paragraphs, list items, tables and fenced code, each whole."""
    link: str = ""


def pack(blocks: Iterable[str], size: Callable[[str], int] = len) -> list[list[str]]:
    """Group a section's blocks into pieces of about ``TARGET_CHARS``; one larger block is a piece of its own."""
    pieces: list[list[str]] = []
    sizes: list[int] = []
    for block in blocks:
        amount = size(block)
        if pieces and (sizes[-1] + amount <= TARGET_CHARS or not amount):
            pieces[-1].append(block)
            sizes[-1] += amount
        else:
            pieces.append([block])
            sizes.append(amount)
    if len(pieces) > 1 and sizes[-1] < LEAST_CHARS:
        rest = pieces.pop()
        pieces[-1].extend(rest)
    return pieces


def split_long(block: str) -> list[str]:
    """``block`` whole, or cut between lines where it is longer than ``MOST_CHARS``; a cut fence is closed again."""
    if len(block) <= MOST_CHARS:
        return [block]
    lines = block.splitlines()
    fence = lines[0] if lines[0].startswith("```") else ""
    parts: list[list[str]] = [[]]
    size = 0
    for line in lines:
        while len(line) > MOST_CHARS:  # one line of minified text
            parts.append([line[:MOST_CHARS]])
            line, size = line[MOST_CHARS:], MOST_CHARS
        if size + len(line) > MOST_CHARS and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += len(line) + 1
    texts = ["\n".join(part) for part in parts if part]
    if fence:
        texts = [text if text.startswith("```") else f"{fence}\n{text}" for text in texts]
        texts = [text if text.rstrip().endswith("```") and text != fence else f"{text}\n```" for text in texts]
    return texts


def pack_sections(
    sections: Sequence[Section], *, source: str, page: str, topics: str = "", toolkit: str = ""
) -> list[Chunk]:
    """The chunks of a page's sections; equal passages under equal headings are numbered."""
    chunks: list[Chunk] = []
    seen: Counter[tuple[tuple[str, ...], str]] = Counter()
    for section in sections:
        for piece in pack(part for block in section.blocks for part in split_long(block)):
            text = "\n\n".join(piece).strip()
            if not text:
                continue
            headings = section.headings or (page,)
            occurrence = seen[headings, text]
            seen[headings, text] += 1
            chunks.append(
                make_chunk(
                    source,
                    page,
                    headings,
                    text,
                    topics=topics,
                    occurrence=occurrence,
                    link=section.link,
                    toolkit=toolkit,
                )
            )
    return chunks
