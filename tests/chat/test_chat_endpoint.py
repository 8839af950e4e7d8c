"""A server that misbehaves: each way ends in an answer, a failed attempt, or one clear line."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda

from stitchcuda.core.errors import ModelError
from stitchcuda.nodes.engines.chat import CallLimits, ChatCoder, ChatPlanner, ChatVerifier, FakeAnswer, FakeOpenAIServer
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence, PlannerEvidence, VerifierEvidence

OpenModel = Callable[..., BaseChatModel]
SECRET = "planted-0123456789abcdef"
PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"
FEEDBACK = json.dumps(
    {"evidence": ["line 17"], "replan": False, "instruction": "add it", "expectation": "builds", "citations": []}
)


async def failure_of(
    server: FakeOpenAIServer, model: BaseChatModel, limits: CallLimits, evidence: CoderEvidence
) -> str:
    with pytest.raises(EngineFailure) as caught:
        await ChatCoder(model, limits).write(evidence)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.usage.calls == len(server.requests)
    return message


@pytest.mark.parametrize(
    "hiccup",
    [
        FakeAnswer(status=429, headers={"Retry-After": "0"}),
        FakeAnswer(status=500),
        FakeAnswer(status=502),
        FakeAnswer(status=503),
        FakeAnswer(drop="before"),
        FakeAnswer(drop="within", content="x" * 400),
        FakeAnswer(body=b"<html>bad gateway</html>", content_type="text/html"),
        FakeAnswer(body=b'{"choices": [', content_type="application/json"),
        FakeAnswer(body=b'{"choices": []}'),
        FakeAnswer(body=b'{"choices": null}'),
        FakeAnswer(body=b'{"choices": [{}]}'),
        FakeAnswer(body=b"[1, 2]"),
        FakeAnswer(body=b""),
        FakeAnswer(body=b'{"error": {"message": "backend asleep"}}'),
        FakeAnswer(body=b'{"choices": [{"message": {"role": "assistant", "content": 5}}]}'),
    ],
    ids=lambda answer: f"{answer.status}-{answer.drop}-{(answer.body or b'').decode()[:24]}",
)
async def test_a_passing_fault_is_retried(
    hiccup: FakeAnswer, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([hiccup, CODE]) as server:
        candidate, usage = await ChatCoder(open_model(server.url), limits).write(coder_evidence)
    assert candidate.source == PROGRAM
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 100, 20)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (FakeAnswer(status=429), "rate_limited"),
        (FakeAnswer(status=500), "server_error"),
        (FakeAnswer(drop="before"), "connection_lost"),
        (FakeAnswer(body=b"[]"), "malformed_answer"),
    ],
)
async def test_a_fault_that_does_not_pass_is_a_failed_attempt(
    answer: FakeAnswer, code: str, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([answer], repeat_last=True) as server:
        message = await failure_of(server, open_model(server.url), limits, coder_evidence)
        assert f"chat coder: {code}: " in message
        assert len(server.requests) == 1 + limits.max_retries


@pytest.mark.parametrize(
    "slow", [FakeAnswer(CODE, delay_s=30.0), FakeAnswer(CODE, drip_s=0.05)], ids=["silent", "dripping"]
)
async def test_a_slow_answer_is_given_up_in_time(
    slow: FakeAnswer, open_model: OpenModel, coder_evidence: CoderEvidence
) -> None:
    limits = CallLimits(timeout_s=0.4, max_retries=1, backoff_s=0.001)
    started = time.monotonic()
    with FakeOpenAIServer([slow], repeat_last=True) as server:
        message = await failure_of(server, open_model(server.url), limits, coder_evidence)
    assert ": timeout: " in message
    assert time.monotonic() - started < 5.0


@pytest.mark.parametrize(
    ("server_options", "answer", "expected"),
    [
        ({"key": "another"}, CODE, "OPENAI_API_KEY"),
        ({"models": ["real-model"]}, CODE, "model name"),
        ({}, FakeAnswer(status=403, error="no access"), "denies access"),
        ({}, FakeAnswer(status=429, code="insufficient_quota", error="You exceeded your quota"), "no quota"),
        ({}, FakeAnswer(status=400, error="temperature is not supported"), "temperature is not supported"),
    ],
)
async def test_what_another_try_does_not_mend_ends_the_run_at_once(
    server_options: dict[str, Any],
    answer: FakeAnswer | str,
    expected: str,
    open_model: OpenModel,
    limits: CallLimits,
    coder_evidence: CoderEvidence,
) -> None:
    with FakeOpenAIServer([answer], repeat_last=True, **server_options) as server:
        with pytest.raises(ModelError, match=expected) as caught:
            await ChatCoder(open_model(server.url, key=SECRET), limits).write(coder_evidence)
        assert len(server.requests) == 1
        assert "127.0.0.1" in str(caught.value)
        assert "'fake'" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            FakeAnswer(status=400, code="context_length_exceeded", error="maximum context length is 8192"),
            "context_too_long",
        ),
        (FakeAnswer(status=400, error="flagged by our content_filter"), "refused"),
        (FakeAnswer("", finish_reason="content_filter"), "refused"),
        (FakeAnswer(None, refusal="I will not"), "refused"),
    ],
)
async def test_a_prompt_that_is_not_taken_is_a_failed_attempt_without_retries(
    answer: FakeAnswer, code: str, open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([answer], repeat_last=True) as server:
        assert f": {code}: " in await failure_of(server, open_model(server.url), limits, coder_evidence)
        assert len(server.requests) == 1


async def test_an_address_where_nobody_listens_ends_the_run(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://user:hush@127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="cannot be reached: check --base-url") as caught:
            await ChatCoder(open_model(url), limits).write(coder_evidence)
    assert "hush" not in str(caught.value)


async def test_an_endpoint_that_goes_away_after_answering_is_waited_for(
    open_model: OpenModel, coder_evidence: CoderEvidence
) -> None:
    limits = CallLimits(max_retries=2, backoff_s=0.1, backoff_limit_s=0.2)
    with FakeOpenAIServer([CODE]) as server:
        model = open_model(server.url)
        await ChatCoder(model, limits).write(coder_evidence)
    started = time.monotonic()
    with pytest.raises(ModelError, match="cannot be reached"):
        await ChatCoder(model, limits).write(coder_evidence)
    assert time.monotonic() - started > 0.14  # two pauses, each at least half of its nominal length


async def test_the_pause_grows_and_honours_retry_after_up_to_the_limit(
    open_model: OpenModel, coder_evidence: CoderEvidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr("stitchcuda.nodes.engines.chat.conversation.asyncio.sleep", sleep)
    answers = [FakeAnswer(status=500), FakeAnswer(status=500), FakeAnswer(status=429, headers={"Retry-After": "7"})]
    answers += [FakeAnswer(status=429, headers={"Retry-After": "900"}), FakeAnswer(CODE)]
    with FakeOpenAIServer(answers) as server:
        limits = CallLimits(max_retries=4, backoff_s=1.0, backoff_limit_s=20.0)
        await ChatCoder(open_model(server.url), limits).write(coder_evidence)
    pauses = [pause for pause in pauses if pause > 0.05]
    assert 0.5 <= pauses[0] <= 1.0
    assert 1.0 <= pauses[1] <= 2.0
    assert pauses[2:] == [7.0, 20.0]


@pytest.mark.parametrize(
    "server_options", [{"key": "another"}, {"models": ["real"]}], ids=["key_echoed_by_server", "unknown_model"]
)
async def test_the_key_is_nowhere(
    server_options: dict[str, Any],
    open_model: OpenModel,
    limits: CallLimits,
    coder_evidence: CoderEvidence,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []

    class Tracer(AsyncCallbackHandler):
        async def on_chat_model_start(self, serialized: dict[str, Any], messages: Any, **kwargs: Any) -> None:
            seen.append(f"{serialized} {messages} {kwargs}")

        async def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
            seen.append(f"{error!r} {kwargs} " + "".join(traceback.format_exception(error)))

    caplog.set_level(logging.DEBUG)
    with FakeOpenAIServer([CODE], **server_options) as server:
        model = open_model(server.url, key=SECRET)
        engine = ChatCoder(model, limits)
        with pytest.raises(ModelError) as caught:
            await RunnableLambda(engine.write).ainvoke(coder_evidence, {"callbacks": [Tracer()]})
        assert [request.key for request in server.requests] == [SECRET]
    shown = "".join(traceback.format_exception(caught.value)) + repr(model) + str(model.metadata) + caplog.text
    assert len(seen) == 2, "the callbacks of the surrounding run reach the model's call"
    assert SECRET not in shown + "".join(seen)
    assert "0123456789abcdef" not in shown + "".join(seen)


async def test_a_server_error_that_echoes_the_key_in_a_failed_attempt(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([FakeAnswer(status=400, error=f"content_filter saw Bearer {SECRET}")]) as server:
        message = await failure_of(server, open_model(server.url, key=SECRET), limits, coder_evidence)
    assert "[key]" in message
    assert SECRET not in message


async def test_a_masked_key_that_the_server_shows_is_taken_out_too(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    error = FakeAnswer(status=403, error="the key sk-proj-abcd****wxyz lacks a right")
    with FakeOpenAIServer([error]) as server, pytest.raises(ModelError, match=r"the key \[key\] lacks") as caught:
        await ChatCoder(open_model(server.url), limits).write(coder_evidence)
    assert "wxyz" not in str(caught.value)


async def test_a_local_server_needs_no_key(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([CODE]) as server:
        await ChatCoder(open_model(server.url), limits).write(coder_evidence)
        assert server.requests[0].key == "no-key-needed"


async def test_an_unsupported_schema_is_dropped_and_remembered(
    open_model: OpenModel, limits: CallLimits, verifier_evidence: VerifierEvidence
) -> None:
    fenced = f"The cause is clear.\n```json\n{FEEDBACK}\n```\n"
    with FakeOpenAIServer([fenced], takes_schema=False, repeat_last=True) as server:
        feedback, usage = await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
        assert feedback.instruction == "add it"
        assert ["response_format" in request.body for request in server.requests] == [True, False]
        assert usage.calls == 2
        # Another model object for the same endpoint knows it already.
        await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
        assert ["response_format" in request.body for request in server.requests] == [True, False, False]


async def test_openai_s_own_words_for_an_unsupported_schema_raise_no_warning(
    open_model: OpenModel, limits: CallLimits, verifier_evidence: VerifierEvidence
) -> None:
    words = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
    with FakeOpenAIServer([FakeAnswer(status=400, error=words), FEEDBACK]) as server:
        feedback, _ = await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
    assert feedback.kind == "repair"


async def test_a_400_that_is_not_about_the_schema_does_not_switch_it_off(
    open_model: OpenModel, limits: CallLimits, verifier_evidence: VerifierEvidence
) -> None:
    refused = FakeAnswer(status=400, error="the moon is in the wrong phase")
    with FakeOpenAIServer([refused, refused, FEEDBACK]) as server:
        with pytest.raises(ModelError, match="wrong phase"):
            await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
        await ChatVerifier(open_model(server.url), limits).diagnose(verifier_evidence)
        assert "response_format" in server.requests[-1].body


async def test_the_schema_is_sent_in_its_strict_form(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    with FakeOpenAIServer([FakeAnswer(status=400, code="context_length_exceeded", error="context length")]) as server:
        with pytest.raises(EngineFailure):
            await ChatPlanner(open_model(server.url), limits).plan(planner_evidence)
        sent = server.requests[0].body["response_format"]["json_schema"]
    assert sent["strict"] is True

    def check(node: Any) -> None:
        if isinstance(node, dict):
            if "properties" in node:
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            assert "default" not in node
            for value in node.values():
                check(value)
        elif isinstance(node, list):
            for value in node:
                check(value)

    check(sent["schema"])
    assert set(sent["schema"]["$defs"]["SubTaskAnswer"]["properties"]) >= {"id", "title", "ops"}


def test_one_model_serves_several_event_loops(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([CODE], repeat_last=True) as server:
        engine = ChatCoder(open_model(server.url), limits)
        for _ in range(3):
            candidate, _ = asyncio.run(engine.write(coder_evidence))
            assert candidate.source == PROGRAM


async def test_a_cancelled_call_ends_at_once(
    open_model: OpenModel, limits: CallLimits, coder_evidence: CoderEvidence
) -> None:
    with FakeOpenAIServer([FakeAnswer(CODE, delay_s=30.0)]) as server:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await ChatCoder(open_model(server.url), limits).write(coder_evidence)
        assert time.monotonic() - started < 3.0
        assert len(server.requests) == 1


def test_the_sync_side_is_guarded_too(open_model: OpenModel) -> None:
    with FakeOpenAIServer([FakeAnswer(status=401, error=f"bad key {SECRET}"), "hello"]) as server:
        model = open_model(server.url, key=SECRET)
        with pytest.raises(Exception, match="401") as caught:
            model.invoke("hi")
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert model.invoke("hi").text == "hello"
