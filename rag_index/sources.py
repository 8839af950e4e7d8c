"""Where pages come from, and what changed since the last build."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.nvidia_docs import NOTES_DIR

__all__ = ["Page", "Source", "default_sources", "read_pages"]

NOT_PAGES = {"LICENSE.md", "README.md"}


@dataclass(frozen=True)
class Source:
    """A folder of Markdown pages, or one page."""

    name: str
    path: Path


@dataclass(frozen=True)
class Page:
    """One page as it lies on disk."""

    source: str
    name: str
    data: bytes

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the page and its place."""
        head = f"{self.source}\x1f{self.name}\x1f".encode()
        return hashlib.sha256(head + self.data).hexdigest()


def default_sources() -> tuple[Source, ...]:
    """Our own notes."""
    return (Source("notes", NOTES_DIR),)


def read_pages(sources: tuple[Source, ...]) -> tuple[list[Page], list[str]]:
    """All pages in a fixed order, and a line for each that could not be read."""
    pages: list[Page] = []
    problems: list[str] = []
    for source in sources:
        if source.path.is_dir():
            files = sorted(path for path in source.path.rglob("*.md") if path.name not in NOT_PAGES)
        else:
            files = [source.path]
        root = source.path if source.path.is_dir() else source.path.parent
        for file in files:
            try:
                pages.append(Page(source.name, file.relative_to(root).as_posix(), file.read_bytes()))
            except OSError as error:
                problems.append(f"{file}: {error.strerror}")
    return pages, problems
