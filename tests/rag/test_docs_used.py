"""What the nodes make of the index: links, the GPU's architecture, and the notes that the embedded rules cite."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitchcuda.core.records import CheckReport, Evaluation, OutputCheck, Plan, Status
from stitchcuda.graph.context import Context
from stitchcuda.nodes import retrieval
from stitchcuda.nodes.engines.chat.verifier import verifier_prompts
from stitchcuda.nodes.engines.embedded import rules
from stitchcuda.nodes.engines.embedded.verifier import make_feedback
from stitchcuda.nodes.evidence import Citation, DeviceFacts, ProblemFacts, VerifierEvidence
from stitchcuda.nodes.report import render_report
from stitchcuda.nvidia_docs import NOTES_DIR
from stitchcuda.rag_index import DocsIndex, Source, architecture_name, architectures_up_to
from stitchcuda.rag_index.markdown import parse_markdown

PAGE = """# Zebra unit

## Everywhere

The zebra unit moves stripes and counts stripes. [runtime-api: Zebras]

## Since Ampere

From sm_80 on the zebra unit moves stripes in pairs.

## Hopper

On sm_90 the zebra unit moves stripes by cluster.

## Blackwell

On sm_100 the zebra unit moves stripes by tensor memory.
"""


@pytest.fixture
def zebra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "zebra.md").write_text(PAGE)
    index = DocsIndex.open(tmp_path, [Source("notes", tmp_path / "pages")], chroma_url="")
    monkeypatch.setattr(retrieval, "documentation_index", lambda: index)


@pytest.mark.usefixtures("zebra")
@pytest.mark.parametrize(
    ("capability", "headings", "first"),
    [
        ("", {"Everywhere", "Since Ampere", "Hopper", "Blackwell"}, None),
        ("8.6", {"Everywhere", "Since Ampere"}, None),
        ("9.0", {"Everywhere", "Since Ampere", "Hopper"}, "Hopper"),
        ("12.0", {"Everywhere", "Since Ampere", "Hopper", "Blackwell"}, None),
    ],
)
async def test_the_gpu_decides_what_is_looked_up(
    capability: str, headings: set[str], first: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "_question", lambda ops, evaluation: "zebra unit moves stripes")  # noqa: ARG005
    device = DeviceFacts(device="cuda:0", compute_capability=capability)
    found = await retrieval.look_up(Context(), ops=("relu",), device=device)
    assert {item.source.split(" › ")[-1] for item in found} == headings
    if first is not None:
        assert found[0].source.endswith(first)
    links = {item.source.split(" › ")[-1]: item.link for item in found}
    assert links["Everywhere"] == "https://docs.nvidia.com/cuda/cuda-runtime-api/"
    assert links["Since Ampere"] == ""


def test_names_of_architectures() -> None:
    assert architecture_name("9.0") == "sm_90"
    assert architecture_name("12.0") == "sm_120"
    assert architecture_name("") == architecture_name("emulator") == ""
    assert architectures_up_to("sm_86")[-2:] == ("sm_80", "sm_86")
    assert "sm_90" in architectures_up_to("sm_100a")
    assert architectures_up_to("volta") == ()


def test_each_rule_of_the_diagnosis_cites_a_note_that_exists() -> None:
    known = {
        f"{chunk.page} › {heading}"
        for path in NOTES_DIR.glob("*.md")
        for chunk in parse_markdown(path.read_text(), source="notes", page=path.name)
        for heading in chunk.headings[1:]
    }
    cited = {rule.instruction: rule.note for rule in rules.RULES if rule is not rules.MACHINE}
    assert len(cited) >= 18
    assert set(cited.values()) <= known, set(cited.values()) - known
    # None is left out: every status that is not the machine's has a rule, and all rules are in the list.
    failing = set(Status) - {Status.PASSED, Status.WRONG_VALUES, Status.MACHINE_ERROR}
    assert failing <= set(rules.FAILURES)
    assert {value for value in vars(rules).values() if isinstance(value, rules.Rule)} <= set(rules.RULES)


def evidence(evaluation: Evaluation) -> VerifierEvidence:
    from stitchcuda.core.records import CandidateSource

    return VerifierEvidence(
        problem=ProblemFacts(name="p", source="import torch\n"),
        device=DeviceFacts(device="cpu"),
        policy="libraries",
        plan=Plan(summary="s"),
        subtask=None,
        candidate=CandidateSource(source="import torch\n"),
        evaluation=evaluation,
        proposed_kind="repair",
        citations=(Citation(source="found.md › It", text="passage", score=1.0, link="https://example.org/it"),),
    )


def test_a_diagnosis_cites_its_rule_before_what_was_looked_up() -> None:
    border = OutputCheck(output="0", trial="t", ok=False, status=Status.WRONG_VALUES, mismatched_fraction=0.001)
    evaluation = Evaluation(
        candidate_id=1,
        status=Status.WRONG_VALUES,
        device="cpu",
        sizes="reduced",
        check=CheckReport(ok=False, status=Status.WRONG_VALUES, outputs=(border,)),
    )
    feedback = make_feedback(evidence(evaluation))
    assert "elements at a border" in feedback.instruction
    assert feedback.citations == ("vectorised-access.md › Conditions", "found.md › It")
    hang = evaluation.model_copy(update={"status": Status.TIMEOUT, "check": None})
    assert make_feedback(evidence(hang)).citations[0] == "error-launch-failure.md › Hangs"


def test_links_are_in_prompts_and_reports() -> None:
    evaluation = Evaluation(candidate_id=1, status=Status.TIMEOUT, device="cpu", sizes="reduced")
    asked = evidence(evaluation)
    _, question = verifier_prompts(asked)
    assert "found.md › It:\n(read on at https://example.org/it)\n" in question
    text = render_report(
        {
            "problem_name": "p",
            "device": asked.device,
            "sizes": "reduced",
            "citations": asked.citations,
            "feedback": make_feedback(asked),
        }
    )
    assert "- found.md › It <https://example.org/it>\n- error-launch-failure.md › Hangs\n" in text
