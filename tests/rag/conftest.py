"""No network in this folder: any connection that is not a Unix socket fails the test, unless it asks for loopback."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitchcuda.nvidia_docs import NOTES_DIR
from stitchcuda.rag_index import DocsIndex, Source


@pytest.fixture
def loopback() -> None:
    """For tests with a server of their own: connections to 127.0.0.1 are let through."""


@pytest.fixture(autouse=True)
def refused_network(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    local = "loopback" in request.fixturenames

    def guard(name: str) -> None:
        real = getattr(socket.socket, name)

        def refuse(self: socket.socket, address: object) -> object:
            loopback = isinstance(address, tuple) and address[0] == "127.0.0.1"
            if self.family != socket.AF_UNIX and not (local and loopback):
                raise AssertionError(f"network access to {address!r}")
            return real(self, address)

        monkeypatch.setattr(socket.socket, name, refuse)

    guard("connect")
    guard("connect_ex")


@pytest.fixture(scope="session")
def notes_source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The notes as they are now: a page that is edited during the tests must not rebuild anything."""
    folder = tmp_path_factory.mktemp("notes")
    for page in NOTES_DIR.glob("*.md"):
        shutil.copy(page, folder)
    return Source("notes", folder)


@pytest.fixture(scope="session")
def notes_cache(tmp_path_factory: pytest.TempPathFactory, notes_source: Source) -> Path:
    cache = tmp_path_factory.mktemp("docs-cache")
    DocsIndex.open(cache, [notes_source]).close()
    return cache


@pytest.fixture(scope="session")
def notes_index(notes_cache: Path, notes_source: Source) -> Iterator[DocsIndex]:
    with DocsIndex.open(notes_cache, [notes_source]) as index:
        yield index
