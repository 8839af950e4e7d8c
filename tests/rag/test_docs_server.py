"""Vectors on a Chroma server: the same answers, a server that is away, emptied, or shared."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stitchcuda.core.errors import RetrievalError
from stitchcuda.rag_index import DocsIndex, Source
from stitchcuda.rag_index.vectors import ServerCollections

pytestmark = pytest.mark.usefixtures("loopback")

PAGES = {
    "alpha.md": "# Alpha\n\nA tile moves through the alpha unit, on sm_90.\n",
    "beta.md": "# Beta\n\nA tile rests in the beta unit.\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    chroma = Path(sys.executable).with_name("chroma")
    folder = tmp_path_factory.mktemp("chroma-server")
    arguments = ["run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "ANONYMIZED_TELEMETRY": "False"}
    process = subprocess.Popen(
        [chroma, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=folder
    )
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the Chroma server ended"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def pages(tmp_path: Path) -> list[Source]:
    folder = tmp_path / "pages"
    folder.mkdir()
    for name, text in PAGES.items():
        (folder / name).write_text(text)
    return [Source("pages", folder)]


def test_a_server_gives_the_same_answers_and_is_filled_again_when_emptied(
    server: str, pages: list[Source], tmp_path: Path
) -> None:
    with DocsIndex.open(tmp_path / "embedded", pages) as index:
        expected = index.query("tile in the beta unit", mode="vector")
        filtered = index.query("tile unit", mode="vector", where={"architecture": "sm_80"})
    with DocsIndex.open(tmp_path / "cache", pages, chroma_url=server) as index:
        assert index.stats().store == "server"
        assert not (Path(index.stats().folder) / "chroma").exists()
        assert index.query("tile in the beta unit", mode="vector") == expected
        assert index.query("tile unit", mode="vector", where={"architecture": "sm_80"}) == filtered
        assert [hit.page for hit in filtered] == ["beta.md"]
        name = f"stitchcuda-{Path(index.stats().folder).name.removeprefix('v-')}"
    with closing(ServerCollections(server)) as store:
        assert store.names() == [name]
        store.remove([name.removeprefix("stitchcuda-")])
        assert store.names() == []
    with DocsIndex.open(tmp_path / "cache", pages, chroma_url=server) as index:
        assert index.query("tile in the beta unit", mode="vector") == expected


def test_the_environment_names_the_server(
    server: str, pages: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STITCHCUDA_CHROMA_URL", server)
    with DocsIndex.open(tmp_path / "cache", pages) as index:
        assert index.stats().store == "server"
        assert index.query("beta", mode="vector")[0].page == "beta.md"


def test_a_server_that_went_away_leaves_the_search_by_words(server: str, pages: list[Source], tmp_path: Path) -> None:
    DocsIndex.open(tmp_path / "cache", pages, chroma_url=server).close()
    # The same version, as another process sees it when the server is gone.
    with DocsIndex.open(tmp_path / "cache", pages, chroma_url="http://127.0.0.1:9") as index:
        assert index.query("beta unit")[0].page == "beta.md"
        assert index.stats().mode == "lexical"
        assert "the Chroma server http://127.0.0.1:9 does not answer" in index.stats().problems[-1]
        with pytest.raises(RetrievalError, match="no vector store"):
            index.query("beta unit", mode="vector")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "127.0.0.1:8000", "ftp://127.0.0.1"])
def test_no_server_at_the_first_build_is_one_line(pages: list[Source], tmp_path: Path, url: str) -> None:
    with pytest.raises(RetrievalError, match=r"does not answer|is not of the form http://host:port") as caught:
        DocsIndex.open(tmp_path / "cache", pages, chroma_url=url)
    assert "\n" not in str(caught.value)
    # An index that was built before keeps serving, by words.
    DocsIndex.open(tmp_path / "cache", pages).close()
    with DocsIndex.open(tmp_path / "cache", pages, chroma_url=url) as index:
        assert index.stats().stale
        assert index.query("beta unit")[0].page == "beta.md"
