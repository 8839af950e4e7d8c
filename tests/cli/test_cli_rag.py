"""``stitchcuda rag``: the index through the command line."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    """An index of its own: another process of the same test session may be building in the shared one."""
    folder = tmp_path_factory.getbasetemp() / "rag-of-the-command-line"
    monkeypatch.setenv("STITCHCUDA_CACHE_DIR", str(folder))


def test_build_then_query(cli):
    built = cli("rag", "build", "--no-headers", "--json")
    assert built.code == 0
    assert built.json["chunks"] > 20
    found = cli("rag", "query", "bank conflicts in shared memory", "-k", 2, "--json")
    assert found.code == 0
    assert len(found.json["hits"]) == 2
    assert "bank" in found.json["hits"][0]["text"].lower()
    shown = cli("rag", "query", "bank conflicts in shared memory", "-k", 1)
    assert shown.out.startswith("1. ")
    assert found.json["hits"][0]["citation"] in shown.out
    assert cli("rag", "stats", "--json").json["chunks"] == built.json["chunks"]


def test_nothing_found_ends_with_1(cli):
    done = cli("rag", "query", "zzzqqq", "--mode", "lexical", "--json")
    assert (done.code, done.json["hits"]) == (1, [])


def test_an_index_that_cannot_be_written_is_one_line(cli, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STITCHCUDA_CACHE_DIR", str(tmp_path / "file"))
    done = cli("rag", "build", "--json")
    assert (done.code, done.json["error"]) == (3, "RetrievalError")
    assert "Traceback" not in done.err
