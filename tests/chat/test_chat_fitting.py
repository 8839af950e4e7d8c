"""Prompts that fit the context window: what goes first, what never goes, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from stitchcuda.core.records import CandidateSource
from stitchcuda.nodes.engines.chat import (
    CallLimits,
    ChatCoder,
    ChatOptions,
    FakeAnswer,
    FakeOpenAIServer,
    open_chat_model,
)
from stitchcuda.nodes.engines.chat.coder import coder_prompts
from stitchcuda.nodes.engines.chat.fitting import fit, prompt_budget
from stitchcuda.nodes.engines.chat.profile import EndpointProfile
from stitchcuda.nodes.engines.chat.tokens import estimate_tokens
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import Attempt, Citation, CoderEvidence

PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"
LIMITS = CallLimits(max_retries=0, backoff_s=0.001)


@pytest.fixture
def rich(repair_evidence: CoderEvidence) -> CoderEvidence:
    """Evidence of every kind, far too much of it."""
    problem = repair_evidence.problem.model_copy(
        update={"op_lines": tuple(f"op_{i} = aten.relu(op_{i - 1}) float32[16, 1024]" for i in range(400))}
    )
    passages = tuple(
        Citation(source=f"doc{i}.md", text=f"passage_{i} " + "word " * 250, score=i / 10) for i in range(8)
    )
    history = tuple(Attempt(candidate_id=i, status="wrong_values", summary=f"attempt_{i}") for i in range(10))
    return repair_evidence.model_copy(update={"problem": problem, "citations": passages, "history": history})


def sized(evidence: CoderEvidence, budget: int | None) -> tuple[str, str]:
    system, question, told = fit(lambda cuts: coder_prompts(evidence, cuts), budget, 1.0)
    return system + question, told


def test_with_room_nothing_is_left_out(rich: CoderEvidence) -> None:
    text, told = sized(rich, None)
    assert told == ""
    assert "Left out of this question" not in text
    assert "passage_7" in text
    assert "op_299" not in text  # the cap on op lines holds in any window
    assert "op_298" in text


def test_the_least_useful_goes_first_and_the_prompt_says_so(rich: CoderEvidence) -> None:
    whole, _ = sized(rich, None)
    size = estimate_tokens(whole)
    text, told = sized(rich, size - 300)
    assert told == "documentation passages beyond the best three"
    assert f"Left out of this question to fit the context window: {told}." in text
    assert "passage_7" in text
    assert "passage_4" not in text
    assert "op_298" in text


def test_what_the_coder_cannot_do_without_stays_in_the_smallest_window(rich: CoderEvidence) -> None:
    text, told = sized(rich, 10)
    assert rich.problem.source in text
    assert "previous_marker" in text
    assert "add_the_semicolon" in text
    assert "expected a ';'" in text
    assert rich.subtask is not None
    assert rich.subtask.contract in text
    assert "passage_" not in text
    assert "aten.relu(op_" not in text
    assert "attempt_" not in text
    assert "the op graph" in told
    assert "the profile" not in told  # there is none


@pytest.mark.parametrize("budget", range(1500, 12000, 700))
def test_a_prompt_fits_whenever_the_cuts_can_make_it_fit(budget: int, rich: CoderEvidence) -> None:
    smallest, _ = sized(rich, 1)
    text, _ = sized(rich, budget)
    assert estimate_tokens(text) <= max(budget, estimate_tokens(smallest))


@pytest.mark.parametrize(
    ("limits", "profile", "budget"),
    [
        ({}, {}, None),
        ({"context_tokens": 9000}, {}, 5700),
        ({}, {"context_tokens": 9000}, 5700),
        ({"context_tokens": 9000, "max_output_tokens": 1000}, {"context_tokens": 100_000}, 7600),
        ({"context_tokens": 4000, "max_output_tokens": 16_000}, {}, 950),
    ],
)
def test_the_budget_leaves_room_for_the_answer(limits: dict[str, Any], profile: dict[str, Any], budget: int) -> None:
    assert prompt_budget(CallLimits(**limits), EndpointProfile(**profile)) == budget


async def test_a_window_in_the_model_list_is_used(rich: CoderEvidence) -> None:
    told: list[str] = []
    with FakeOpenAIServer([CODE], windows={"fake": 6000}) as server:
        options = ChatOptions(LIMITS, tell=lambda _, line: told.append(line))
        model = open_chat_model("openai:fake", base_url=server.url)
        await ChatCoder(model, options=options).write(rich)
        assert estimate_tokens(server.requests[0].text) < 4000
    assert told[0].startswith("left out to fit the context window: ")


async def test_a_window_is_learnt_from_a_refusal(rich: CoderEvidence) -> None:
    words = "This model's maximum context length is 6000 tokens."
    refusal = FakeAnswer(status=400, code="context_length_exceeded", error=words)
    with FakeOpenAIServer([refusal, CODE, CODE]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        candidate, usage = await ChatCoder(model, LIMITS).write(rich)
        assert candidate.source == PROGRAM
        assert usage.calls == 2
        sizes = [estimate_tokens(request.text) for request in server.requests]
        assert sizes[0] > 6000 > sizes[1]
        await ChatCoder(model, LIMITS).write(rich)  # known from then on
        assert len(server.requests) == 3


async def test_a_window_too_small_for_anything_is_a_failed_attempt(rich: CoderEvidence) -> None:
    words = "This model's maximum context length is 512 tokens."
    with FakeOpenAIServer([FakeAnswer(status=400, error=words)], repeat_last=True) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        with pytest.raises(EngineFailure, match="context_too_long"):
            await ChatCoder(model, LIMITS).write(rich)
        assert len(server.requests) == 2


async def test_the_endpoints_own_count_calibrates_the_estimate(rich: CoderEvidence) -> None:
    window = 9000
    with FakeOpenAIServer([FakeAnswer(CODE, usage=(12_000, 10)), CODE], windows={"fake": window}) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        await ChatCoder(model, LIMITS).write(rich)
        await ChatCoder(model, LIMITS).write(rich)
        first, second = (estimate_tokens(request.text) for request in server.requests)
    assert second < 0.6 * first  # its tokenizer makes more than twice as many tokens as was estimated


async def test_corrections_do_not_outgrow_the_window(rich: CoderEvidence) -> None:
    babble = "no code here " * 2000
    limits = LIMITS.model_copy(update={"context_tokens": 6000})
    with FakeOpenAIServer([babble, babble, CODE]) as server:
        await ChatCoder(open_chat_model("openai:fake", base_url=server.url), limits).write(rich)
        assert len(server.requests) == 3
        assert all(estimate_tokens(request.text) < 6000 for request in server.requests)


async def test_the_limit_on_answers_shrinks_with_the_room_that_is_left(coder_evidence: CoderEvidence) -> None:
    limits = LIMITS.model_copy(update={"context_tokens": 4000, "max_output_tokens": 3900})
    with FakeOpenAIServer([CODE]) as server:
        await ChatCoder(open_chat_model("openai:fake", base_url=server.url), limits).write(coder_evidence)
        (request,) = server.requests
    assert estimate_tokens(request.text) + request.body["max_completion_tokens"] <= 4000


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("for (int i = blockIdx.x; i < n; i += 256) {\n  y[i] = x[i] * 2.0f;\n}\n", 38, 60),
        ("internationalisation", 3, 5),
        ("速い", 2, 6),
        ("    " * 1000, 1, 10),
        ("1234567", 3, 3),
    ],
)
def test_the_estimate_is_of_the_right_size(text: str, low: int, high: int) -> None:
    assert low <= estimate_tokens(text) <= high


def test_a_previous_program_is_never_shortened(rich: CoderEvidence) -> None:
    long = CandidateSource(source=PROGRAM + "# filler\n" * 3000 + "# the_end\n")
    text, _ = sized(rich.model_copy(update={"previous": long}), 500)
    assert "# the_end" in text
