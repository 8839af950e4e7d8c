"""One whole version of the index on disk, and reading it.

``v-<digest>/``: ``chunks.jsonl`` (a chunk a line), ``tokens.txt`` (its tokens, same line), ``lexical.*`` (BM25),
``vectors.npy`` (one row a chunk), ``chroma/`` and, written last, ``meta.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stitchcuda.core.errors import RetrievalError, boundary
from stitchcuda.rag_index.bm25 import Bm25
from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.embed import DIMENSIONS

__all__ = ["SCHEMA", "Version", "latest_version", "read_meta", "read_tokens", "read_vectors"]

SCHEMA = 2
_DAMAGE = (OSError, ValueError, KeyError, TypeError)


def read_meta(folder: Path) -> dict[str, Any] | None:
    """``meta.json`` of a version; ``None`` when the version is not whole."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) and meta.get("schema") == SCHEMA else None


def latest_version(root: Path) -> Path | None:
    """The version published last, if it is whole; else the newest whole one."""
    try:
        named = root / (root / "latest").read_text().strip()
    except OSError:
        named = None
    if named is not None and read_meta(named) is not None:
        return named
    whole = [path for path in root.glob("v-*") if read_meta(path) is not None]
    return max(whole, key=lambda path: path.stat().st_mtime, default=None)


def read_tokens(folder: Path) -> list[list[str]]:
    """The tokens of each chunk."""
    return [line.split(" ") if line else [] for line in (folder / "tokens.txt").read_text().split("\n")[:-1]]


def read_vectors(folder: Path) -> npt.NDArray[np.float32]:
    """``float32[chunks, DIMENSIONS]``.

    Raises:
        OSError, ValueError: Missing, damaged, or of another embedding.
    """
    matrix: npt.NDArray[np.float32] = np.load(folder / "vectors.npy").astype(np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != DIMENSIONS:
        raise ValueError(f"vectors of shape {matrix.shape}")
    return matrix


@dataclass(frozen=True)
class Version:
    """What a query needs, loaded."""

    raw: list[dict[str, Any]]
    """The chunks as JSON: making thousands of records would take longer than the search."""
    position: dict[str, int]
    """Of each chunk id."""
    bm25: Bm25
    notes: npt.NDArray[np.bool_]
    """``bool[chunks]``: which ones are our notes."""
    masks: dict[tuple[tuple[str, tuple[str, ...]], ...], npt.NDArray[np.bool_]] = field(default_factory=dict)
    """What passed the filters of earlier queries."""

    @classmethod
    def load(cls, folder: Path) -> Version:
        """Read a version.

        Raises:
            RetrievalError: It is damaged.
        """
        hint = f"the documentation index {folder} is damaged; remove it to rebuild it"
        with boundary(RetrievalError, hint, *_DAMAGE):
            with (folder / "chunks.jsonl").open(encoding="utf-8") as stream:
                raw = [json.loads(line) for line in stream]
            position = {chunk["id"]: row for row, chunk in enumerate(raw)}
            notes = np.array([chunk["source"] == "notes" for chunk in raw], dtype=np.bool_)
            return cls(raw, position, Bm25.load(folder), notes)

    def chunk(self, position: int) -> Chunk:
        """The chunk in a row."""
        return Chunk.model_validate(self.raw[position])

    def title(self, key: str) -> str:
        """The last heading of a chunk, for a header's passage the name that it declares."""
        return str(self.raw[self.position[key]]["headings"][-1])

    def allowed(self, where: Mapping[str, tuple[str, ...]]) -> npt.NDArray[np.bool_]:
        """``bool[chunks]``: which ones pass the filters; remembered, since a run asks with the same ones again."""
        key = tuple(sorted(where.items()))
        if key not in self.masks:
            self.masks[key] = self._mask(where)
        return self.masks[key]

    def _mask(self, where: Mapping[str, tuple[str, ...]]) -> npt.NDArray[np.bool_]:
        mask = np.ones(len(self.raw), dtype=np.bool_)
        for name, values in where.items():
            wanted = set(values)
            if name == "architecture":
                passes = [
                    not chunk["architectures"] or bool(wanted & set(chunk["architectures"])) for chunk in self.raw
                ]
            elif name == "toolkit":
                passes = [not chunk["toolkit"] or chunk["toolkit"] in wanted for chunk in self.raw]
            else:
                passes = [chunk[name] in wanted for chunk in self.raw]
            mask &= np.array(passes, dtype=np.bool_)
        return mask
