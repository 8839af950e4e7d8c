"""What a run leaves in ``trace.jsonl``, also when it is cut, killed, resumed or full of secrets."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from pydantic import SecretStr

from stitchcuda.core.records import Evaluation, Status
from stitchcuda.traces import JsonlTracer, read_blobs, read_trace, render_tree, span, tree

SOURCE = "__global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }\n" * 200
KEY = "very-private-key-1234"


class State(TypedDict, total=False):
    task: str
    source: str
    verdict: Any
    api_key: Any


async def planner(state: State) -> State:
    async with span("retrieve", {"query": "softmax"}, run_type="retriever") as step:
        step.outputs = {"documents": [{"text": "Subtract the row maximum first.", "source": "softmax.md"}]}
    model = GenericFakeChatModel(
        messages=iter(
            [
                AIMessage(
                    content="a plan",
                    usage_metadata={"input_tokens": 11, "output_tokens": 5, "total_tokens": 16},
                )
            ]
        )
    )
    await model.ainvoke(f"plan {state['task']} with {KEY}")
    return {"source": SOURCE}


async def verifier(state: State) -> State:
    async with span("build", {"source": state["source"]}) as step:
        step.outputs = {"ok": True}
    return {"verdict": Evaluation(candidate_id=1, status=Status.PASSED, device="cpu")}


async def broken(state: State) -> State:
    raise ValueError(f"no such op in {state['task']}; key was {KEY}")


def build(second: Any = verifier) -> Any:
    builder = StateGraph(State)
    builder.add_node("planner", planner)
    builder.add_node("verifier", second)
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "verifier")
    builder.add_edge("verifier", END)
    return builder.compile()


async def run(folder: Path, graph: Any = None) -> JsonlTracer:
    tracer = JsonlTracer(folder, secrets={KEY}, metadata={"problem": "toy"})
    await (graph or build()).ainvoke(
        {"task": "softmax", "api_key": SecretStr("abcdefgh")}, config={"callbacks": [tracer], "run_name": "solve"}
    )
    return tracer


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_graph_run_becomes_a_tree(tmp_path: Path) -> None:
    tracer = await run(tmp_path)
    records = read_trace(tracer.path)
    assert all(record.status == "success" for record in records)
    (root,) = tree(records)
    assert root.run.name == "solve"
    assert root.run.metadata["problem"] == "toy"
    assert root.run.trace_id == root.run.id
    by_name = {record.name: record for record in records}
    assert {by_name["retrieve"].run_type, by_name["build"].run_type} == {"retriever", "tool"}
    model = by_name["GenericFakeChatModel"]
    assert (model.run_type, model.prompt_tokens, model.completion_tokens) == ("llm", 11, 5)
    assert model.dotted_order.startswith(by_name["planner"].dotted_order + ".")
    assert by_name["retrieve"].outputs is not None
    assert "row maximum" in json.dumps(by_name["retrieve"].outputs)
    assert root.run.outputs is not None
    assert root.run.outputs["verdict"]["status"] == "passed"

    drawing = render_tree(records)
    assert drawing.splitlines()[0].startswith("solve  [chain]")
    assert "├─ planner  [chain]" in drawing
    assert "11→5 tokens" in drawing
    assert "   └─ build  [tool]" in drawing


async def test_secrets_are_never_written(tmp_path: Path) -> None:
    await run(tmp_path)
    with pytest.raises(ValueError, match="no such op"):
        await run(tmp_path, build(broken))
    written = everything_in(tmp_path)
    assert b"[redacted]" in written
    assert KEY.encode() not in written
    assert b"abcdefgh" not in written


async def test_a_span_without_a_tracer_does_nothing() -> None:
    async with span("build", {"n": 1}) as step:
        step.outputs = {"ok": True}
    with pytest.raises(KeyError):
        async with span("retrieve", {"query": "x"}, run_type="retriever"):
            raise KeyError("passes through")


async def test_large_values_are_written_once(tmp_path: Path) -> None:
    tracer = await run(tmp_path)
    (blob,) = (tmp_path / "blobs").iterdir()
    assert blob.read_text() == SOURCE
    assert SOURCE[:60] not in tracer.path.read_text()
    build_run = next(record for record in read_trace(tracer.path) if record.name == "build")
    assert build_run.inputs["source"] == {"ref": f"blobs/{blob.name}", "bytes": len(SOURCE)}
    assert read_blobs(build_run.inputs, tmp_path)["source"] == SOURCE


async def test_an_error_is_told_and_marks_its_parents(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such op"):
        await run(tmp_path, build(broken))
    by_name = {record.name: record for record in read_trace(tmp_path / "trace.jsonl")}
    assert by_name["planner"].status == "success"
    assert by_name["verifier"].status == by_name["solve"].status == "error"
    assert "ERROR ValueError('no such op" in render_tree(list(by_name.values()))


async def test_a_file_cut_anywhere_is_readable_and_can_be_resumed(tmp_path: Path) -> None:
    tracer = await run(tmp_path)
    whole = tracer.path.read_bytes()
    full = {record.id for record in read_trace(tracer.path)}
    cut_file = tmp_path / "cut.jsonl"
    seen = 0
    for at in [*range(0, len(whole), max(1, len(whole) // 150)), len(whole)]:
        cut_file.write_bytes(whole[:at])
        records = read_trace(cut_file)
        assert {record.id for record in records} <= full
        assert len(records) >= seen
        seen = len(records)
        render_tree(records)
    assert seen == len(full)

    half = len(whole) // 2
    tracer.path.write_bytes(whole[:half] if whole[half - 1 : half] != b"\n" else whole[: half - 1])
    before = len(read_trace(tracer.path))
    await run(tmp_path)
    after = read_trace(tracer.path)
    assert len(after) == before + len(full)
    assert len([node for node in tree(after) if node.run.name == "solve"]) == 2


def test_threads_and_two_tracers_share_a_file(tmp_path: Path) -> None:
    step = RunnableLambda(lambda value: value + 1, name="step")
    tracers = [JsonlTracer(tmp_path), JsonlTracer(tmp_path)]

    def work(tracer: JsonlTracer) -> None:
        for index in range(40):
            step.invoke(index, config={"callbacks": [tracer]})

    threads = [threading.Thread(target=work, args=(tracers[index % 2],)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = read_trace(tmp_path / "trace.jsonl")
    assert len(records) == 160
    assert all(record.outputs is not None for record in records)


async def test_a_cancelled_step_is_an_error_and_a_killed_one_is_unfinished(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def endless(state: State) -> State:
        async with span("build", {"n": 1}):
            started.set()
            await asyncio.sleep(60)
        return state

    tracer = JsonlTracer(tmp_path)
    task = asyncio.create_task(build(endless).ainvoke({"task": "x"}, config={"callbacks": [tracer]}))
    await started.wait()
    running = next(record for record in read_trace(tracer.path) if record.name == "build")
    assert running.status == "unfinished"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled = next(record for record in read_trace(tracer.path) if record.name == "build")
    assert cancelled.status == "error"


def test_a_full_disk_loses_events_but_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    tracer = JsonlTracer(blocked)
    assert RunnableLambda(lambda value: value + 1).invoke(1, config={"callbacks": [tracer]}) == 2
    assert tracer.lost_events == 2
    assert "incomplete" in caplog.text
