"""Which sources the index of a cache covers: the notes, fetched documents, and what the user has added.

Kept in ``<cache_dir>/sources.json``, so that a later solve searches what ``rag build`` was told to index without being
told again, and builds nothing that the user did not ask for.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pydantic import ValidationError

from stitchcuda.core.errors import RetrievalError
from stitchcuda.core.files import write_json
from stitchcuda.core.records import Record
from stitchcuda.rag_index.sources import Source, notes_source, toolkit_source

__all__ = ["Choice", "configured_sources", "find_include", "read_choice", "read_fetched", "write_choice"]


class Choice(Record):
    """What the user added to the notes."""

    headers: str = ""
    """The include folder of a toolkit."""
    folders: dict[str, str] = {}
    """Folders with manuals of one's own, by source name."""


class FetchedPage(Record):
    """A page of an official document in the cache."""

    key: str
    """Of ``sources.toml``."""
    url: str
    file: str
    """Path inside the folder of fetched documents."""
    sha256: str
    etag: str = ""
    modified: str = ""


def read_choice(cache_dir: Path) -> Choice:
    """What was added in this cache; nothing when the file is missing.

    Raises:
        RetrievalError: The file is damaged.
    """
    path = cache_dir / "sources.json"
    try:
        return Choice.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Choice()
    except (OSError, ValidationError) as error:
        raise RetrievalError(f"{path} cannot be read; remove it and run `stitchcuda rag build` again") from error


def write_choice(cache_dir: Path, choice: Choice) -> None:
    """Remember ``choice`` in this cache."""
    try:
        write_json(cache_dir / "sources.json", choice.model_dump(mode="json"))
    except OSError as error:
        raise RetrievalError(f"{cache_dir} cannot be written: {error.strerror}") from error


def read_fetched(cache_dir: Path) -> list[FetchedPage]:
    """The fetched pages of this cache, in the order of their names; a damaged list counts as empty."""
    try:
        rows = json.loads((cache_dir / "fetched" / "fetched.json").read_text(encoding="utf-8"))
        return [FetchedPage.model_validate(row) for row in rows]
    except (OSError, ValueError, TypeError):
        return []


def configured_sources(cache_dir: Path) -> tuple[Source, ...]:
    """The sources of this cache: notes, fetched documents, headers, folders of one's own."""
    choice = read_choice(cache_dir)
    sources = [notes_source()]
    fetched = read_fetched(cache_dir)
    if fetched:
        urls = {page.file: page.url for page in fetched}
        sources.append(Source("documents", cache_dir / "fetched", urls=urls))
    if choice.headers:
        sources.append(toolkit_source(Path(choice.headers)))
    sources += [Source(name, Path(path)) for name, path in sorted(choice.folders.items())]
    return tuple(sources)


def find_include(cuda_home: Path | None) -> Path | None:
    """The include folder of the toolkit in ``cuda_home``, beside ``nvcc`` on the path, or in the usual place."""
    nvcc = shutil.which("nvcc")
    homes = [cuda_home, Path(nvcc).resolve().parent.parent if nvcc else None, Path("/usr/local/cuda")]
    for home in homes:
        if home is not None and (home / "include" / "cuda_runtime_api.h").is_file():
            return home / "include"
    return None
