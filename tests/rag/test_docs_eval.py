"""The question set, its table, the catalogue of sources, the tool for chat engines, and the commands."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from stitchcuda.cli.main import main
from stitchcuda.cli.rag_output import describe
from stitchcuda.core.errors import RetrievalError
from stitchcuda.nvidia_docs import NOTES_DIR
from stitchcuda.rag_index import (
    DocsIndex,
    Question,
    Source,
    change_choice,
    configured_sources,
    evaluate,
    find_include,
    read_questions,
    search_tool,
)
from stitchcuda.rag_index.markdown import parse_markdown

INCLUDE = find_include(None)


def test_the_question_set_is_large_varied_and_has_a_part_kept_apart() -> None:
    questions = read_questions()
    assert len({question.text for question in questions}) == len(questions) >= 120
    parts = Counter(question.part for question in questions)
    assert parts["report"] / len(questions) == pytest.approx(1 / 3, abs=0.02)
    assert min(Counter(question.kind for question in questions).values()) >= 20


def test_each_answer_of_the_question_set_exists() -> None:
    known: set[str] = set()
    for path in NOTES_DIR.glob("*.md"):
        for chunk in parse_markdown(path.read_text(), source="notes", page=path.name):
            known |= {chunk.page, *(f"{chunk.page} › {heading}" for heading in chunk.headings)}
    answers = {answer for question in read_questions() if question.source == "notes" for answer in question.answers}
    assert answers <= known, answers - known


def test_the_hybrid_search_meets_its_target_on_both_parts(notes_index: DocsIndex) -> None:
    scores = {(score.mode, score.part): score for score in evaluate(notes_index, read_questions())}
    assert len(scores) == 6
    for part in ("tune", "report"):
        hybrid = scores["hybrid", part]
        assert hybrid.recall_at_5 >= 0.9, hybrid.missed
        assert hybrid.recall_at_1 <= hybrid.mrr <= hybrid.recall_at_5 + 0.05
        assert hybrid.recall_at_5 >= scores["vector", part].recall_at_5


def test_scores_are_counted_right(notes_index: DocsIndex) -> None:
    def question(text: str, answer: str) -> Question:
        return Question(text=text, answers=(answer,), kind="api", part="tune")

    first = question("CUBLASLT_EPILOGUE_RELU_BIAS", notes_index.query("CUBLASLT_EPILOGUE_RELU_BIAS")[0].page)
    third = question("softmax", notes_index.query("softmax", k=3)[2].citation)
    never = question("softmax", "no-such-page.md")
    score = evaluate(notes_index, [first, never])[2]
    assert (score.mode, score.recall_at_1, score.recall_at_5, score.mrr) == ("hybrid", 0.5, 0.5, 0.5)
    assert score.missed == ("softmax",)
    if third.answers[0] not in [hit.citation for hit in notes_index.query("softmax", k=2)]:
        assert evaluate(notes_index, [third])[2].mrr == pytest.approx(1 / 3, abs=1e-4)
    with pytest.raises(RetrievalError, match="none of the questions"):
        evaluate(notes_index, [first.model_copy(update={"source": "elsewhere"})])


def test_added_folders_are_remembered_and_forgotten(tmp_path: Path) -> None:
    manuals = tmp_path / "My Manuals"
    manuals.mkdir()
    (manuals / "zebra.md").write_text("# Zebra\n\nThe zebra unit counts stripes.\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "okapi.md").write_text("# Okapi\n\nThe okapi unit walks.\n")
    other = Source("other", tmp_path / "other")
    cache = tmp_path / "cache"

    def added() -> list[Source]:
        return [source for source in configured_sources(cache) if source.name != "notes"]

    change_choice(cache, headers=False, add=[manuals])
    assert [source.name for source in configured_sources(cache)] == ["notes", "my-manuals"]
    with DocsIndex.open(cache, added()) as index:
        assert index.query("zebra stripes")[0].source == "my-manuals"
    change_choice(cache, headers=False)
    assert [source.name for source in configured_sources(cache)] == ["notes", "my-manuals"]
    with pytest.raises(RetrievalError, match="is not a folder"):
        change_choice(cache, headers=False, add=[tmp_path / "absent"])
    with pytest.raises(RetrievalError, match="there are: my-manuals"):
        change_choice(cache, headers=False, remove=["zebra"])
    # A folder that was removed behind our back is told and does not stop the rest.
    shutil.rmtree(manuals)
    with DocsIndex.open(cache, [*added(), other]) as index:
        assert any("My Manuals" in line for line in index.stats().problems)
        assert index.query("okapi")
    change_choice(cache, headers=False, remove=["my-manuals"])
    assert [source.name for source in configured_sources(cache)] == ["notes"]
    (cache / "sources.json").write_text("{broken")
    with pytest.raises(RetrievalError, match=r"sources\.json cannot be read"):
        DocsIndex.open(cache)


def test_headers_that_are_asked_for_and_absent_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match=r"has no cuda_runtime_api\.h"):
        change_choice(tmp_path, headers=True, include=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(INCLUDE is None, reason="needs the headers of a CUDA toolkit")
def test_the_installed_toolkit_is_indexed_and_found(tmp_path: Path) -> None:
    change_choice(tmp_path, headers=True)
    with DocsIndex.open(tmp_path) as index:
        headers = index.stats().sources["headers"]
        assert int(headers["chunks"]) > 1000
        assert str(headers["toolkit"]).count(".") == 1
        hits = index.query("cudaFuncSetAttribute", k=3, where={"source": "headers"})
        hit = next(hit for hit in hits if hit.headings[-1] == "cudaFuncSetAttribute")
        path, _, line = hit.link.rpartition(":")
        assert "cudaFuncSetAttribute(" in Path(path).read_text().splitlines()[int(line) - 1]
        hybrid = [score for score in evaluate(index, read_questions()) if score.mode == "hybrid"]
        assert min(score.recall_at_5 for score in hybrid) >= 0.9, [score.missed for score in hybrid]


def test_the_tool_answers_a_model_with_cited_passages(notes_index: DocsIndex) -> None:
    tool = search_tool(lambda: notes_index)
    assert set(tool.args) == {"query", "passages", "architecture"}
    answer = tool.invoke({"query": "softmax running maximum", "passages": 2})
    assert answer.startswith("[1] softmax.md › ")
    assert "[2] " in answer
    assert "[3] " not in answer
    assert "\nsee " in answer
    assert tool.invoke({"query": "日本語"}) == "Nothing in the documentation fits this query."
    assert len(tool.invoke({"query": "shared memory", "passages": 1000})) <= 8000 + 100

    def fail() -> DocsIndex:
        raise RetrievalError("the cache is gone")

    assert search_tool(fail).invoke({"query": "x"}) == "The documentation cannot be searched: the cache is gone"


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STITCHCUDA_CACHE_DIR", str(tmp_path))

    def run(*arguments: str) -> dict[str, object]:
        assert main(["rag", *arguments, "--json"]) == 0
        value: dict[str, object] = json.loads(capsys.readouterr().out)
        return value

    built = run("build", "--no-headers")
    assert run("stats") == built
    assert set(built["sources"]) == {"notes"}  # type: ignore[call-overload]
    hits = run("query", "__shfl_down_sync", "-k", "2", "--source", "notes", "--arch", "sm_90")["hits"]
    assert isinstance(hits, list)
    assert hits[0]["page"].startswith("warp-")
    table = run("eval")["scores"]
    assert isinstance(table, list)
    assert {row["mode"] for row in table} == {"vector", "lexical", "hybrid"}
    assert main(["rag", "query", "日本語"]) == 1
    assert main(["rag", "query", "softmax", "--mode", "psychic"]) == 2
    capsys.readouterr()
    assert main(["rag", "query", "CUBLASLT_EPILOGUE_RELU_BIAS", "-k", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1. ")
    assert "(words rank 1" in shown
    assert "<https://docs.nvidia.com/cuda/cublas/>" in shown
    assert main(["rag", "eval"]) == 0
    assert "recall@5" in capsys.readouterr().out
    # No network here: each document is one line, and the exit code says so.
    sources = tmp_path / "sources.toml"
    sources.write_text('[a]\ntitle = "A"\nurl = "file:///x"\nformat = "html"\n')
    assert main(["rag", "fetch", "--sources", str(sources)]) == 3
    captured = capsys.readouterr()
    assert captured.out == "0 fetched, 0 kept, 1 failed\n"
    assert captured.err == "a: file:///x: not an http or https address\n"


def test_progress_estimates_what_is_left() -> None:
    assert describe("reading", 25, 100, 10.0) == "reading: 25%, about 30 s left"
    assert describe("reading", 25, 100, 0.1) == "reading: 25%"
    assert describe("fetching x", 3 * 2**20, 0, 9.0) == "fetching x: 3.0 MiB"
