"""Build a version of the index in a private folder, then rename it into place.

Comes in: pages. Goes out: a folder ``v-<digest>`` with ``chunks.jsonl``, ``vectors.npy``, ``chroma/`` and, last,
``meta.json``. Pages that an earlier version holds with the same content are not parsed or embedded again; the Chroma
collection itself is written anew from the stored vectors, because a published version is never changed (someone may
be reading it).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stitchcuda.core.errors import RetrievalError
from stitchcuda.core.files import write_json, write_text
from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.embed import DIMENSIONS, EMBEDDING_VERSION, embed
from stitchcuda.rag_index.markdown import PARSER_VERSION, parse_markdown
from stitchcuda.rag_index.sources import Page
from stitchcuda.rag_index.tokens import TOKENS_VERSION, tokenize
from stitchcuda.rag_index.vectors import write_vectors

__all__ = ["Row", "build_version", "index_digest", "read_meta", "read_rows"]

SCHEMA = 1
KEPT_VERSIONS = 4
"""Older ones are removed; the ones kept serve other checkouts and processes that opened them earlier."""


@dataclass(frozen=True)
class Row:
    """A chunk and its tokens."""

    chunk: Chunk
    tokens: tuple[str, ...]


def index_digest(pages: Sequence[Page], *, with_vectors: bool) -> str:
    """What an index over ``pages`` is named by: their content and everything that shapes the result."""
    recipe = f"{SCHEMA}|{PARSER_VERSION}|{TOKENS_VERSION}|{EMBEDDING_VERSION if with_vectors else 'none'}|"
    return hashlib.sha256((recipe + "|".join(page.digest for page in pages)).encode()).hexdigest()[:16]


def read_meta(folder: Path) -> dict[str, Any] | None:
    """``meta.json`` of a version; ``None`` when the version is not whole."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) and meta.get("schema") == SCHEMA else None


def read_rows(folder: Path) -> list[Row]:
    """The chunks of a version."""
    try:
        with (folder / "chunks.jsonl").open(encoding="utf-8") as stream:
            lines = [json.loads(line) for line in stream]
        return [Row(Chunk(**line["chunk"]), tuple(line["tokens"].split())) for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RetrievalError(f"the documentation index {folder} is damaged; remove it to rebuild it") from error


def build_version(
    root: Path,
    digest: str,
    pages: Sequence[Page],
    problems: Sequence[str],
    *,
    with_vectors: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Build and publish the version ``digest`` under ``root``; the caller holds the lock.

    Raises:
        RetrievalError: No page could be read, or Chroma failed.
        OSError: The disk is full or read-only.
    """
    started = time.monotonic()
    for leftover in root.glob(".build-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    known = _known_pages(root, with_vectors=with_vectors)
    rows: dict[str, Row] = {}
    vectors: dict[str, npt.NDArray[np.float32]] = {}
    spans: dict[str, list[str]] = {}
    notes = list(problems)
    reused = 0
    for index, page in enumerate(pages):
        if page.digest in known:
            page_rows, page_vectors = known[page.digest]
            reused += 1
        else:
            try:
                text = page.data.decode("utf-8-sig")
            except UnicodeDecodeError:
                notes.append(f"{page.source}/{page.name}: not UTF-8 text, left out")
                continue
            chunks = parse_markdown(text, source=page.source, page=page.name)
            page_rows = [Row(chunk, tuple(tokenize(chunk.search_text))) for chunk in chunks]
            page_vectors = embed([chunk.search_text for chunk in chunks]) if with_vectors else _no_vectors()
        spans[page.digest] = [row.chunk.id for row in page_rows]
        for position, row in enumerate(page_rows):
            rows[row.chunk.id] = row
            if with_vectors:
                vectors[row.chunk.id] = page_vectors[position]
        if progress is not None:
            progress(index + 1, len(pages))
    if not rows:
        raise RetrievalError("no documentation page could be read: " + ("; ".join(notes) or "the folders are empty"))

    folder = root / f".build-{os.getpid()}-{digest}"
    folder.mkdir(parents=True)
    try:
        lines = (
            json.dumps({"chunk": row.chunk.model_dump(mode="json"), "tokens": " ".join(row.tokens)}, ensure_ascii=False)
            for row in rows.values()
        )
        write_text(folder / "chunks.jsonl", "\n".join(lines) + "\n")
        if with_vectors:
            matrix = np.stack([vectors[key] for key in rows])
            np.save(folder / "vectors.npy", matrix)
            write_vectors(folder / "chroma", [row.chunk for row in rows.values()], matrix)
        meta = {
            "schema": SCHEMA,
            "digest": digest,
            "parser_version": PARSER_VERSION,
            "tokens_version": TOKENS_VERSION,
            "embedding": EMBEDDING_VERSION if with_vectors else None,
            "pages": spans,
            "chunks": len(rows),
            "reused_pages": reused,
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
    _drop_old(root, keep=target)
    return target


def _known_pages(root: Path, *, with_vectors: bool) -> dict[str, tuple[list[Row], npt.NDArray[np.float32]]]:
    """Parsed and embedded pages of the latest version, by page digest; empty when it was made by another recipe."""
    try:
        folder = root / (root / "latest").read_text().strip()
    except OSError:
        return {}
    meta = read_meta(folder)
    recipe = (PARSER_VERSION, TOKENS_VERSION, EMBEDDING_VERSION if with_vectors else None)
    if meta is None or (meta.get("parser_version"), meta.get("tokens_version"), meta.get("embedding")) != recipe:
        return {}
    try:
        rows = {row.chunk.id: (position, row) for position, row in enumerate(read_rows(folder))}
        matrix = np.load(folder / "vectors.npy") if with_vectors else _no_vectors()
        if with_vectors and matrix.shape != (len(rows), DIMENSIONS):
            return {}
        known = {}
        for digest, ids in meta["pages"].items():
            found = [rows[key] for key in ids]
            part = matrix[[position for position, _ in found]] if with_vectors else _no_vectors()
            known[digest] = ([row for _, row in found], part)
    except (RetrievalError, OSError, ValueError, KeyError):
        return {}  # a damaged version is no loss here: everything is built anew
    return known


def _no_vectors() -> npt.NDArray[np.float32]:
    return np.zeros((0, DIMENSIONS), dtype=np.float32)


def _drop_old(root: Path, keep: Path) -> None:
    versions = sorted(root.glob("v-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in [path for path in versions if path != keep][KEPT_VERSIONS - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
