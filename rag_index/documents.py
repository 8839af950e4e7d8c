"""The official documents of ``sources.toml``: what the notes refer to and ``rag fetch`` brings."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.records import Record
from stitchcuda.nvidia_docs import SOURCES_FILE

__all__ = ["Document", "read_documents", "reference_link"]


class Document(Record):
    """An entry of ``sources.toml``."""

    title: str
    publisher: str = ""
    url: str = ""
    format: Literal["html", "pdf", "installed", "observed"]
    """``installed`` comes with a toolkit, ``observed`` is no document; neither is fetched."""
    sha256: str = ""
    """Of a document that never changes; checked after fetching."""
    max_pages: int = 1
    """HTML only: follow links below the document's own folder up to this many pages."""


def read_documents(path: Path) -> dict[str, Document]:
    """The entries of ``sources.toml`` by key.

    Raises:
        RetrievalError: The file is missing or not of the right form.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
        return {key: Document.model_validate(entry) for key, entry in entries.items()}
    except (OSError, ValueError, ValidationError) as error:
        raise RetrievalError(f"{path} cannot be used: {one_line(error)}") from error


@functools.cache
def _official() -> dict[str, Document]:
    return read_documents(SOURCES_FILE)


def reference_link(reference: str) -> str:
    """The address of the document that a note's ``key: section`` names; empty when it has none."""
    document = _official().get(reference.partition(":")[0])
    return document.url if document is not None else ""
