"""The vector half of the index: Chroma, embedded or on a server, opened on first use.

Chroma takes 1.5 s to import, so this module imports it inside. Its own embedding function would download a model, so
vectors are always given. Everything that Chroma can raise ends as ``RetrievalError`` here.
"""

from __future__ import annotations

import importlib.util
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from stitchcuda.core.errors import RetrievalError, boundary
from stitchcuda.rag_index.chunks import Chunk

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

__all__ = ["ServerCollections", "VectorStore", "chroma_available", "write_vectors"]

COLLECTION = "docs"
BATCH = 5000
"""Chroma refuses batches above 5,461."""
ABANDONED_S = 3600.0
"""A half-written collection on a server is removed when it is older than this; a younger one may be in the making."""

Vectors = npt.NDArray[np.float32]
Tick = Callable[[int, int], None]


def chroma_available() -> bool:
    """Whether chromadb is installed; does not import it."""
    return importlib.util.find_spec("chromadb") is not None


def _embedded(folder: Path) -> Client:
    import chromadb
    from chromadb.config import Settings

    # The declared result is an interface without ``close``; the object is a Client.
    return cast("Client", chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False)))


def _expected() -> tuple[type[BaseException], ...]:
    import httpx
    from chromadb.errors import ChromaError

    return (ChromaError, sqlite3.Error, httpx.HTTPError, OSError, ValueError, RuntimeError)


def _metadata(chunk: Chunk) -> dict[str, str]:
    """What the store filters by; what the architecture excludes is dropped from its answer instead."""
    return {"source": chunk.source, "page": chunk.page, "toolkit": chunk.toolkit}


def _clause(where: Mapping[str, Sequence[str]]) -> Any:
    conditions: list[dict[str, Any]] = [
        {name: {"$in": ["", *values] if name == "toolkit" else list(values)}} for name, values in where.items()
    ]
    return {"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None


def _add(collection: Collection, chunks: Sequence[Chunk], vectors: Vectors, tick: Tick | None) -> None:
    size = min(BATCH, 500) if tick else BATCH
    for start in range(0, len(chunks), size):
        part = chunks[start : start + size]
        collection.add(
            ids=[chunk.id for chunk in part],
            embeddings=vectors[start : start + size],
            metadatas=[_metadata(chunk) for chunk in part],
        )
        if tick:
            tick(min(start + size, len(chunks)), len(chunks))


def write_vectors(
    folder: Path,
    chunks: Sequence[Chunk],
    vectors: Vectors,
    *,
    present: frozenset[str] = frozenset(),
    tick: Tick | None = None,
) -> None:
    """Bring the collection in ``folder`` to ``chunks`` and close it, so that the folder can be renamed.

    Args:
        folder: New, or the copy of an earlier store.
        chunks: All chunks that the collection shall hold.
        vectors: Their vectors, ``float32[chunks, DIMENSIONS]``.
        present: Ids that the copied store holds.
        tick: Called with (chunks stored, chunks to store).
    """
    wanted = {chunk.id for chunk in chunks}
    new = [position for position, chunk in enumerate(chunks) if chunk.id not in present]
    gone = sorted(present - wanted)
    with boundary(RetrievalError, f"the vector store {folder} cannot be written", *_expected()):
        client = _embedded(folder)
        try:
            if present:
                collection = client.get_collection(COLLECTION, embedding_function=None)
            else:
                collection = client.create_collection(
                    COLLECTION, embedding_function=None, metadata={"hnsw:space": "cosine"}
                )
            for start in range(0, len(gone), BATCH):
                collection.delete(ids=gone[start : start + BATCH])
            _add(collection, [chunks[position] for position in new], vectors[new], tick)
            if collection.count() != len(chunks):
                raise RetrievalError(f"the vector store {folder} holds {collection.count()} of {len(chunks)} passages")
        finally:
            client.close()


def _close_http(client: Any) -> None:
    """Close an HTTP client of chromadb, whose own ``close`` (1.5) leaves its connection pools to the collector."""
    servers = [getattr(part, "_server", None) for part in (client, getattr(client, "_admin_client", None))]
    client.close()
    for session in (getattr(server, "_session", None) for server in servers):
        if session is not None:
            session.close()


class ServerCollections:
    """The collections of one Chroma server, one per version of the index."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RetrievalError(f"STITCHCUDA_CHROMA_URL={url} is not of the form http://host:port")
        self.url = url
        with boundary(RetrievalError, f"the Chroma server {url} does not answer", *_expected()):
            import chromadb
            from chromadb.config import Settings

            client = chromadb.HttpClient(
                host=parts.hostname,
                port=parts.port or (443 if parts.scheme == "https" else 80),
                ssl=parts.scheme == "https",
                settings=Settings(anonymized_telemetry=False),
            )
            self._client = cast("Client", client)  # declared as an interface without ``close``

    def open(self, digest: str, fill: Callable[[], tuple[Sequence[Chunk], Vectors]], tick: Tick | None) -> Collection:
        """The collection of a version; written from ``fill`` when the server has none (a new or emptied server)."""
        from chromadb.errors import NotFoundError

        name = f"stitchcuda-{digest}"
        with boundary(RetrievalError, f"the Chroma server {self.url} failed", *_expected()):
            try:
                return self._client.get_collection(name, embedding_function=None)
            except NotFoundError:
                pass
            for listed in self._client.list_collections():
                begun = (listed.metadata or {}).get("begun_s")
                if listed.name.startswith("stitchcuda-writing-") and time.time() - float(begun or 0) > ABANDONED_S:
                    self._client.delete_collection(listed.name)
            chunks, vectors = fill()
            metadata = {"hnsw:space": "cosine", "begun_s": time.time()}
            temporary = f"stitchcuda-writing-{uuid.uuid4().hex[:12]}"
            collection = self._client.create_collection(temporary, embedding_function=None, metadata=metadata)
            # Readers find the name only once all is there; after a kill the temporary one is left for a later cleaning.
            _add(collection, chunks, vectors, tick)
            collection.modify(name=name)
            return self._client.get_collection(name, embedding_function=None)

    def names(self) -> list[str]:
        """The collections of this project on the server."""
        with boundary(RetrievalError, f"the Chroma server {self.url} failed", *_expected()):
            listed = [collection.name for collection in self._client.list_collections()]
        return sorted(name for name in listed if name.startswith("stitchcuda-"))

    def remove(self, digests: Sequence[str]) -> None:
        """Remove the collections of dropped versions; those that are not there are no matter."""
        from chromadb.errors import NotFoundError

        with boundary(RetrievalError, f"the Chroma server {self.url} failed", *_expected()):
            for digest in digests:
                try:
                    self._client.delete_collection(f"stitchcuda-{digest}")
                except NotFoundError:
                    continue

    def close(self) -> None:
        """Close the connections."""
        _close_http(self._client)


class VectorStore:
    """A collection opened for reading."""

    def __init__(self, collection: Collection, close: Callable[[], None]) -> None:
        self._collection = collection
        self.close = close

    @classmethod
    def embedded(cls, folder: Path) -> VectorStore:
        """The store in ``folder``."""
        if not folder.is_dir():
            # Chroma would make an empty store here and report no error.
            raise RetrievalError(f"the vector store {folder} is missing; remove its parent folder to rebuild it")
        with boundary(RetrievalError, f"the vector store {folder} cannot be opened", *_expected()):
            client = _embedded(folder)
            return cls(client.get_collection(COLLECTION, embedding_function=None), client.close)

    @classmethod
    def server(cls, url: str, digest: str, fill: Callable[[], tuple[Sequence[Chunk], Vectors]]) -> VectorStore:
        """The version's collection on a Chroma server."""
        server = ServerCollections(url)
        try:
            return cls(server.open(digest, fill, None), server.close)
        except RetrievalError:
            server.close()
            raise

    def query(self, vector: Vectors, n: int, where: Mapping[str, Sequence[str]]) -> list[tuple[str, float]]:
        """The ``n`` nearest chunks as (id, cosine similarity), nearest first."""
        with boundary(RetrievalError, "the vector store cannot be queried", *_expected()):
            found = self._collection.query(
                query_embeddings=vector[None, :], n_results=n, where=_clause(where), include=["distances"]
            )
        distances = found["distances"]
        if distances is None:
            return []
        return [(key, 1.0 - distance) for key, distance in zip(found["ids"][0], distances[0], strict=True)]
