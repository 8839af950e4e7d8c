"""No network in this folder: any connection that is not a Unix socket fails the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitchcuda.rag_index import DocsIndex


@pytest.fixture(autouse=True)
def refused_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def guard(name: str) -> None:
        real = getattr(socket.socket, name)

        def refuse(self: socket.socket, address: object) -> object:
            if self.family != socket.AF_UNIX:
                raise AssertionError(f"network access to {address!r}")
            return real(self, address)

        monkeypatch.setattr(socket.socket, name, refuse)

    guard("connect")
    guard("connect_ex")


@pytest.fixture(scope="session")
def notes_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("docs-cache")
    DocsIndex.open(cache).close()
    return cache


@pytest.fixture(scope="session")
def notes_index(notes_cache: Path) -> Iterator[DocsIndex]:
    with DocsIndex.open(notes_cache) as index:
        yield index
