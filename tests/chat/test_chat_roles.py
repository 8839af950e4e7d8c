"""Planner, Coder and Verifier on a scripted server: what they are told, and what becomes of their answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from stitchcuda.nodes.engines.chat import (
    CallLimits,
    ChatCoder,
    ChatPlanner,
    ChatVerifier,
    FakeAnswer,
    FakeOpenAIServer,
    prompts,
)
from stitchcuda.nodes.engines.protocols import CoderEngine, EngineFailure, PlannerEngine, VerifierEngine
from stitchcuda.nodes.evidence import CoderEvidence, PlannerEvidence, VerifierEvidence

OpenModel = Callable[..., BaseChatModel]
PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"


def task(**changes: Any) -> dict[str, Any]:
    fields = {"id": "a", "title": "t", "ops": ["relu"], "contract": "c", "technique": "k", "done_when": "d"}
    return {**fields, "memory_limit": "", "expected_gain": "", "citations": [], **changes}


def plan(*tasks: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"rationale": "r", "summary": "s", "subtasks": list(tasks), "left_to_pytorch": [], **changes})


def feedback(**changes: Any) -> str:
    fields = {"evidence": ["line 17"], "replan": False, "instruction": "add it", "expectation": "", "citations": []}
    return json.dumps({**fields, **changes})


def test_the_engines_fit_the_protocols(open_model: OpenModel) -> None:
    model = open_model("http://127.0.0.1:9/v1")
    planner: PlannerEngine = ChatPlanner(model)
    coder: CoderEngine = ChatCoder(model)
    verifier: VerifierEngine = ChatVerifier(model)
    assert planner
    assert coder
    assert verifier


# --- planner ----------------------------------------------------------------------------------------------------


async def test_a_plan_is_read_and_the_prompt_carries_the_evidence(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    cited = ["memory.md › Coalescing", "made-up.md"]
    with FakeOpenAIServer([plan(task(citations=cited), task(id="b", ops=["mul"]))]) as server:
        answer, usage = await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
        asked = server.requests[0].text
    assert [(item.id, item.ops) for item in answer.subtasks] == [("a", ("relu",)), ("b", ("mul",))]
    assert answer.subtasks[0].citations == ("memory.md › Coalescing",)
    assert answer.revision == 4
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 100, 20)
    for part in ("torch.relu(x) * 2", "aten.mul(relu, 2)", "own-kernels", "One fused kernel.", "Neighbouring threads"):
        assert part in asked


async def test_the_profile_in_the_prompt_has_at_most_60_lines(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    with FakeOpenAIServer([plan(task())]) as server:
        await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
        asked = server.requests[0].text
    profile = asked.split("## Profile of one call of the reference")[1].split("```")[1].strip().splitlines()
    assert len(profile) == 60
    assert "kernel_0" in profile[1]
    assert profile[-1] == "… 32 more lines"


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("I would fuse the ops.", "no valid JSON object"),
        ('{"summary": "s", "subtasks": [', "no valid JSON object"),
        (json.dumps({"summary": "s"}), "subtasks: Field required"),
        (plan({"id": "a"}), "subtasks.0.title: Field required"),
        (plan(task(ops="relu")), "subtasks.0.ops"),
        (plan(task(), task()), "ids must be unique: a"),
        (plan(task(ops=["softmax_7"])), "not in the op graph: softmax_7; its ops are: relu, mul"),
        (plan(task(ops=[])), "at least one op"),
        (plan(), "no sub-task"),
        ("", "answer is empty"),
        ("[]", "no valid JSON object"),
    ],
)
async def test_a_bad_plan_goes_back_with_the_reason_and_is_mended(
    bad: str, complaint: str, open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    with FakeOpenAIServer([bad, plan(task())]) as server:
        answer, usage = await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
        roles = [message["role"] for message in server.requests[1].body["messages"]]
        correction = server.requests[1].body["messages"][-1]["content"]
        returned = server.requests[1].body["messages"][-2]["content"]
    assert roles == ["system", "user", "assistant", "user"]
    assert complaint in correction
    assert returned == (bad or "(no answer)")
    assert answer.subtasks[0].id == "a"
    assert usage.calls == 2
    assert usage.input_tokens == 200


@pytest.mark.parametrize(
    "wrapped",
    [
        "```json\n{}\n```",
        '<think>{{"summary": 1}} or so</think>\n{}',
        "Here it is: {} I hope it helps.",
        'A form:\n```json\n{{"summary": "…"}}\n```\nThe plan:\n```json\n{}\n```',
        "~~~\n{}\n~~~",
    ],
)
async def test_a_plan_is_found_in_its_wrapping(
    wrapped: str, open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    with FakeOpenAIServer([wrapped.format(plan(task())).replace("\n", "\r\n")]) as server:
        answer, _ = await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
    assert answer.subtasks[0].ops == ("relu",)


async def test_bad_answers_end_in_a_failed_attempt_with_what_they_cost(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    told = pytest.raises(EngineFailure, match=r"^chat planner: no_json: .*asked 3 times")
    with FakeOpenAIServer(["no"], repeat_last=True) as server, told as caught:
        await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
    usage = caught.value.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (3, 300, 60)


async def test_a_cut_plan_is_continued_once(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    whole = plan(task())
    with FakeOpenAIServer([FakeAnswer(whole[:70], finish_reason="length"), whole[70:]]) as server:
        answer, usage = await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
        # A schema would force the continuation to start a new object.
        assert ["response_format" in request.body for request in server.requests] == [True, False]
    assert answer.subtasks[0].id == "a"
    assert usage.calls == 2


# --- coder ------------------------------------------------------------------------------------------------------


async def test_a_program_from_scratch(open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence) -> None:
    with FakeOpenAIServer([CODE]) as server:
        candidate, _ = await ChatCoder(open_model(server.url), limits).write(coder_evidence)
        asked = server.requests[0].text
        assert "response_format" not in server.requests[0].body
    assert candidate.source == PROGRAM
    assert candidate.summary == "does it."
    assert candidate.covers == ("s1",)
    for part in (
        "fuse relu and scale",
        "float32[16, 1024] contiguous",
        "load_inline",
        "Policy `libraries`",
        "emulator",
    ):
        assert part in asked
    assert "Policy `own-kernels`" not in asked


async def test_a_repair_starts_from_the_previous_program_and_its_verdict(
    open_model: OpenModel, limits: CallLimits, repair_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([CODE]) as server:
        candidate, _ = await ChatCoder(open_model(server.url), limits).write(repair_evidence)
        asked = server.requests[0].text
    assert candidate.covers == ("s0", "s1")
    parts = ("previous_marker", "fused.cu:17: error: expected a ';'", "add_the_semicolon", "#4 build_failed")
    for part in (*parts, "asks for: repair"):
        assert part in asked


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("I cannot do that.", "no Python program"),
        (CODE.replace("ModelNew", "Model"), "does not define ModelNew"),
        (CODE.replace("return x", "return (x"), "not valid Python: line 5"),
        ("<think>hm</think>", "answer is empty"),
    ],
)
async def test_a_bad_program_goes_back_with_the_reason(
    bad: str, complaint: str, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([bad, CODE]) as server:
        candidate, usage = await ChatCoder(open_model(server.url), limits).write(coder_evidence)
        assert complaint in server.requests[1].body["messages"][-1]["content"]
    assert candidate.source == PROGRAM
    assert usage.calls == 2


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("no", "no_code"),
        (CODE.replace("ModelNew", "Net"), "no_model_new"),
        (CODE.replace("return x", "return ("), "bad_python"),
        ("", "empty_answer"),
        (FakeAnswer("```python\nimport", finish_reason="length"), "truncated"),
        (FakeAnswer("", finish_reason="length"), "truncated"),
    ],
)
async def test_a_coder_that_never_answers_well_is_a_failed_attempt_with_its_reason(
    bad: str | FakeAnswer, code: str, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    told = pytest.raises(EngineFailure, match=f"^chat coder: {code}: ")
    with FakeOpenAIServer([bad], repeat_last=True) as server, told:
        await ChatCoder(open_model(server.url), limits).write(coder_evidence)


@pytest.mark.parametrize(
    "rest", [CODE[60:], CODE, f"```python\n{CODE[60:]}"], ids=["goes_on", "starts_anew", "new_fence"]
)
async def test_a_cut_program_is_continued_once(
    rest: str, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([FakeAnswer(CODE[:60], finish_reason="length"), rest]) as server:
        candidate, usage = await ChatCoder(open_model(server.url), limits).write(coder_evidence)
        assert server.requests[1].body["messages"][-2]["content"] == CODE[:60]
    assert candidate.source == PROGRAM
    assert usage.calls == 2


# --- verifier ---------------------------------------------------------------------------------------------------


async def test_a_diagnosis(open_model: OpenModel, limits: CallLimits, verifier_evidence: VerifierEvidence) -> None:
    cited = ["nowhere.md", "memory.md › Coalescing"]
    with FakeOpenAIServer([feedback(citations=cited, expectation="it builds")]) as server:
        answer, _ = await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
        asked = server.requests[0].text
    assert answer.kind == "repair"
    assert answer.evidence == ("line 17",)
    assert answer.expectation == "it builds"
    assert answer.citations == ("memory.md › Coalescing",)
    for part in ("status: build_failed", "reasons: compile_error", "fused.cu:17", "tried to fuse", "propose: repair"):
        assert part in asked


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"replan": True}, "replan"), ({"kind": "accept"}, "repair"), ({"kind": "accept", "replan": True}, "replan")],
)
async def test_the_verifier_can_differ_only_by_replanning(
    changes: dict[str, Any], kind: str, open_model: OpenModel, limits: CallLimits, verifier_evidence: VerifierEvidence
) -> None:
    with FakeOpenAIServer([feedback(**changes)]) as server:
        answer, _ = await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
    assert answer.kind == kind


async def test_feedback_without_an_instruction_goes_back(
    open_model: OpenModel, limits: CallLimits, verifier_evidence: VerifierEvidence
) -> None:
    with FakeOpenAIServer([feedback(instruction=" "), feedback()]) as server:
        answer, _ = await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
        assert "instruction" in server.requests[1].body["messages"][-1]["content"]
    assert answer.instruction == "add it"


async def test_roles_can_share_one_server_with_a_script_each(
    open_model: OpenModel,
    limits: CallLimits,
    planner_evidence: PlannerEvidence,
    coder_evidence: CoderEvidence,
    verifier_evidence: VerifierEvidence,
) -> None:
    script = {"planner": [plan(task())], "coder": [CODE], "verifier": [feedback()]}
    with FakeOpenAIServer(script) as server:
        model = open_model(server.url)
        diagnosis, _ = await ChatVerifier(model, limits).diagnose(verifier_evidence)
        candidate, _ = await ChatCoder(model, limits).write(coder_evidence)
        answer, _ = await ChatPlanner(model, limits).plan(planner_evidence)
        assert [request.role for request in server.requests] == ["verifier", "coder", "planner"]
    assert (diagnosis.instruction, candidate.source, answer.summary) == ("add it", PROGRAM, "s")


async def test_nothing_blocks_the_event_loop(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence, planner_evidence: PlannerEvidence
) -> None:
    """The development server of LangGraph refuses blocking calls in async nodes."""
    blockbuster = pytest.importorskip("blockbuster")
    prompts._template.cache_clear()
    answers = {
        "coder": ["no", FakeAnswer(CODE[:60], finish_reason="length"), CODE[60:]],
        "planner": ["no", plan(task())],
    }
    with FakeOpenAIServer(answers) as server:
        model = open_model(server.url)
        with blockbuster.blockbuster_ctx():
            candidate, _ = await ChatCoder(model, limits).write(coder_evidence)
            answer, _ = await ChatPlanner(model, limits).plan(planner_evidence)
    assert candidate.source == PROGRAM
    assert answer.subtasks[0].id == "a"


@pytest.mark.parametrize("usage", [None, (7, 3)])
async def test_usage_is_what_the_endpoint_says(
    usage: tuple[int, int] | None, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([FakeAnswer(CODE, usage=usage)]) as server:
        _, counted = await ChatCoder(open_model(server.url), limits).write(coder_evidence)
    assert counted.calls == 1
    assert counted.roles["coder"].counts() == counted.counts()
    if usage is not None:
        assert (counted.input_tokens, counted.output_tokens, counted.unreported) == (*usage, 0)
    else:  # an endpoint that says nothing is counted by estimate, so that a budget holds there too
        assert counted.unreported == 1
        assert counted.input_tokens > 500
        assert 20 < counted.output_tokens < 60
