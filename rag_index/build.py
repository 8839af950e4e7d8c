"""Build a version of the index in a private folder, then rename it into place.

Pages that the latest version holds with the same content are not parsed or embedded again, and its vector store is
copied and only changed; a published version itself is never touched, because someone may be reading it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.files import write_json, write_text
from stitchcuda.rag_index.bm25 import Bm25
from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.embed import DIMENSIONS, EMBEDDING_VERSION, embed
from stitchcuda.rag_index.parsing import PARSER_VERSION, parse_page
from stitchcuda.rag_index.sources import Page
from stitchcuda.rag_index.tokens import TOKENS_VERSION, tokenize
from stitchcuda.rag_index.vectors import ServerCollections, write_vectors
from stitchcuda.rag_index.version import SCHEMA, latest_version, read_meta, read_tokens, read_vectors

__all__ = ["Progress", "Recipe", "build_version"]

KEPT_VERSIONS = 4
"""Older ones are removed; the ones kept serve other checkouts and processes that opened them earlier."""

Progress = Callable[[str, int, int], None]
"""Called with the stage (``reading``: bytes of pages; ``storing``: passages), what is done and what there is in all."""


@dataclass(frozen=True)
class Recipe:
    """What shapes an index beside its pages."""

    store: str
    """``embedded``, ``server`` or ``none``: where the vectors are searched."""
    url: str = ""
    """The server's; not part of the digest, so that moving the server rebuilds nothing."""

    @property
    def parts(self) -> list[Any]:
        """The versions of everything that turns pages into rows."""
        return [SCHEMA, PARSER_VERSION, TOKENS_VERSION, EMBEDDING_VERSION if self.store != "none" else None]

    def digest(self, pages: Sequence[Page]) -> str:
        """What an index over ``pages`` is named by."""
        text = json.dumps([self.parts, self.store, [page.digest for page in pages]])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class _Rows:
    """The rows of a version in the making, in the order of its pages."""

    chunks: list[Chunk] = field(default_factory=list)
    tokens: list[list[str]] = field(default_factory=list)
    vectors: list[npt.NDArray[np.float32]] = field(default_factory=list)
    spans: dict[str, list[int]] = field(default_factory=dict)
    reused: int = 0

    def add(self, digest: str, chunks: list[Chunk], tokens: list[list[str]], vectors: npt.NDArray[np.float32]) -> None:
        self.spans[digest] = [len(self.chunks), len(chunks)]
        self.chunks += chunks
        self.tokens += tokens
        self.vectors.append(vectors)


def build_version(
    root: Path,
    digest: str,
    pages: Sequence[Page],
    problems: Sequence[str],
    recipe: Recipe,
    progress: Progress | None = None,
) -> Path:
    """Build and publish the version ``digest`` under ``root``; the caller holds the lock.

    Raises:
        RetrievalError: No page could be read, or Chroma failed.
        OSError: The disk is full or read-only.
    """
    started = time.monotonic()
    for leftover in root.glob(".build-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    base = latest_version(root)
    notes = list(problems)
    rows = _read(pages, base, recipe, notes, progress)
    if not rows.chunks:
        raise RetrievalError("no documentation page could be read: " + ("; ".join(notes) or "the folders are empty"))
    folder = root / f".build-{os.getpid()}-{digest}"
    folder.mkdir(parents=True)
    try:
        write_text(folder / "chunks.jsonl", "".join(f"{chunk.model_dump_json()}\n" for chunk in rows.chunks))
        write_text(folder / "tokens.txt", "".join(f"{' '.join(tokens)}\n" for tokens in rows.tokens))
        Bm25.of(rows.tokens).save(folder)
        if recipe.store != "none":
            matrix = np.concatenate(rows.vectors)
            np.save(folder / "vectors.npy", matrix.astype(np.float16))
            _store(folder, digest, base, rows.chunks, matrix, recipe, progress)
        meta = {
            "schema": SCHEMA,
            "digest": digest,
            "recipe": recipe.parts,
            "store": recipe.store,
            "embedding": EMBEDDING_VERSION if recipe.store != "none" else None,
            "pages": rows.spans,
            "sources": _per_source(rows.chunks),
            "chunks": len(rows.chunks),
            "reused_pages": rows.reused,
            "problems": notes,
            "build_s": round(time.monotonic() - started, 3),
        }
        write_json(folder / "meta.json", meta)
        target = root / f"v-{digest}"
        if target.exists():  # a damaged one: it has no readable meta.json, or it would have been used
            shutil.rmtree(target)
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    write_text(root / "latest", target.name)
    dropped = _drop_old(root, keep=target)
    if dropped and recipe.store == "server":
        with closing(ServerCollections(recipe.url)) as server:
            server.remove(dropped)
    return target


def _read(
    pages: Sequence[Page], base: Path | None, recipe: Recipe, notes: list[str], progress: Progress | None
) -> _Rows:
    rows = _Rows()
    known = _Known(base, recipe)
    total, done = sum(page.size_bytes for page in pages), 0
    for page in pages:
        done += page.size_bytes
        if page.digest in rows.spans:
            continue
        if known.add_to(rows, page.digest):
            rows.reused += 1
        else:
            try:
                chunks = parse_page(page)
            except RetrievalError as error:
                notes.append(f"{page.source}/{page.name}: {one_line(error, 200)}, left out")
                continue
            texts = [chunk.search_text for chunk in chunks]
            vectors = embed(texts) if recipe.store != "none" else np.zeros((len(texts), DIMENSIONS), np.float32)
            rows.add(page.digest, chunks, [tokenize(text) for text in texts], vectors)
        if progress is not None:
            progress("reading", done, total)
    return rows


class _Known:
    """Rows of the latest version by page digest; none when it was made by another recipe or is damaged."""

    def __init__(self, base: Path | None, recipe: Recipe) -> None:
        self._spans: dict[str, list[int]] = {}
        meta = read_meta(base) if base is not None else None
        if base is None or meta is None or meta.get("recipe") != recipe.parts:
            return
        try:
            self._lines = (base / "chunks.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
            self._tokens = read_tokens(base)
            with_vectors = recipe.store != "none"
            self._matrix = read_vectors(base) if with_vectors else np.zeros((len(self._lines), DIMENSIONS), np.float32)
            if len(self._lines) == len(self._tokens) == len(self._matrix):
                self._spans = dict(meta["pages"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # a damaged version is no loss here: everything is built anew

    def add_to(self, rows: _Rows, digest: str) -> bool:
        if digest not in self._spans:
            return False
        start, count = self._spans[digest]
        part = slice(start, start + count)
        try:
            chunks = [Chunk.model_validate_json(line) for line in self._lines[part]]
        except ValueError:
            return False
        rows.add(digest, chunks, self._tokens[part], self._matrix[part])
        return True


def _store(
    folder: Path,
    digest: str,
    base: Path | None,
    chunks: Sequence[Chunk],
    matrix: npt.NDArray[np.float32],
    recipe: Recipe,
    progress: Progress | None,
) -> None:
    tick = None if progress is None else lambda done, total: progress("storing", done, total)
    if recipe.store == "server":
        with closing(ServerCollections(recipe.url)) as server:
            server.open(digest, lambda: (chunks, matrix), tick)
        return
    meta = read_meta(base) if base is not None else None
    if base is not None and meta and meta["recipe"] == recipe.parts and meta["store"] == "embedded":
        try:
            present = frozenset(
                json.loads(line)["id"] for line in (base / "chunks.jsonl").read_text(encoding="utf-8").splitlines()
            )
            shutil.copytree(base / "chroma", folder / "chroma")
            write_vectors(folder / "chroma", chunks, matrix, present=present, tick=tick)
        except (OSError, ValueError, KeyError, RetrievalError):
            # A damaged base: the store is written anew instead.
            shutil.rmtree(folder / "chroma", ignore_errors=True)
        else:
            return
    write_vectors(folder / "chroma", chunks, matrix, tick=tick)


def _per_source(chunks: Sequence[Chunk]) -> dict[str, dict[str, Any]]:
    counts: dict[str, dict[str, Any]] = {}
    pages: dict[str, set[str]] = {}
    for chunk in chunks:
        pages.setdefault(chunk.source, set()).add(chunk.page)
        entry = counts.setdefault(chunk.source, {"pages": 0, "chunks": 0, "toolkit": chunk.toolkit})
        entry["chunks"] += 1
        entry["pages"] = len(pages[chunk.source])
    return counts


def _drop_old(root: Path, keep: Path) -> list[str]:
    versions = sorted(root.glob("v-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    dropped = [path for path in versions if path != keep][KEPT_VERSIONS - 1 :]
    for old in dropped:
        shutil.rmtree(old, ignore_errors=True)
    return [path.name.removeprefix("v-") for path in dropped]
