"""One tracer for all runs of a server: each run's trace lands whole in the folder that its first step names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from stitchcuda.traces import read_blobs, read_trace, span, tree
from stitchcuda.traces.served import ServedTracer

KEY = "very-private-key-1234"
LONG = "a reference program\n" * 400


class State(TypedDict, total=False):
    wanted: str
    run_dir: str
    fails: bool


async def load(state: State) -> State:
    async with span("describe", {"source": LONG, "key": KEY}) as step:
        await asyncio.sleep(0.01)
        step.outputs = {"inputs": 1}
    if state.get("fails"):
        raise ValueError("no such problem")
    return {"run_dir": state["wanted"]}


async def work(state: State) -> State:
    async with span("build", {"name": Path(state["run_dir"]).name}):
        await asyncio.sleep(0.01)
    return {}


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def served(tracer: ServedTracer) -> Any:
    builder = StateGraph(State)
    builder.add_node("load", load)
    builder.add_node("work", work)
    builder.add_edge(START, "load")
    builder.add_edge("load", "work")
    builder.add_edge("work", END)
    return builder.compile(name="served").with_config(callbacks=[tracer])


async def test_runs_at_the_same_time_are_kept_apart(tmp_path: Path) -> None:
    tracer = ServedTracer(lambda: [KEY])
    graph = served(tracer)
    folders = [tmp_path / f"run{number}" for number in range(6)]
    await asyncio.gather(*(graph.ainvoke({"wanted": str(folder)}) for folder in folders))
    for folder in folders:
        records = read_trace(folder / "trace.jsonl")
        (root,) = tree(records)
        assert root.run.name == "served"
        assert all(record.status == "success" for record in records)
        by_name = {record.name: record for record in records}
        assert by_name["build"].inputs == {"name": folder.name}
        # What happened before the folder was known is there too, with its large values.
        assert by_name["describe"].inputs["source"]["bytes"] == len(LONG)
        assert read_blobs(by_name["describe"].inputs, folder)["source"] == LONG
        assert KEY not in (folder / "trace.jsonl").read_text()
    assert not tracer._runs  # nothing of a finished run is kept


async def test_a_later_run_of_the_same_folder_is_added(tmp_path: Path) -> None:
    graph = served(ServedTracer())
    for _ in range(2):
        await graph.ainvoke({"wanted": str(tmp_path / "run")})
    assert [node.run.name for node in tree(read_trace(tmp_path / "run" / "trace.jsonl"))] == ["served", "served"]


async def test_a_run_without_a_folder_leaves_nothing(tmp_path: Path) -> None:
    tracer = ServedTracer()
    with pytest.raises(ValueError, match="no such problem"):
        await served(tracer).ainvoke({"wanted": str(tmp_path / "run"), "fails": True})
    assert names(tmp_path) == []
    assert not tracer._runs


async def test_what_a_caller_sends_does_not_choose_the_folder(tmp_path: Path) -> None:
    class Given(TypedDict, total=False):
        wanted: str

    builder = StateGraph(State, input_schema=Given)
    builder.add_node("load", load)
    builder.add_edge(START, "load")
    builder.add_edge("load", END)
    graph: Any = builder.compile().with_config(callbacks=[ServedTracer()])
    await graph.ainvoke({"wanted": str(tmp_path / "mine"), "run_dir": str(tmp_path / "other")})
    assert names(tmp_path) == ["mine"]
    assert {record.name for record in read_trace(tmp_path / "mine" / "trace.jsonl")} >= {"load", "describe"}
