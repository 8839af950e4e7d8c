"""Building, opening and querying the documentation index: what is found, kept, rebuilt and survived."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stitchcuda.core.errors import RetrievalError
from stitchcuda.rag_index import DocsIndex, Hit, Source
from stitchcuda.rag_index import build as build_module
from stitchcuda.rag_index import index as index_module

PAGE = "# {name}\n\nTopics: {name}\n\n## Use\n\nThe {name} instruction moves tiles. [ptx: {name}]\n"


def write_pages(folder: Path, names: list[str]) -> tuple[Source]:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.md").write_text(PAGE.format(name=name))
    return (Source("pages", folder),)


def pages_of(hits: list[Hit]) -> list[str]:
    return [hit.page for hit in hits]


def test_an_exact_identifier_comes_first_and_is_cited(notes_index: DocsIndex) -> None:
    hit = notes_index.query("CUBLASLT_EPILOGUE_RELU_BIAS")[0]
    assert hit.citation == "cublaslt-epilogues.md › Which exist"
    assert "CUBLASLT_EPILOGUE_RELU_BIAS" in hit.text
    assert any(reference.startswith("cublas: ") for reference in hit.references)
    assert "[cublas:" not in hit.text
    assert hit.mode == "hybrid"


@pytest.mark.parametrize("text", ["", "   ", "the of and", "¿?", "日本語"])
def test_nothing_to_search_for_finds_nothing(notes_index: DocsIndex, text: str) -> None:
    assert notes_index.query(text) == []


def test_filters(notes_index: DocsIndex) -> None:
    hits = notes_index.query("shared memory tile", where={"page": ["softmax.md", "wmma.md"], "source": "notes"})
    assert hits
    assert set(pages_of(hits)) <= {"softmax.md", "wmma.md"}
    assert notes_index.query("shared memory", where={"source": "elsewhere"}) == []
    with pytest.raises(RetrievalError, match="no such filter: colour"):
        notes_index.query("x", where={"colour": "red"})


def test_queries_are_quick_and_thread_safe(notes_index: DocsIndex) -> None:
    expected = notes_index.query("softmax running maximum")
    results: list[list[Hit]] = []
    threads = [
        threading.Thread(target=lambda: results.append(notes_index.query("softmax running maximum"))) for _ in range(8)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (time.perf_counter() - started) / 8 < 0.25
    assert all(result == expected for result in results)


def test_reopening_is_quick_and_imports_neither_chroma_nor_torch(notes_cache: Path, notes_source: Source) -> None:
    code = (
        "import sys, time; from pathlib import Path; from stitchcuda.rag_index import DocsIndex, Source\n"
        "sources = [Source('notes', Path(sys.argv[2]))]\n"
        "started = time.perf_counter(); index = DocsIndex.open(Path(sys.argv[1]), sources)\n"
        "print(time.perf_counter() - started, index.stats().chunks)\n"
        "assert not {'torch', 'chromadb'} & set(sys.modules)\n"
        "index.query('softmax'); assert 'torch' not in sys.modules and 'chromadb' in sys.modules\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(notes_cache), str(notes_source.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, chunks = result.stdout.split()
    assert float(seconds) <= 0.2
    assert int(chunks) > 40


def test_only_changed_pages_are_read_again(tmp_path: Path) -> None:
    sources = write_pages(tmp_path / "pages", ["alpha", "beta", "gamma"])
    cache = tmp_path / "cache"
    with DocsIndex.open(cache, sources) as first:
        before = {hit.page: hit.chunk_id for hit in first.query("instruction moves tiles")}
        (tmp_path / "pages" / "beta.md").write_text("# beta\n\nA new text about swizzles.\n")
        (tmp_path / "pages" / "gamma.md").unlink()
        with DocsIndex.open(cache, sources) as second:
            assert second.stats().reused_pages == 1
            assert pages_of(second.query("swizzles")) == ["beta.md"]
            assert second.query("gamma") == []
            after = {hit.page: hit.chunk_id for hit in second.query("instruction moves tiles")}
            assert after["alpha.md"] == before["alpha.md"]
        # A reader that opened the older version goes on with it.
        assert pages_of(first.query("gamma"))[0] == "gamma.md"
    # Going back finds the older version whole: nothing is built.
    write_pages(tmp_path / "pages", ["beta", "gamma"])
    with DocsIndex.open(cache, sources) as third:
        assert third.stats().folder == first.stats().folder


def test_a_changed_embedding_rebuilds_and_the_old_index_serves_if_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = write_pages(tmp_path / "pages", ["alpha", "beta"])
    cache = tmp_path / "cache"
    with DocsIndex.open(cache, sources) as index:
        old = index.stats()
    monkeypatch.setattr(build_module, "EMBEDDING_VERSION", "other-1")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(build_module, "write_vectors", full)
        with DocsIndex.open(cache, sources) as index:
            assert index.stats().stale
            assert "No space left" in index.stats().problems[0]
            assert "searched by words alone" in index.stats().problems[0]
            assert {hit.mode for hit in index.query("alpha")} == {"lexical"}
    with DocsIndex.open(cache, sources) as index:
        assert (index.stats().embedding, index.stats().reused_pages) == ("other-1", 0)
        assert index.stats().folder != old.folder
        assert index.query("alpha")[0].mode == "hybrid"


BUILDER = """
import sys, time
from pathlib import Path
from stitchcuda.rag_index import DocsIndex, Source

def hang(stage, done, total):
    print("building", flush=True)
    time.sleep(120)

DocsIndex.open(Path(sys.argv[1]), [Source("pages", Path(sys.argv[2]))], progress=hang)
"""


def test_the_old_index_serves_during_a_build_and_after_its_kill(tmp_path: Path) -> None:
    sources = write_pages(tmp_path / "pages", ["alpha"])
    cache = tmp_path / "cache"
    DocsIndex.open(cache, sources).close()
    write_pages(tmp_path / "pages", ["beta"])
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(cache), str(tmp_path / "pages")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "building\n"
        with DocsIndex.open(cache, sources) as meanwhile:
            assert meanwhile.stats().stale
            assert "another process" in meanwhile.stats().problems[0]
            assert pages_of(meanwhile.query("alpha")) == ["alpha.md"]
        builder.send_signal(signal.SIGKILL)
    finally:
        builder.kill()
        builder.communicate()
    with DocsIndex.open(cache, sources) as after:
        assert not after.stats().stale
        assert pages_of(after.query("beta"))[0] == "beta.md"


def test_half_written_leftovers_are_cleared(tmp_path: Path) -> None:
    sources = write_pages(tmp_path / "pages", ["alpha"])
    cache = tmp_path / "cache"
    with DocsIndex.open(cache, sources) as index:
        folder = Path(index.stats().folder)
    (folder / "meta.json").write_text('{"schema": 2, "dig')
    shutil.copytree(folder, folder.parent / ".build-1-x")
    with DocsIndex.open(cache, sources) as index:
        assert pages_of(index.query("alpha")) == ["alpha.md"]
    assert not list(folder.parent.glob(".build-*"))


def test_a_broken_page_is_named_and_left_out(tmp_path: Path) -> None:
    sources = write_pages(tmp_path / "pages", ["alpha"])
    (tmp_path / "pages" / "broken.md").write_bytes(b"# \xff\xfe broken")
    with DocsIndex.open(tmp_path / "cache", sources) as index:
        assert index.stats().problems == ("pages/broken.md: not UTF-8 text, left out",)
        assert pages_of(index.query("alpha")) == ["alpha.md"]


def test_an_empty_folder_is_one_line_and_the_old_index_keeps_serving(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(RetrievalError, match="no documentation page could be read") as caught:
        DocsIndex.open(tmp_path / "cache", [Source("pages", empty)])
    assert "\n" not in str(caught.value)
    with pytest.raises(RetrievalError, match="No such file"):
        DocsIndex.open(tmp_path / "cache", [Source("pages", tmp_path / "absent")])
    DocsIndex.open(tmp_path / "cache", write_pages(tmp_path / "pages", ["alpha"])).close()
    with DocsIndex.open(tmp_path / "cache", [Source("pages", empty)]) as index:
        assert index.stats().stale
        assert pages_of(index.query("alpha")) == ["alpha.md"]


def test_without_chromadb_words_alone_are_searched(
    tmp_path: Path, notes_source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "chroma_available", lambda: False)
    with DocsIndex.open(tmp_path, [notes_source]) as index:
        hits = index.query("__shfl_down_sync mask")
        assert hits[0].page == "warp-shuffles.md"
        assert {hit.mode for hit in hits} == {"lexical"}
        assert index.stats().mode == "lexical"
        assert "chromadb is not installed" in index.stats().problems[-1]
        assert not (Path(index.stats().folder) / "chroma").exists()


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_damaged_vector_store_is_said_and_does_not_stop_the_search(tmp_path: Path, damage: str) -> None:
    sources = write_pages(tmp_path / "pages", ["alpha"])
    with DocsIndex.open(tmp_path / "cache", sources) as index:
        store = Path(index.stats().folder) / "chroma"
        if damage == "missing":
            shutil.rmtree(store)
        else:
            for file in store.rglob("*"):
                if file.is_file():
                    file.write_bytes(b"not a database" * 100)
        assert pages_of(index.query("alpha")) == ["alpha.md"]
        assert index.stats().mode == "lexical"
        assert "words alone" in index.stats().problems[0]
