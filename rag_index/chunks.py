"""A chunk: one passage of a page, small enough for a prompt, that still knows where it stood."""

from __future__ import annotations

from stitchcuda.core.files import sha256_text
from stitchcuda.core.records import Record

__all__ = ["Chunk", "make_chunk"]


class Chunk(Record):
    """One passage. ``id`` depends on content and place only, so that an unchanged passage keeps it."""

    id: str
    source: str
    """Name of the source, for example ``notes``."""
    page: str
    """Path inside the source, for example ``softmax.md``."""
    headings: tuple[str, ...]
    """From the page's title down."""
    text: str
    references: tuple[str, ...] = ()
    """Where the facts come from, as ``key: section`` with a key of ``sources.toml``."""
    topics: str = ""
    """The page's own list of topics; searched, not shown."""

    @property
    def citation(self) -> str:
        """``page › heading``; the page's title alone is left out, since the page's name says it."""
        return " › ".join((self.page, *(self.headings[1:] or self.headings)))

    @property
    def search_text(self) -> str:
        """What is indexed: headings count, since a passage often does not repeat its subject."""
        return "\n".join((*self.headings, self.topics, self.text))


def make_chunk(
    source: str,
    page: str,
    headings: tuple[str, ...],
    text: str,
    *,
    references: tuple[str, ...] = (),
    topics: str = "",
    occurrence: int = 0,
) -> Chunk:
    """A chunk with its id; ``occurrence`` tells equal passages under equal headings apart."""
    identity = "\x1f".join((source, page, *headings, text, *references, topics, str(occurrence)))
    return Chunk(
        id=sha256_text(identity)[:24],
        source=source,
        page=page,
        headings=headings,
        text=text,
        references=references,
        topics=topics,
    )
