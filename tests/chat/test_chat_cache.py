"""The answer cache: what is the same question, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from stitchcuda.nodes.engines.chat import (
    AnswerCache,
    CallLimits,
    ChatCoder,
    ChatOptions,
    FakeAnswer,
    FakeOpenAIServer,
    open_chat_model,
)
from stitchcuda.nodes.engines.chat.answer_cache import CachedAnswer, without_measurements
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import CoderEvidence

PROGRAM = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
CODE = f"Summary: does it.\n```python\n{PROGRAM}```\n"
LIMITS = CallLimits(max_retries=0, backoff_s=0.001, answer_retries=0)
ENDPOINT = ("http://h/v1", "m")


async def write(server: FakeOpenAIServer, folder: Path, evidence: CoderEvidence, limits: CallLimits = LIMITS) -> int:
    """Calls that a Coder of a new run made."""
    model = open_chat_model("openai:fake", base_url=server.url)
    _, usage = await ChatCoder(model, options=ChatOptions(limits, AnswerCache(folder))).write(evidence)
    assert usage.calls + usage.cached == 1
    assert (usage.cost_usd > 0) == (usage.calls > 0 and limits.input_usd > 0)
    return usage.calls


async def test_the_same_question_is_asked_once(coder_evidence: CoderEvidence, tmp_path: Path) -> None:
    priced = LIMITS.model_copy(update={"input_usd": 1.0})
    with FakeOpenAIServer([CODE], repeat_last=True) as server:
        assert [await write(server, tmp_path, coder_evidence, priced) for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(
    "change", [{"temperature": 0.1}, {"seed": 4}, {"max_output_tokens": 9000}, {"reasoning_effort": "high"}]
)
async def test_other_settings_are_another_question(
    change: dict[str, object], coder_evidence: CoderEvidence, tmp_path: Path
) -> None:
    with FakeOpenAIServer([CODE], repeat_last=True) as server:
        await write(server, tmp_path, coder_evidence)
        assert await write(server, tmp_path, coder_evidence, LIMITS.model_copy(update=change)) == 1


async def test_samples_are_other_questions(coder_evidence: CoderEvidence, tmp_path: Path) -> None:
    answers = [CODE, CODE.replace("return x", "return x + 0")]
    with FakeOpenAIServer(answers) as server:
        limits = LIMITS.model_copy(update={"concurrency": 1})
        model = open_chat_model("openai:fake", base_url=server.url)
        found = []
        for _ in range(2):
            coder = ChatCoder(model, options=ChatOptions(limits, AnswerCache(tmp_path)))
            sources, usage = await coder.write_several(coder_evidence, 2)
            found.append(sorted(one.source for one in sources))
    assert found[0] == found[1]
    assert len(found[0]) == 2
    assert (usage.calls, usage.cached) == (0, 2)


async def test_a_question_repeated_within_a_run_is_asked_again(coder_evidence: CoderEvidence, tmp_path: Path) -> None:
    with FakeOpenAIServer([CODE, CODE.replace("return x", "return x + 0")]) as server:
        model = open_chat_model("openai:fake", base_url=server.url)
        for expected in (1, 0):  # the second run finds both answers, each in its place
            coder = ChatCoder(model, options=ChatOptions(LIMITS, AnswerCache(tmp_path)))
            first, usage = await coder.write(coder_evidence)
            second, more = await coder.write(coder_evidence)
            assert (usage.calls, more.calls) == (expected, expected)
            assert ("+ 0" in first.source, "+ 0" in second.source) == (False, True)


async def test_faults_and_refusals_are_not_kept(coder_evidence: CoderEvidence, tmp_path: Path) -> None:
    with FakeOpenAIServer([FakeAnswer(status=500), FakeAnswer(None, refusal="no"), CODE]) as server:
        for _ in range(2):
            with pytest.raises(EngineFailure):
                await write(server, tmp_path, coder_evidence)
        assert await write(server, tmp_path, coder_evidence) == 1


@pytest.mark.parametrize("spoiled", ["", "{", '{"version": 1}', '{"version": 99, "model": "m", "text": "old"}'])
def test_a_spoiled_entry_is_no_answer(spoiled: str, tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path)
    key = cache.key(ENDPOINT, [HumanMessage("q")], {})
    cache.put(key, CachedAnswer(model="m", text="a"))
    stored = cache.get(key)
    assert stored is not None
    assert stored.text == "a"
    (file,) = tmp_path.glob("*/*.json")
    file.write_text(spoiled)
    assert cache.get(key) is None
    assert AnswerCache(tmp_path, reuse=False).get(key) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = AnswerCache(tmp_path / "file")
    key = cache.key(ENDPOINT, [HumanMessage("q")], {})
    cache.put(key, CachedAnswer(model="m", text="a"))
    assert cache.get(key) is None


def key(text: str) -> str:
    return AnswerCache(Path()).key(ENDPOINT, [HumanMessage(text)], {})


def test_measured_figures_do_not_make_another_question() -> None:
    first = (
        "```\ntotal 1.234 ms (torch.profiler)\n 60.1%     0.7400 ms      1x mm\n 30.2%     0.3700 ms      2x relu\n```"
    )
    again = (
        "```\ntotal 1.310 ms (torch.profiler)\n 50.9%     0.6600 ms      2x relu\n 48.8%     0.6400 ms      1x mm\n```"
    )
    other = again.replace("relu", "gelu")
    assert key(first) == key(again)
    assert key(first) != key(other)
    assert key("message: out[3, 4] is 0.5, not 0.25") == key("message: out[1, 9] is 0.7, not 0.35")


def test_programs_count_word_for_word() -> None:
    program = "```python\ny = x * 0.5\nz = y\n```"
    assert key(program) != key(program.replace("0.5", "0.25"))
    assert key(program) != key("```python\nz = y\ny = x * 0.5\n```")
    assert without_measurements(program) == program
    assert without_measurements(program + "\n1.5 ms") == program + "\n# ms"
