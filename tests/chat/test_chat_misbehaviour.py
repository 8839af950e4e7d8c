"""Ways in which endpoints misbehave: each ends in a status and one clear line, streamed or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from stitchcuda.core.errors import ModelError
from stitchcuda.graph.context import Context
from stitchcuda.graph.solve import solve
from stitchcuda.nodes.engines.chat import CallLimits, ChatCoder, FakeAnswer, FakeOpenAIServer, open_chat_model
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence
from stitchcuda.problems import load_problem

PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"
PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 3.0)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""


def events(*data: str) -> FakeAnswer:
    return FakeAnswer(events=data)


PLAIN: dict[str, tuple[FakeAnswer | str, str]] = {
    "429 storm": (FakeAnswer(status=429), "rate_limited: .* limits the rate"),
    "429 with a date": (
        FakeAnswer(status=429, headers={"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}),
        "rate_limited: .* limits the rate",
    ),
    "500": (FakeAnswer(status=500), "server_error: .* answers 500"),
    "503 with a page": (
        FakeAnswer(status=503, body=b"<html>sleeping</html>", content_type="text/html"),
        "server_error: .* answers 503",
    ),
    "529": (FakeAnswer(status=529), "server_error: .* answers 529"),
    "hangs up": (FakeAnswer(drop="before"), "connection_lost: .* broke the connection"),
    "hangs up within": (FakeAnswer("x" * 900, drop="within"), "connection_lost: .* broke the connection"),
    "silent": (FakeAnswer(CODE, delay_s=30.0), "timeout: .* did not answer in time"),
    "dripping": (FakeAnswer(CODE, drip_s=0.05), "timeout: .* did not answer in time"),
    "a web page": (FakeAnswer(body=b"<html>", content_type="text/html"), "malformed_answer: .* is not JSON"),
    "half JSON": (FakeAnswer(body=b'{"choices": [{'), "malformed_answer: .* is not JSON"),
    "not UTF-8": (FakeAnswer(body=b'{"choices": "\xff\xfe"}'), "malformed_answer: "),
    "no choices": (FakeAnswer(body=b'{"choices": []}'), "malformed_answer: .* no choices"),
    "a list": (FakeAnswer(body=b"[]"), "malformed_answer: .* not a JSON object"),
    "an error as success": (FakeAnswer(body=b'{"error": "asleep"}'), "malformed_answer: .* is an error: .asleep"),
    "a number as content": (
        FakeAnswer(body=b'{"choices": [{"message": {"role": "assistant", "content": 5}}]}'),
        "malformed_answer: .* wrong type",
    ),
    "nothing at all": (FakeAnswer(body=b""), "malformed_answer: .* is not JSON"),
    "deep JSON": (FakeAnswer(body=b"[" * 200_000), "malformed_answer: .* is not JSON"),
}

STREAMS: dict[str, tuple[FakeAnswer | str, str]] = {
    "stream of no JSON": (events("{nothing", "[DONE]"), "malformed_answer: .* is not JSON"),
    "stream of lists": (events("[1]", "[DONE]"), "malformed_answer: .* not a JSON object"),
    "stream with wrong choices": (events('{"choices": 5}', "[DONE]"), "malformed_answer: .* wrong type"),
    "stream with a wrong choice": (events('{"choices": [5]}', "[DONE]"), "malformed_answer: .* wrong form"),
    "stream with a number": (
        events('{"choices": [{"index": 0, "delta": {"content": 5}}]}', "[DONE]"),
        "malformed_answer: .* wrong form",
    ),
    "stream with an error": (
        events('{"error": {"message": "overloaded"}}'),
        "malformed_answer: .* holds an error: .*overloaded",
    ),
    "stream of nothing": (events(), "connection_lost: .* broke the connection"),
    "stream that is only done": (events("[DONE]"), "malformed_answer: .* holds no answer"),
    "stream that ends early": (FakeAnswer(CODE, cut_stream=True), "connection_lost: .* broke the connection"),
    "deep stream": (events("[" * 100_000), "malformed_answer: .* is not JSON"),
    "a page as a stream": (
        FakeAnswer(body=b"<html>busy</html>", content_type="text/event-stream"),
        "connection_lost: .* broke the connection",
    ),
}

ANSWERS: dict[str, tuple[FakeAnswer | str, str]] = {
    "empty": ("", "empty_answer: .* empty"),
    "no text": (FakeAnswer(None), "empty_answer: .* empty"),
    "reasoning without an end": ("<think>\nwhat if", "empty_answer: .* reasoning without an end"),
    "huge": ("word " * 210_000, "too_long: the answer has 1050000 characters"),
    "prose": ("I would write a kernel.", "no_code: the answer holds no Python program"),
    "broken program": ("```python\nclass ModelNew(:\n```", "bad_python: the program is not valid Python"),
    "another class": ("```python\nclass Model: pass\n```", "no_model_new: .* does not define ModelNew"),
    "always cut off": (FakeAnswer("```python\nclass Mod", finish_reason="length"), "truncated: .* cut off"),
    "only reasoning, cut": (FakeAnswer("", finish_reason="length"), "truncated: .* cut off"),
    "content filter": (FakeAnswer("part", finish_reason="content_filter"), "refused: .* content filter"),
    "declines": (FakeAnswer(None, refusal="I will not"), "refused: the model declines: I will not"),
    "prompt refused": (FakeAnswer(status=400, error="content policy"), "refused: .* refuses the prompt"),
    "prompt too long": (FakeAnswer(status=413), "context_too_long: .* does not fit"),
    "prompt too long, in words": (
        FakeAnswer(status=400, error="maximum context length is 900 tokens"),
        "context_too_long: .* does not fit",
    ),
}

ENDS: dict[str, tuple[FakeAnswer | str, str]] = {
    "wrong key": (FakeAnswer(status=401), "does not accept the key .401.: check OPENAI_API_KEY"),
    "no right": (FakeAnswer(status=403), "denies access .403."),
    "wrong model name": (FakeAnswer(status=404, code="model_not_found"), "check the model name and --base-url"),
    "no quota": (FakeAnswer(status=429, code="insufficient_quota"), "the account has no quota left"),
    "bad request": (FakeAnswer(status=400, error="the moon is wrong"), "does not accept the request .* the moon"),
    "redirect": (FakeAnswer(status=302, headers={"Location": "http://127.0.0.1:1/x"}), "cannot be reached"),
}

FAILS = {**PLAIN, **STREAMS, **ANSWERS}


def test_there_are_enough_ways() -> None:
    assert len(PLAIN) + len(ANSWERS) + len(ENDS) >= 25


def patience(*, stream: bool) -> CallLimits:
    return CallLimits(
        timeout_s=0.6, max_retries=1, backoff_s=0.001, answer_retries=1, stream=stream, backoff_limit_s=0.01
    )


@pytest.mark.parametrize(
    ("name", "stream"),
    [(name, False) for name in (*PLAIN, *ANSWERS)]
    + [(name, True) for name in FAILS if "JSON" not in name or "stream" in name],
)
async def test_a_failed_attempt_says_why_in_one_line(name: str, stream: bool, coder_evidence: CoderEvidence) -> None:
    answer, said = FAILS[name]
    started = time.monotonic()
    with FakeOpenAIServer([answer], repeat_last=True) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        with pytest.raises(EngineFailure, match=f"^chat coder: {said}") as caught:
            await ChatCoder(model, patience(stream=stream)).write(coder_evidence)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert caught.value.usage.calls >= 1
    assert time.monotonic() - started < 10.0


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_no_other_try_mends_ends_the_run(name: str, stream: bool, coder_evidence: CoderEvidence) -> None:
    answer, said = ENDS[name]
    with FakeOpenAIServer([answer], repeat_last=True) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        with pytest.raises(ModelError, match=said) as caught:
            await ChatCoder(model, patience(stream=stream)).write(coder_evidence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*PLAIN, *STREAMS])
async def test_a_hiccup_of_each_kind_is_got_over(name: str, coder_evidence: CoderEvidence) -> None:
    answer, _ = FAILS[name]
    stream = name in STREAMS
    with FakeOpenAIServer([answer, CODE]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        candidate, usage = await ChatCoder(model, patience(stream=stream)).write(coder_evidence)
    assert candidate.source == PROGRAM
    assert usage.calls == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILS)
async def test_a_whole_run_ends_with_a_status_and_a_line(name: str, tmp_path: Path) -> None:
    answer, said = FAILS[name]
    path = tmp_path / "clip.py"
    path.write_text(PROBLEM)
    roles: dict[str, Sequence[FakeAnswer | str]] = {"coder": [answer] * 40}
    with FakeOpenAIServer(roles) as server:
        context = Context(
            device="cpu",
            coder="openai:fake",
            base_url=server.url,
            model_timeout_s=0.6,
            model_retries=0,
            max_attempts=2,
            cross_compile=None,
        )
        result = await solve(await asyncio.to_thread(load_problem, path), context, run_dir=tmp_path / "run")
    assert (result.status, result.stop_reason, result.solved) == ("no_candidate", "attempts_spent", False)
    assert result.attempts == 2
    report = (tmp_path / "run" / "report.md").read_text()
    assert said.split(":")[0] in report
    assert "engine_failure" in report
