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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.records import Record
from stitchcuda.rag_index.build import Progress, Recipe, build_version
from stitchcuda.rag_index.catalogue import configured_sources
from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.embed import embed
from stitchcuda.rag_index.search import NOTES_SCORE, NOTES_SIMILARITY, Hit, Mode, fuse
from stitchcuda.rag_index.sources import Source, read_pages
from stitchcuda.rag_index.tokens import names_in, tokenize
from stitchcuda.rag_index.vectors import VectorStore, chroma_available
from stitchcuda.rag_index.version import Version, latest_version, read_meta, read_vectors

__all__ = ["DocsIndex", "IndexStats"]

DEPTH = 50
"""How many of each ranking are fused."""
REACH = 4
"""So many times the depth is asked of the vector store, because notes that lie further down may rise."""
LEAST_SIMILARITY = 0.11
"""Below it likeness is chance: queries about cooking and the weather reach 0.06 to 0.13, the questions of the
test set 0.14 and more."""
LOCK_TIMEOUT_S = 120.0
FILTERS = ("source", "page", "architecture", "toolkit")


class IndexStats(Record):
    """What an index holds and how it serves."""

    folder: str
    pages: int
    chunks: int
    mode: Literal["hybrid", "lexical"]
    """``lexical``: chromadb is not installed or its store failed; words alone are searched."""
    embedding: str | None
    store: str
    """``embedded``, ``server`` or ``none``."""
    sources: dict[str, dict[str, int | str]]
    """Pages, chunks and toolkit version of each source."""
    stale: bool
    """An older version serves, because the new one is being built or could not be built."""
    problems: tuple[str, ...]
    """A line per page that was left out and per failure; empty when all is well."""
    build_s: float
    reused_pages: int


class DocsIndex:
    """A version of the index, opened. Thread-safe; nothing is loaded before the first query."""

    def __init__(
        self,
        folder: Path,
        meta: Mapping[str, Any],
        recipe: Recipe,
        problems: Sequence[str] = (),
        *,
        stale: bool,
    ) -> None:
        self._folder = folder
        self._meta = dict(meta)
        self._recipe = recipe
        self._problems = list(problems)
        self._stale = stale
        self._lock = threading.Lock()
        self._version: Version | None = None
        self._vectors: VectorStore | None = None
        self._has_vectors = meta.get("embedding") is not None and recipe.store != "none"

    @classmethod
    def open(
        cls,
        cache_dir: Path,
        sources: Sequence[Source] | None = None,
        *,
        chroma_url: str | None = None,
        progress: Progress | None = None,
    ) -> DocsIndex:
        """Open the index over ``sources``, building what is missing.

        Args:
            cache_dir: The user's cache folder; the index is a folder inside.
            sources: When left out, our notes and what ``rag build`` and ``rag fetch`` have added in this cache.
            chroma_url: A Chroma server for the vectors; when left out, ``STITCHCUDA_CHROMA_URL`` or an embedded store.
            progress: Called during a build with the stage, what is done and what there is in all.

        Raises:
            RetrievalError: There is nothing to index and no earlier index, or the folder cannot be written.
        """
        root = Path(cache_dir) / "docs-index"
        chosen = configured_sources(Path(cache_dir)) if sources is None else tuple(sources)
        pages, problems = read_pages(chosen, root / "digests.json")
        recipe = _recipe(chroma_url)
        digest = recipe.digest(pages)
        folder = root / f"v-{digest}"
        meta = read_meta(folder)
        if meta is not None:
            return cls(folder, meta, recipe, stale=False)
        try:
            with _build_lock(root, wait=latest_version(root) is None) as mine:
                meta = read_meta(folder)  # another process may have finished it
                if meta is None and mine:
                    build_version(root, digest, pages, problems, recipe, progress)
                    meta = read_meta(folder)
            if meta is not None:
                return cls(folder, meta, recipe, stale=False)
            reason = "a new version is being built by another process"
        except (RetrievalError, OSError) as error:
            reason = f"the new version could not be built: {one_line(error)}"
            if latest_version(root) is None:
                raise RetrievalError(f"the documentation index in {root} cannot be built: {one_line(error)}") from error
        latest = latest_version(root)
        old = read_meta(latest) if latest is not None else None
        if latest is None or old is None:
            raise RetrievalError(f"the documentation index in {root} cannot be opened: {reason}; try again later")
        # The old version is searched where it lies: its vectors may be of another kind than those of today's recipe.
        fits = old["recipe"] == recipe.parts and old["store"] == recipe.store
        served = recipe if fits else Recipe("none")
        if not fits:
            reason += "; the older one was made with other settings and is searched by words alone"
        return cls(latest, old, served, [reason], stale=True)

    def query(
        self,
        text: str,
        k: int = 5,
        where: Mapping[str, str | Sequence[str]] | None = None,
        mode: Mode = "hybrid",
    ) -> list[Hit]:
        """The ``k`` passages that fit ``text`` best, best first; fewer or none when nothing fits.

        Args:
            text: A question, an error message, or the result of ``build_query``.
            k: At most so many hits.
            where: Filters; each value is one string or several. ``source`` and ``page`` must be equal;
                ``architecture`` (``sm_90``) and ``toolkit`` (``13.0``) also let passages through that name none.
            mode: ``lexical`` or ``vector`` for one ranking alone.

        Raises:
            RetrievalError: An unknown filter, or a damaged index.
        """
        filters = _filters(where or {})
        tokens = tokenize(text)
        if not tokens or k < 1:
            return []
        version = self._load()
        depth = max(DEPTH, k)
        passes = version.allowed(filters)
        allowed = np.where(version.notes, NOTES_SCORE, 1.0) * passes

        def ranking(words: list[str]) -> list[str]:
            scores = version.bm25.scores(words) * allowed
            best = np.argsort(-scores, kind="stable")[:depth]
            return [version.raw[row]["id"] for row in best if scores[row] > 0]

        lexical = ranking(tokens) if mode != "vector" else None
        names: list[str] = []
        if mode == "hybrid" and (wanted := names_in(text)):
            found = ranking(wanted)
            # Where a name is defined comes before where it is mentioned.
            defined = [key for key in found if version.title(key).lower() in wanted]
            names = list(dict.fromkeys([*defined, *found]))
        vector = self._nearest(version, text, filters, passes, depth) if mode != "lexical" else None
        if mode == "vector" and vector is None:
            raise RetrievalError("there is no vector store to search: " + "; ".join(self.stats().problems))

        return fuse(lambda key: version.chunk(version.position[key]), lexical, vector, names, k)

    def stats(self) -> IndexStats:
        """What this index holds; cheap."""
        lines = [*self._meta["problems"], *self._problems]
        if not chroma_available():
            lines.append("chromadb is not installed: searching by words alone")
        return IndexStats(
            folder=str(self._folder),
            pages=len(self._meta["pages"]),
            chunks=self._meta["chunks"],
            mode="hybrid" if self._has_vectors else "lexical",
            embedding=self._meta["embedding"],
            store=self._meta["store"],
            sources=self._meta["sources"],
            stale=self._stale,
            problems=tuple(lines),
            build_s=self._meta["build_s"],
            reused_pages=self._meta["reused_pages"],
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

    def _load(self) -> Version:
        with self._lock:
            if self._version is None:
                self._version = Version.load(self._folder)
            return self._version

    def _nearest(
        self,
        version: Version,
        text: str,
        filters: Mapping[str, tuple[str, ...]],
        passes: npt.NDArray[np.bool_],
        depth: int,
    ) -> list[str] | None:
        """Ids by likeness; ``None`` when there is no vector store, or it failed, which is then said in ``stats``."""
        if not self._has_vectors:
            return None
        vector = embed([text])[0]
        if not np.any(vector):
            return []
        try:
            with self._lock:
                if self._vectors is None:
                    self._vectors = self._open_vectors(version)
                store = self._vectors
            # Most passages pass for any architecture, and the store takes 30 ms for a condition of so many parts.
            asked = {name: values for name, values in filters.items() if name != "architecture"}
            found = store.query(vector, min(REACH * depth, len(version.raw)), asked)
        except RetrievalError as error:
            self._has_vectors = False
            self._problems.append(f"searching by words alone: {one_line(error)}")
            return None
        # An id that is not among the chunks would mean a store of another version.
        scored = [
            (similarity * (NOTES_SIMILARITY if version.notes[version.position[key]] else 1.0), key)
            for key, similarity in found
            if similarity >= LEAST_SIMILARITY and key in version.position and passes[version.position[key]]
        ]
        return [key for _, key in sorted(scored, key=lambda pair: -pair[0])[:depth]]

    def _open_vectors(self, version: Version) -> VectorStore:
        if self._recipe.store == "embedded":
            return VectorStore.embedded(self._folder / "chroma")

        def fill() -> tuple[list[Chunk], npt.NDArray[np.float32]]:
            return [version.chunk(row) for row in range(len(version.raw))], read_vectors(self._folder)

        return VectorStore.server(self._recipe.url, self._meta["digest"], fill)


def _recipe(chroma_url: str | None) -> Recipe:
    url = chroma_url if chroma_url is not None else Environment().chroma_url
    if not chroma_available():
        return Recipe("none")
    return Recipe("server", url) if url else Recipe("embedded")


def _filters(where: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    unknown = sorted(set(where) - set(FILTERS))
    if unknown:
        raise RetrievalError(f"no such filter: {', '.join(unknown)}; there are {', '.join(FILTERS)}")
    return {key: (value,) if isinstance(value, str) else tuple(value) for key, value in where.items()}


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
