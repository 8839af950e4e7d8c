"""The door of the room: open (building only what changed) and query.

An index lies under ``<cache_dir>/docs-index/`` as whole versions named by the digest of what went in. Opening looks for
the version that fits and builds it when it is missing. While someone else builds, or when a build fails, the latest
whole version keeps serving and ``stats`` says so. Calls block (files, Chroma): use ``asyncio.to_thread`` in a node.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np

from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.records import Record
from stitchcuda.rag_index.bm25 import Bm25
from stitchcuda.rag_index.build import Row, build_version, index_digest, read_meta, read_rows
from stitchcuda.rag_index.embed import embed
from stitchcuda.rag_index.search import Hit, fuse
from stitchcuda.rag_index.sources import Source, default_sources, read_pages
from stitchcuda.rag_index.tokens import tokenize
from stitchcuda.rag_index.vectors import VectorStore, chroma_available

__all__ = ["DocsIndex", "IndexStats"]

DEPTH = 50
"""How many of each ranking are fused."""
LEAST_SIMILARITY = 0.11
"""Below it likeness is chance: queries about cooking and the weather reach 0.06 to 0.13, the questions of the
test set 0.14 and more."""
LOCK_TIMEOUT_S = 120.0
FILTERS = ("source", "page")


class IndexStats(Record):
    """What an index holds and how it serves."""

    folder: str
    pages: int
    chunks: int
    mode: Literal["hybrid", "lexical"]
    """``lexical``: chromadb is not installed or its store failed; words alone are searched."""
    embedding: str | None
    stale: bool
    """An older version serves, because the new one is being built or could not be built."""
    problems: tuple[str, ...]
    """A line per page that was left out and per failure; empty when all is well."""
    build_s: float
    reused_pages: int


class DocsIndex:
    """A version of the index, opened. Thread-safe; nothing is loaded before the first query."""

    def __init__(self, folder: Path, meta: Mapping[str, object], problems: Sequence[str] = (), *, stale: bool) -> None:
        self._folder = folder
        self._meta = dict(meta)
        self._problems = list(problems)
        self._stale = stale
        self._lock = threading.Lock()
        self._rows: dict[str, Row] | None = None
        self._order: list[str] = []
        self._bm25 = Bm25(())
        self._vectors: VectorStore | None = None
        self._has_vectors = meta.get("embedding") is not None and chroma_available()

    @classmethod
    def open(
        cls,
        cache_dir: Path,
        sources: Sequence[Source] | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> DocsIndex:
        """Open the index over ``sources``, building what is missing.

        Args:
            cache_dir: The user's cache folder; the index is a folder inside.
            sources: Our own notes when left out.
            progress: Called with (pages done, pages in all) during a build.

        Raises:
            RetrievalError: There is nothing to index and no earlier index, or the folder cannot be written.
        """
        root = Path(cache_dir) / "docs-index"
        pages, problems = read_pages(tuple(default_sources() if sources is None else sources))
        with_vectors = chroma_available()
        digest = index_digest(pages, with_vectors=with_vectors)
        folder = root / f"v-{digest}"
        meta = read_meta(folder)
        if meta is not None:
            return cls(folder, meta, stale=False)
        try:
            with _build_lock(root, wait=_latest(root) is None) as mine:
                meta = read_meta(folder)  # another process may have finished it
                if meta is None and mine:
                    build_version(root, digest, pages, problems, with_vectors=with_vectors, progress=progress)
                    meta = read_meta(folder)
            if meta is not None:
                return cls(folder, meta, stale=False)
            reason = "a new version is being built by another process"
        except (RetrievalError, OSError) as error:
            reason = f"the new version could not be built: {one_line(error)}"
            if _latest(root) is None:
                raise RetrievalError(f"the documentation index in {root} cannot be built: {one_line(error)}") from error
        latest = _latest(root)
        old = read_meta(latest) if latest is not None else None
        if latest is None or old is None:
            raise RetrievalError(f"the documentation index in {root} cannot be opened: {reason}; try again later")
        return cls(latest, old, [reason], stale=True)

    def query(self, text: str, k: int = 5, where: Mapping[str, str | Sequence[str]] | None = None) -> list[Hit]:
        """The ``k`` passages that fit ``text`` best, best first; fewer or none when nothing fits.

        Args:
            text: A question, an error message, or the result of ``build_query``.
            k: At most so many hits.
            where: Only passages whose ``source`` or ``page`` is the given value, or one of several.

        Raises:
            RetrievalError: An unknown filter, or a damaged index.
        """
        filters = _filters(where or {})
        tokens = tokenize(text)
        if not tokens or k < 1:
            return []
        rows = self._load()
        scores = self._bm25.scores(tokens)
        allowed = [
            index
            for index, key in enumerate(self._order)
            if scores[index] > 0 and all(getattr(rows[key].chunk, name) in values for name, values in filters.items())
        ]
        allowed.sort(key=lambda index: (-float(scores[index]), index))
        lexical = [self._order[index] for index in allowed[:DEPTH]]
        vector = self._nearest(text, filters)
        return fuse({key: row.chunk for key, row in rows.items()}, lexical, vector, k)

    def stats(self) -> IndexStats:
        """What this index holds; cheap."""
        pages = self._meta.get("pages")
        problems = self._meta.get("problems")
        lines = [*(str(line) for line in (problems if isinstance(problems, list) else ())), *self._problems]
        if not chroma_available():
            lines.append("chromadb is not installed: searching by words alone")
        return IndexStats(
            folder=str(self._folder),
            pages=len(pages) if isinstance(pages, dict) else 0,
            chunks=int(str(self._meta.get("chunks", 0))),
            mode="hybrid" if self._has_vectors else "lexical",
            embedding=str(self._meta["embedding"]) if self._meta.get("embedding") else None,
            stale=self._stale,
            problems=tuple(lines),
            build_s=float(str(self._meta.get("build_s", 0.0))),
            reused_pages=int(str(self._meta.get("reused_pages", 0))),
        )

    def close(self) -> None:
        """Close the vector store, if it was opened."""
        with self._lock:
            if self._vectors is not None:
                self._vectors.close()
                self._vectors = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _load(self) -> dict[str, Row]:
        with self._lock:
            if self._rows is None:
                rows = read_rows(self._folder)
                self._order = [row.chunk.id for row in rows]
                self._bm25 = Bm25([row.tokens for row in rows])
                self._rows = {row.chunk.id: row for row in rows}
            return self._rows

    def _nearest(self, text: str, filters: Mapping[str, tuple[str, ...]]) -> list[str] | None:
        """Ids by likeness; ``None`` when there is no vector store, or it failed, which is then said in ``stats``."""
        if not self._has_vectors:
            return None
        vector = embed([text])[0]
        if not np.any(vector):
            return []
        try:
            with self._lock:
                if self._vectors is None:
                    self._vectors = VectorStore(self._folder / "chroma")
                store = self._vectors
            found = store.query(vector, min(DEPTH, len(self._order)), dict(filters))
        except RetrievalError as error:
            self._has_vectors = False
            self._problems.append(f"searching by words alone: {error}")
            return None
        # An id that is not among the chunks would mean a store of another version.
        known = self._rows or {}
        return [key for key, similarity in found if similarity >= LEAST_SIMILARITY and key in known]


def _filters(where: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    unknown = sorted(set(where) - set(FILTERS))
    if unknown:
        raise RetrievalError(f"no such filter: {', '.join(unknown)}; there are {', '.join(FILTERS)}")
    return {key: (value,) if isinstance(value, str) else tuple(value) for key, value in where.items()}


def _latest(root: Path) -> Path | None:
    """The version published last, if it is whole; else the newest whole one."""
    try:
        named = root / (root / "latest").read_text().strip()
    except OSError:
        named = None
    if named is not None and read_meta(named) is not None:
        return named
    whole = [path for path in root.glob("v-*") if read_meta(path) is not None]
    return max(whole, key=lambda path: path.stat().st_mtime, default=None)


@contextmanager
def _build_lock(root: Path, *, wait: bool) -> Iterator[bool]:
    """Whether this process may build; the kernel frees the lock when its holder dies."""
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait or time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.05)
                continue
            yield True
            return
    finally:
        os.close(handle)
