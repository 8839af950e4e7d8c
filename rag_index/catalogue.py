"""Which sources the index of a cache covers: the notes, fetched documents, and what the user has added.

Kept in ``<cache_dir>/sources.json``, so that a later solve searches what ``rag build`` was told to index without being
told again, and builds nothing that the user did not ask for.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from stitchcuda.core.errors import RetrievalError
from stitchcuda.core.files import write_json
from stitchcuda.core.records import Record
from stitchcuda.rag_index.sources import Source, notes_source, toolkit_source

__all__ = [
    "Choice",
    "change_choice",
    "configured_sources",
    "find_include",
    "read_choice",
    "read_fetched",
    "write_choice",
]


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


def change_choice(
    cache_dir: Path,
    *,
    headers: bool | None = None,
    include: Path | None = None,
    cuda_home: Path | None = None,
    add: Sequence[Path] = (),
    remove: Sequence[str] = (),
) -> list[str]:
    """Change what the index of this cache covers; returns lines to show.

    Args:
        cache_dir: The cache of the index.
        headers: Whether to index a toolkit's headers; when left out, if one is found.
        include: The include folder to take instead of the one found.
        cuda_home: Where to look for a toolkit first.
        add: Folders to index beside the rest, from now on.
        remove: Names of added folders to forget.

    Raises:
        RetrievalError: A folder that does not exist, a name that was not added, headers that are not there.
    """
    old = read_choice(cache_dir)
    folders = dict(old.folders)
    for name in remove:
        if name not in folders:
            raise RetrievalError(f"no folder was added as {name}; there are: {', '.join(folders) or 'none'}")
        del folders[name]
    for folder in add:
        path = folder.expanduser().resolve()
        if not path.is_dir():
            raise RetrievalError(f"{folder} is not a folder")
        folders[_source_name(path, folders)] = str(path)
    lines: list[str] = []
    chosen = ""
    if headers is not False:
        found = include.resolve() if include else find_include(cuda_home)
        if found is not None and not (found / "cuda_runtime_api.h").is_file():
            raise RetrievalError(f"{found} has no cuda_runtime_api.h")
        if found is None and headers:
            raise RetrievalError("no CUDA toolkit is found; name its include folder with --include")
        if found is None:
            lines.append("no CUDA toolkit is found: its headers are not indexed")
        chosen = str(found or "")
    new = Choice(headers=chosen, folders=folders)
    if new != old:
        write_choice(cache_dir, new)
    return lines


def _source_name(path: Path, taken: dict[str, str]) -> str:
    """A name made of the folder's; the same folder keeps its name, another one of that name gets a number."""
    base = re.sub(r"[^a-z0-9]+", "-", path.name.lower()).strip("-") or "folder"
    if base in ("notes", "documents", "headers"):
        base += "-1"
    name, number = base, 2
    while name in taken and taken[name] != str(path):
        name, number = f"{base}-{number}", number + 1
    return name
