"""Chunks, tokens, vectors and evidence queries."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stitchcuda.core.records import BuildReport, Diagnostic, Evaluation, ExtensionBuild, Status
from stitchcuda.nvidia_docs import NOTES_DIR, SOURCES_FILE
from stitchcuda.rag_index import DocsIndex, build_query, query_for_evaluation
from stitchcuda.rag_index.embed import embed
from stitchcuda.rag_index.markdown import parse_markdown
from stitchcuda.rag_index.tokens import tokenize

PAGES = sorted(path for path in NOTES_DIR.glob("*.md") if path.name != "LICENSE.md")


def test_structure_is_kept() -> None:
    code = "```cuda\n# not a heading\n\n- not an item [ptx: not a reference]\n```"
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n * n} |" for n in range(300))
    intro = "# Title\n\nTopics: one, two\n\n## First\n\nIntro. [ptx:\nSome section]"
    text = f"{intro}\n\n{code}\n\n### Deep\n\n{table}\n\n## Last\n\nEnd."
    chunks = parse_markdown(text, source="s", page="p.md")
    assert [chunk.headings for chunk in chunks] == [("Title", "First"), ("Title", "First", "Deep"), ("Title", "Last")]
    assert code in chunks[0].text
    assert chunks[0].references == ("ptx: Some section",)
    assert "Some" not in chunks[0].text
    assert chunks[1].text == table
    assert chunks[2].citation == "p.md › Last"
    assert all(chunk.topics == "one, two" for chunk in chunks)


def test_ids_follow_content_and_place() -> None:
    text = "# T\n\n## A\n\nsame\n\n## B\n\nsame\n"
    first = parse_markdown(text, source="s", page="p.md")
    again = parse_markdown(text + "\n## C\n\nnew\n", source="s", page="p.md")
    assert [chunk.id for chunk in again[:2]] == [chunk.id for chunk in first]
    assert len({chunk.id for chunk in again}) == 3


@pytest.mark.parametrize("text", ["", "\n\n", "```\nnever closed", "no heading at all", "# only a title", "#\n##\n"])
def test_odd_pages_do_not_fail(text: str) -> None:
    for chunk in parse_markdown(text, source="s", page="p.md"):
        assert chunk.text


def test_tokens_find_names_whole_and_in_parts() -> None:
    assert tokenize("__shfl_down_sync") == ["__shfl_down_sync", "shfl", "down", "sync"]
    assert tokenize("cudaErrorIllegalAddress")[0] == "cudaerrorillegaladdress"
    assert "illegal" in tokenize("cudaErrorIllegalAddress")
    assert tokenize("conflicts") == tokenize("conflict")
    assert tokenize("normalised") == tokenize("normalized")


def test_vectors_are_unit_length_and_the_same_everywhere() -> None:
    vectors = embed(["bank conflicts in shared memory", "bank conflict, shared memory", "launch overhead", ""])
    assert np.allclose(np.linalg.norm(vectors[:3], axis=1), 1, atol=1e-5)
    assert not vectors[3].any()
    assert vectors[0] @ vectors[1] > 0.8 > 0.3 > vectors[0] @ vectors[2]


def test_each_fact_of_the_notes_names_its_official_section() -> None:
    known = set(re.findall(r"^\[([a-z0-9-]+)\]$", SOURCES_FILE.read_text(), re.M))
    assert len(PAGES) >= 12
    for page in PAGES:
        text = page.read_text()
        keys = {key for key, _ in re.findall(r"\[([a-z0-9-]+):\s+([^\]]+)\]", text)}
        assert keys <= known, page.name
        for item in re.split(r"\n(?=- )|\n\n", re.sub(r"```.*?```", "", text, flags=re.S)):
            if item.startswith("- "):
                assert re.search(r"\[[a-z0-9-]+:\s", item), f"{page.name}: {item}"
        for chunk in parse_markdown(text, source="notes", page=page.name):
            # A passage that is only code explains itself under its heading.
            assert chunk.references or "```" in chunk.text or len(chunk.text) < 400, chunk.citation


def test_overview_pages_lead_to_the_specific_ones() -> None:
    def linked(page: str) -> set[str]:
        return set(re.findall(r"\]\(([a-z0-9-]+\.md)\)", (NOTES_DIR / page).read_text()))

    names = {page.name for page in PAGES}
    assert {name for name in names if name.startswith("error-")} <= linked("launch-errors.md")
    specific = {name for name in names if name.startswith("nvcc-errors-")}
    assert len(specific) >= 4
    assert specific | {"ptxas-messages.md"} <= linked("nvcc-errors.md")
    for name in names:
        assert linked(name) <= names, name


def test_queries_from_evidence(notes_index: DocsIndex) -> None:
    def first_page(query: str) -> str:
        return notes_index.query(query)[0].page

    assert first_page(build_query(bottleneck="launch")) == "launch-overhead.md"
    assert first_page(build_query(bottleneck="118 launches per call, launch-bound")) == "launch-overhead.md"
    assert first_page(build_query(ops=["aten._softmax.default"])) == "softmax.md"
    assert first_page(build_query(ops=["aten.native_layer_norm.default"])) == "layer-norm.md"
    assert first_page(build_query(error_code="cudaErrorIllegalAddress")) in (
        "launch-errors.md",
        "error-illegal-address.md",
    )
    assert build_query() == ""
    assert len(build_query(errors=["x" * 5000])) <= 600
    assert "candidate.cu" not in build_query(errors=["/tmp/x/candidate.cu(12): error: identifier undefined"])


def test_queries_from_evaluations(notes_index: DocsIndex) -> None:
    failed = Evaluation(
        candidate_id=1,
        status=Status.BUILD_FAILED,
        message="build failed",
        device="cpu",
        build=BuildReport(
            ok=False,
            extensions=(
                ExtensionBuild(
                    name="k",
                    ok=False,
                    target="cpu",
                    diagnostics=(Diagnostic(severity="error", message='identifier "f" is undefined in device code'),),
                ),
            ),
        ),
    )
    assert "nvcc-errors.md" in [hit.page for hit in notes_index.query(query_for_evaluation(failed))]
    crashed = Evaluation(
        candidate_id=1, status=Status.RUNTIME_ERROR, message="an illegal memory access was encountered", device="cuda:0"
    )
    assert notes_index.query(query_for_evaluation(crashed))[0].page in ("launch-errors.md", "error-illegal-address.md")
    passed = Evaluation(candidate_id=1, status=Status.PASSED, device="cuda:0")
    assert query_for_evaluation(passed, bottleneck="memory-bound", ops=["relu"]).startswith("memory-bound")
