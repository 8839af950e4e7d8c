"""The run's seconds bound every chat call: waiting for an answer, for a pause to pass, for a place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from langchain_core.language_models import BaseChatModel

from stitchcuda.core.records import CandidateSource
from stitchcuda.nodes.engines.chat import CallLimits, ChatCoder, FakeAnswer, FakeOpenAIServer
from stitchcuda.nodes.engines.deadline import seconds_left, until
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence

OpenModel = Callable[..., BaseChatModel]
PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"
PATIENT = {"timeout_s": 60.0, "max_retries": 5, "backoff_s": 20.0}
OUT_OF_TIME = "^chat coder: out_of_time: the run's budget of seconds"


@pytest.mark.parametrize(
    "answer",
    [
        FakeAnswer(CODE, delay_s=30.0),
        FakeAnswer(CODE, drip_s=0.05),
        FakeAnswer(status=429, headers={"Retry-After": "30"}),
        FakeAnswer(status=503),
        FakeAnswer("no program", delay_s=0.3),
    ],
    ids=["silent", "dripping", "429", "503", "prose"],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_ends_with_the_run(
    answer: FakeAnswer, stream: bool, open_model: OpenModel, coder_evidence: CoderEvidence
) -> None:
    limits = CallLimits.model_validate({**PATIENT, "stream": stream, "answer_retries": 1000})
    with FakeOpenAIServer([CODE, answer], repeat_last=True) as server:
        coder = ChatCoder(open_model(server.url), limits)
        await coder.write(coder_evidence)  # what the first call of a process loads is not measured
        started = time.monotonic()
        with until(started + 0.8), pytest.raises(EngineFailure, match=OUT_OF_TIME) as caught:
            await coder.write(coder_evidence)
        took = time.monotonic() - started
        assert caught.value.usage.calls == len(server.requests) - 1 >= 1
    assert 0.8 <= took < 3.0


async def test_waiting_for_a_place_counts_too(open_model: OpenModel, coder_evidence: CoderEvidence) -> None:
    limits = CallLimits.model_validate({**PATIENT, "concurrency": 1})
    with FakeOpenAIServer([CODE, FakeAnswer(CODE, delay_s=30.0)], repeat_last=True) as server:
        coder = ChatCoder(open_model(server.url), limits)
        await coder.write(coder_evidence)
        started = time.monotonic()
        with until(started + 0.8), pytest.raises(EngineFailure, match="no usable answer among 3"):
            await coder.write_several(coder_evidence, 3)
        assert time.monotonic() - started < 3.0
        assert len(server.requests) == 2


async def test_after_the_end_nothing_is_asked(open_model: OpenModel, coder_evidence: CoderEvidence) -> None:
    with FakeOpenAIServer([CODE]) as server:
        coder = ChatCoder(open_model(server.url), CallLimits())
        with until(time.monotonic() - 1.0), pytest.raises(EngineFailure, match=OUT_OF_TIME):
            await coder.write(coder_evidence)
        assert server.requests == []
        # Time that suffices changes nothing.
        with until(time.monotonic() + 60.0):
            candidate, _ = await coder.write(coder_evidence)
        assert candidate.source == PROGRAM


async def test_a_call_of_its_own_limit_is_a_timeout(open_model: OpenModel, coder_evidence: CoderEvidence) -> None:
    limits = CallLimits(timeout_s=0.3, max_retries=0)
    silent = FakeOpenAIServer([FakeAnswer(CODE, delay_s=30.0)], repeat_last=True)
    with (
        silent as server,
        until(time.monotonic() + 60.0),
        pytest.raises(EngineFailure, match=r"^chat coder: timeout: "),
    ):
        await ChatCoder(open_model(server.url), limits).write(coder_evidence)


async def test_runs_side_by_side_have_their_own_ends() -> None:
    async def run(seconds: float) -> float:
        with until(time.monotonic() + seconds):
            await asyncio.sleep(0.01)
            left = seconds_left()
        assert left is not None
        return left

    short, long = await asyncio.gather(run(10.0), run(1000.0))
    assert 9.0 < short <= 10.0
    assert 999.0 < long <= 1000.0
    assert seconds_left() is None


async def test_a_candidate_that_builds_on_the_seed_keeps_its_ops(
    open_model: OpenModel, coder_evidence: CoderEvidence
) -> None:
    seed = CandidateSource(source=PROGRAM, own_ops=("mul", "relu"))
    with FakeOpenAIServer([CODE, CODE]) as server:
        coder = ChatCoder(open_model(server.url), CallLimits())
        candidate, _ = await coder.write(coder_evidence.model_copy(update={"previous": seed}))
        scratch, _ = await coder.write(coder_evidence.model_copy(update={"previous": None}))
    assert (candidate.own_ops, scratch.own_ops) == (("mul", "relu"), ())
