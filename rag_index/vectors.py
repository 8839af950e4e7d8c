"""The vector half of the index: Chroma, embedded, opened on first use.

Chroma takes 1.5 s to import, so this module imports it inside. Its own embedding function would download a model, so
vectors are always given. Everything that Chroma can raise ends as ``RetrievalError`` here.
"""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from stitchcuda.core.errors import RetrievalError, boundary
from stitchcuda.rag_index.chunks import Chunk

if TYPE_CHECKING:
    from chromadb.api.client import Client

__all__ = ["VectorStore", "chroma_available", "write_vectors"]

COLLECTION = "docs"
BATCH = 5000
"""Chroma refuses batches above 5,461."""


def chroma_available() -> bool:
    """Whether chromadb is installed; does not import it."""
    return importlib.util.find_spec("chromadb") is not None


def _client(folder: Path) -> Client:
    import chromadb
    from chromadb.config import Settings

    # The declared result is an interface without ``close``; the object is a Client.
    return cast("Client", chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False)))


def _expected() -> tuple[type[BaseException], ...]:
    from chromadb.errors import ChromaError

    return (ChromaError, sqlite3.Error, OSError, ValueError, RuntimeError)


def write_vectors(folder: Path, chunks: Sequence[Chunk], vectors: npt.NDArray[np.float32]) -> None:
    """Write a new collection into ``folder`` and close it, so that the folder can be renamed."""
    with boundary(RetrievalError, f"the vector store {folder} cannot be written", *_expected()):
        client = _client(folder)
        try:
            collection = client.create_collection(
                COLLECTION, embedding_function=None, metadata={"hnsw:space": "cosine"}
            )
            for start in range(0, len(chunks), BATCH):
                part = chunks[start : start + BATCH]
                collection.add(
                    ids=[chunk.id for chunk in part],
                    embeddings=vectors[start : start + BATCH],
                    metadatas=[{"source": chunk.source, "page": chunk.page} for chunk in part],
                )
        finally:
            client.close()


class VectorStore:
    """A collection opened for reading."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            # Chroma would make an empty store here and report no error.
            raise RetrievalError(f"the vector store {folder} is missing; remove its parent folder to rebuild it")
        with boundary(RetrievalError, f"the vector store {folder} cannot be opened", *_expected()):
            self._client = _client(folder)
            self._collection = self._client.get_collection(COLLECTION, embedding_function=None)

    def query(
        self, vector: npt.NDArray[np.float32], n: int, where: dict[str, tuple[str, ...]]
    ) -> list[tuple[str, float]]:
        """The ``n`` nearest chunks as (id, cosine similarity), nearest first."""
        conditions: list[dict[str, Any]] = [{key: {"$in": list(values)}} for key, values in where.items()]
        clause: Any = {"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None
        with boundary(RetrievalError, "the vector store cannot be queried", *_expected()):
            found = self._collection.query(
                query_embeddings=vector[None, :], n_results=n, where=clause, include=["distances"]
            )
        distances = found["distances"]
        if distances is None:
            return []
        return [(key, 1.0 - distance) for key, distance in zip(found["ids"][0], distances[0], strict=True)]

    def close(self) -> None:
        self._client.close()
