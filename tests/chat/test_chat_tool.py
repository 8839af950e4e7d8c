"""The documentation as a tool of a chat model: used, bounded, cached, and given up where an endpoint refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool

from stitchcuda.core.errors import RetrievalError
from stitchcuda.graph.context import Context
from stitchcuda.nodes.engines.chat import (
    AnswerCache,
    CallLimits,
    ChatOptions,
    ChatPlanner,
    FakeAnswer,
    FakeOpenAIServer,
)
from stitchcuda.nodes.engines.chat.opening import ChatOpener
from stitchcuda.nodes.engines.chat.profile import endpoint_of, forget_endpoints
from stitchcuda.nodes.engines.chat.tool_use import MOST_CALLS
from stitchcuda.nodes.engines.protocols import EngineFailure
from stitchcuda.nodes.evidence import PlannerEvidence
from stitchcuda.rag_index import DocsIndex, Source, search_tool
from stitchcuda.traces import JsonlTracer, read_trace

OpenModel = Callable[..., BaseChatModel]
SEARCH = FakeAnswer(None, tool_calls=[("search_cuda_docs", {"query": "how do zebra stripes move", "passages": 1})])
FOUND = "zebra.md › Moving"


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseTool]:
    folder = tmp_path_factory.mktemp("manual")
    (folder / "zebra.md").write_text("# Zebra unit\n\n## Moving\n\nThe zebra unit moves stripes by `zebra_move`.\n")
    with DocsIndex.open(tmp_path_factory.mktemp("cache"), [Source("manual", folder)]) as index:
        yield search_tool(lambda: index)


@pytest.fixture(autouse=True)
def unknown_endpoints() -> None:
    forget_endpoints()


def plan(*citations: str) -> str:
    task = {"id": "a", "title": "t", "ops": ["relu"], "contract": "c", "technique": "k", "done_when": "d"}
    return json.dumps({"summary": "s", "subtasks": [{**task, "citations": list(citations)}]})


async def test_what_the_model_finds_is_shown_to_it_and_may_be_cited(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence, tool: BaseTool, tmp_path: Path
) -> None:
    told: list[str] = []
    options = ChatOptions(limits, tell=lambda role, line: told.append(f"{role}: {line}"), tool=tool)
    with FakeOpenAIServer([SEARCH, plan(FOUND, "made-up.md")]) as server:
        planner = ChatPlanner(open_model(server.url), options=options)

        async def ask(_: Any) -> Any:
            return await planner.plan(planner_evidence)

        tracer = JsonlTracer(tmp_path)
        answer, usage = await RunnableLambda(ask).ainvoke(None, {"callbacks": [tracer]})
        first, second = (request.body for request in server.requests)
    assert answer.subtasks[0].citations == (FOUND,)
    assert usage.calls == 2
    assert first["tools"][0]["function"]["name"] == "search_cuda_docs"
    assert "query" in first["tools"][0]["function"]["parameters"]["required"]
    asked, shown = second["messages"][-2:]
    assert (asked["role"], asked["tool_calls"][0]["id"]) == ("assistant", shown["tool_call_id"])
    assert shown["role"] == "tool"
    assert "moves stripes by `zebra_move`" in shown["content"]
    assert told == ["planner: searches the documentation: how do zebra stripes move"]
    runs = {run.name: run for run in read_trace(tmp_path / "trace.jsonl")}
    assert runs["search_cuda_docs"].run_type == "tool"
    assert "how do zebra stripes move" in json.dumps(runs["search_cuda_docs"].inputs)
    assert "zebra_move" in json.dumps(runs["search_cuda_docs"].outputs)


async def test_a_model_that_only_searches_is_stopped(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence, tool: BaseTool
) -> None:
    many = FakeAnswer(None, tool_calls=[("search_cuda_docs", {"query": f"zebra {number}"}) for number in range(3)])
    given_up = pytest.raises(EngineFailure, match="empty_answer")
    with FakeOpenAIServer([many], repeat_last=True) as server, given_up:
        await ChatPlanner(open_model(server.url), options=ChatOptions(limits, tool=tool)).plan(planner_evidence)
    bodies = [request.body for request in server.requests]
    assert len(bodies) == 2 + 1 + limits.answer_retries  # twice three searches, then an answer and its corrections
    assert [body["tool_choice"] for body in bodies] == ["auto", "auto", "none", "none", "none"]
    passages = [message["content"] for message in bodies[-1]["messages"] if message["role"] == "tool"]
    assert sum("zebra_move" in text for text in passages) == MOST_CALLS
    assert passages[MOST_CALLS:] == ["No further search is possible. Answer now."] * 2


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        (("search_cuda_docs", "{broken"), "not valid JSON"),
        (("search_cuda_docs", {"question": "zebra"}), "query"),
        (("run_shell", {"command": "ls"}), "There is no tool 'run_shell'; there is search_cuda_docs."),
    ],
)
async def test_a_wrong_call_goes_back_to_the_model(
    call: tuple[str, Any],
    reply: str,
    open_model: OpenModel,
    limits: CallLimits,
    planner_evidence: PlannerEvidence,
    tool: BaseTool,
) -> None:
    with FakeOpenAIServer([FakeAnswer(None, tool_calls=[call]), plan()]) as server:
        options = ChatOptions(limits, tool=tool)
        answer, _ = await ChatPlanner(open_model(server.url), options=options).plan(planner_evidence)
        last = server.requests[1].body["messages"][-1]
    assert answer.subtasks[0].id == "a"
    assert last["role"] == "tool"
    assert reply in last["content"]


async def test_an_index_that_cannot_be_opened_is_told_to_the_model(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence
) -> None:
    def fail() -> DocsIndex:
        raise RetrievalError("the cache is gone")

    with FakeOpenAIServer([SEARCH, plan()]) as server:
        options = ChatOptions(limits, tool=search_tool(fail))
        await ChatPlanner(open_model(server.url), options=options).plan(planner_evidence)
        assert "cannot be searched: the cache is gone" in server.requests[1].text


@pytest.mark.parametrize(
    "refusal",
    [
        FakeAnswer(status=400, error='"auto" tool choice requires --enable-auto-tool-choice'),
        FakeAnswer(status=400, error="this model does not support tools"),
        FakeAnswer(status=404, error="No endpoints found that support tool use"),
        FakeAnswer(status=500, error="tools param requires --jinja flag"),
        FakeAnswer(status=400, error="extra fields not permitted"),
    ],
)
async def test_an_endpoint_that_refuses_tools_is_asked_without_them(
    refusal: FakeAnswer,
    open_model: OpenModel,
    limits: CallLimits,
    planner_evidence: PlannerEvidence,
    tool: BaseTool,
) -> None:
    told: list[str] = []
    options = ChatOptions(limits, tell=lambda role, line: told.append(line), tool=tool)  # noqa: ARG005

    def answer(request: Any) -> FakeAnswer | str:
        return refusal if "tools" in request.body else plan()

    with FakeOpenAIServer(answer) as server:
        model = open_model(server.url)
        for _ in range(2):
            answered, _ = await ChatPlanner(model, options=options).plan(planner_evidence)
        bodies = [request.body for request in server.requests]
        profile = endpoint_of(model).profile
    assert answered.subtasks[0].id == "a"
    assert ["tools" in body for body in bodies] == [True, False, False]
    assert "response_format" in bodies[-1]  # the refusal cost the tools and nothing else
    assert not profile.tools
    assert told == ["the endpoint takes no tools: the model cannot search the documentation itself"]


async def test_a_repeated_question_and_its_searches_come_from_the_cache(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence, tool: BaseTool, tmp_path: Path
) -> None:
    with FakeOpenAIServer([SEARCH, plan(FOUND)]) as server:
        model = open_model(server.url)
        for cached in (0, 2):
            options = ChatOptions(limits, AnswerCache(tmp_path), tool=tool)
            answer, usage = await ChatPlanner(model, options=options).plan(planner_evidence)
            assert answer.subtasks[0].citations == (FOUND,)
            assert usage.cached == cached
        assert len(server.requests) == 2


async def test_passages_that_do_not_fit_the_window_are_not_shown(
    open_model: OpenModel, limits: CallLimits, planner_evidence: PlannerEvidence, tool: BaseTool
) -> None:
    small = limits.model_copy(update={"context_tokens": 1024, "max_output_tokens": 256})
    with FakeOpenAIServer([SEARCH, plan()]) as server:
        options = ChatOptions(small, tool=tool)
        await ChatPlanner(open_model(server.url), options=options).plan(planner_evidence)
        assert server.requests[1].body["messages"][-1]["content"] == "No further search is possible. Answer now."


def test_the_setting_offers_the_tool() -> None:
    context = Context(planner="openai:fake", base_url="http://127.0.0.1:9/v1")
    assert ChatOpener(context).options("planner").tool is None
    offered = ChatOpener(context.model_copy(update={"retrieval_tool": True})).options("planner").tool
    assert offered is not None
    assert offered.name == "search_cuda_docs"
