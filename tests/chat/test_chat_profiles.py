"""What an endpoint takes and gives: found out by the first call, remembered, overridden by a setting; streaming."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from stitchcuda.core.errors import ModelError, SettingsError
from stitchcuda.nodes.engines.chat import (
    AnswerCache,
    CallLimits,
    ChatCoder,
    ChatOptions,
    ChatVerifier,
    FakeAnswer,
    FakeOpenAIServer,
    open_chat_model,
)
from stitchcuda.nodes.engines.chat.profile import forget_endpoints, told_prompt_tokens, told_window
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage
from stitchcuda.nodes.evidence import CoderEvidence, VerifierEvidence

PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"
FEEDBACK = json.dumps({"evidence": ["line 17"], "replan": False, "instruction": "add it"})
EVERYTHING = CallLimits(
    max_retries=1,
    backoff_s=0.001,
    stream=True,
    max_output_tokens=500,
    temperature=0.5,
    seed=7,
    reasoning_effort="low",
)


def bodies(server: FakeOpenAIServer) -> list[dict[str, Any]]:
    return [request.body for request in server.requests]


async def ask(server: FakeOpenAIServer, evidence: CoderEvidence, limits: CallLimits, **opening: Any) -> Usage:
    model = open_chat_model("openai:fake", base_url=server.url, **opening)
    candidate, usage = await ChatCoder(model, limits).write(evidence)
    assert candidate.source == PROGRAM
    return usage


async def test_all_that_the_settings_want_is_sent(coder_evidence: CoderEvidence) -> None:
    with FakeOpenAIServer([CODE]) as server:
        usage = await ask(server, coder_evidence, EVERYTHING)
        (body,) = bodies(server)
    assert (body["max_completion_tokens"], body["temperature"], body["seed"]) == (500, 0.5, 7)
    assert (body["reasoning_effort"], body["stream"]) == ("low", True)
    assert body["stream_options"] == {"include_usage": True}
    assert (usage.input_tokens, usage.output_tokens, usage.unreported) == (100, 20, 0)


@pytest.mark.parametrize(
    ("refused", "sent_instead"),
    [
        ("max_completion_tokens", {"max_tokens": 500}),
        ("temperature", {}),
        ("seed", {}),
        ("reasoning_effort", {}),
        ("stream_options", {"stream": True}),
    ],
)
async def test_what_is_refused_by_name_is_left_out_and_remembered(
    refused: str, sent_instead: dict[str, Any], coder_evidence: CoderEvidence, tmp_path: Path
) -> None:
    with FakeOpenAIServer([CODE], refuses=[refused], repeat_last=True) as server:
        await ask(server, coder_evidence, EVERYTHING, profile_cache=tmp_path)
        assert [refused in body for body in bodies(server)] == [True, False]
        assert bodies(server)[1].items() >= sent_instead.items()
        forget_endpoints()  # another process knows it from the cache folder
        await ask(server, coder_evidence, EVERYTHING, profile_cache=tmp_path)
        assert [refused in body for body in bodies(server)] == [True, False, False]


async def test_an_endpoint_that_refuses_much_is_understood_in_one_call(coder_evidence: CoderEvidence) -> None:
    refuses = ["max_completion_tokens", "temperature", "seed", "reasoning_effort", "stream_options"]
    with FakeOpenAIServer([CODE], refuses=refuses, repeat_last=True) as server:
        usage = await ask(server, coder_evidence, EVERYTHING)
        assert len(server.requests) == 1 + len(refuses)
        await ask(server, coder_evidence, EVERYTHING)
        assert len(server.requests) == 2 + len(refuses)
    assert usage.unreported == 1  # a stream without figures is counted by estimate


async def test_an_endpoint_that_refuses_both_names_of_the_limit_ends_the_run(coder_evidence: CoderEvidence) -> None:
    refuses = ["max_completion_tokens", "max_tokens"]
    with FakeOpenAIServer([CODE], refuses=refuses) as server:
        with pytest.raises(ModelError, match="Unsupported parameter"):
            await ask(server, coder_evidence, EVERYTHING)
        assert len(server.requests) == 2


async def test_an_endpoint_that_does_not_stream_is_asked_without(coder_evidence: CoderEvidence) -> None:
    with FakeOpenAIServer([CODE], streams=False, repeat_last=True) as server:
        await ask(server, coder_evidence, EVERYTHING)
        await ask(server, coder_evidence, EVERYTHING)
        assert [bool(body.get("stream")) for body in bodies(server)] == [True, False, False]


async def test_a_schema_that_is_not_taken_becomes_json_mode(verifier_evidence: VerifierEvidence) -> None:
    words = "response_format type 'json_schema' is not supported, use 'json_object'"
    with FakeOpenAIServer([FakeAnswer(status=400, error=words), FEEDBACK]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        await ChatVerifier(model).diagnose(verifier_evidence)
        assert [body["response_format"]["type"] for body in bodies(server)] == ["json_schema", "json_object"]


async def test_a_setting_beats_what_would_be_found_out(coder_evidence: CoderEvidence) -> None:
    known = {"token_parameter": "max_tokens", "stream": "false", "temperature": False}
    with FakeOpenAIServer([CODE]) as server:
        await ask(server, coder_evidence, EVERYTHING, endpoint=known)
        (body,) = bodies(server)
    assert body["max_tokens"] == 500
    assert not {"max_completion_tokens", "temperature", "stream_options"} & body.keys()


@pytest.mark.parametrize("wrong", [{"token_parameter": "n_predict"}, {"colour": "red"}, {"stream": "perhaps"}])
def test_an_endpoint_setting_that_does_not_exist_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"endpoint: {next(iter(wrong))}: "):
        open_chat_model("openai:fake", base_url="http://127.0.0.1:9/v1", endpoint=wrong)


@pytest.mark.parametrize("spoiled", ["{", '{"profile": {"colour": 1}}', "[]", ""])
async def test_a_spoiled_profile_is_found_out_anew(spoiled: str, coder_evidence: CoderEvidence, tmp_path: Path) -> None:
    with FakeOpenAIServer([CODE], refuses=["seed"], repeat_last=True) as server:
        await ask(server, coder_evidence, EVERYTHING, profile_cache=tmp_path)
        (path,) = tmp_path.iterdir()  # noqa: ASYNC240
        path.write_text(spoiled)
        forget_endpoints()
        await ask(server, coder_evidence, EVERYTHING, profile_cache=tmp_path)
    assert json.loads(path.read_text())["profile"]["seed"] is False
    assert server.url not in path.read_text()


# --- streams ----------------------------------------------------------------------------------------------------


async def test_a_streamed_answer_is_the_plain_one_and_tells_its_progress(coder_evidence: CoderEvidence) -> None:
    told: list[tuple[str, str]] = []
    limits = EVERYTHING.model_copy(update={"progress_s": 0.0})
    with FakeOpenAIServer([CODE]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        options = ChatOptions(limits, tell=lambda role, line: told.append((role, line)))
        candidate, usage = await ChatCoder(model, options=options).write(coder_evidence)
    assert candidate.source == PROGRAM
    assert candidate.summary == "does it."
    assert usage.output_tokens == 20
    assert {role for role, _ in told} == {"coder"}
    assert told[-1][1].startswith(f"{len(CODE)} characters, line ")


async def test_a_streamed_answer_that_is_cut_off_is_continued(coder_evidence: CoderEvidence) -> None:
    with FakeOpenAIServer([FakeAnswer(CODE[:70], finish_reason="length"), CODE[70:]]) as server:
        await ask(server, coder_evidence, EVERYTHING)
        assert len(server.requests) == 2


async def test_a_streamed_refusal_is_a_failed_attempt(coder_evidence: CoderEvidence) -> None:
    declines = FakeAnswer(None, refusal="I will not")
    said = pytest.raises(EngineFailure, match="refused: the model declines: I will not")
    with FakeOpenAIServer([declines]) as server, said:
        await ask(server, coder_evidence, EVERYTHING)


async def test_no_more_calls_at_once_than_the_endpoint_may_get(coder_evidence: CoderEvidence) -> None:
    limits = EVERYTHING.model_copy(update={"concurrency": 2})
    with FakeOpenAIServer([FakeAnswer(CODE, delay_s=0.05)], repeat_last=True) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        await asyncio.gather(*(ChatCoder(model, limits).write(coder_evidence) for _ in range(6)))
        assert server.most_at_once == 2


# --- the window -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "window", "prompt"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 10240 tokens.",
            8192,
            10240,
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens "
            "(2000 in the messages, 1000 in the completion).",
            2048,
            2000,
        ),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096, None),
        ("prompt is too long", None, None),
    ],
)
def test_a_refusal_tells_the_window(text: str, window: int | None, prompt: int | None) -> None:
    assert told_window(text) == window
    assert told_prompt_tokens(text) == prompt


async def test_studio_sees_the_answer_grow_and_the_terminal_its_progress(coder_evidence: CoderEvidence) -> None:
    """Pieces reach whoever streams ``messages`` of the graph; lines of progress are ``custom`` events."""

    async def node(state: dict[str, Any]) -> dict[str, Any]:
        limits = EVERYTHING.model_copy(update={"progress_s": 0.0})
        model = open_chat_model("openai:fake", base_url=state["url"])

        def tell(role: str, line: str) -> None:
            get_stream_writer()({"stage": role, "message": line})

        candidate, _ = await ChatCoder(model, options=ChatOptions(limits, tell=tell)).write(coder_evidence)
        return {"url": candidate.source}

    class State(TypedDict):
        url: str

    builder = StateGraph(State)
    builder.add_node("coder", node)
    builder.add_edge(START, "coder")
    pieces: list[str] = []
    lines: list[str] = []
    with FakeOpenAIServer([CODE]) as server:
        async for mode, payload in builder.compile().astream({"url": server.url}, stream_mode=["messages", "custom"]):
            if mode == "messages":
                pieces.append(payload[0].text)
            else:
                lines.append(payload["message"])
    assert "".join(pieces) == CODE
    assert len(pieces) > 3
    assert len(lines) > 3


async def test_nothing_blocks_the_event_loop(coder_evidence: CoderEvidence, tmp_path: Path) -> None:
    """LangGraph's development server refuses blocking calls; profiles and answers are files."""
    blockbuster = pytest.importorskip("blockbuster")
    with FakeOpenAIServer([CODE], refuses=["seed"], windows={"fake": 30_000}) as server:
        model = open_chat_model("openai:fake", base_url=server.url, profile_cache=tmp_path / "endpoints")
        for calls in (2, 0):
            options = ChatOptions(EVERYTHING, AnswerCache(tmp_path / "answers"))
            with blockbuster.blockbuster_ctx():
                _, usage = await ChatCoder(model, options=options).write(coder_evidence)
            assert usage.calls == calls
    assert len(list((tmp_path / "endpoints").iterdir())) == 1
