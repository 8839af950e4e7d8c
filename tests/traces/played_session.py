"""One small run, as a session of a chat model leaves it: two attempts, the first does not build."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from stitchcuda.core.records import (
    BuildReport,
    Candidate,
    Diagnostic,
    Evaluation,
    ExtensionBuild,
    Feedback,
    Plan,
    Status,
    SubTask,
)
from stitchcuda.traces import JsonlTracer, span

SECRET = "very-private-key-1234"
SOURCES = [
    'import torch\n\nCUDA = r"""\n__global__ void k(float* x) { x[0] = y; }\n"""\n'
    + "# </script><b>not markup</b>\n" * 40,
    'import torch\n\nCUDA = r"""\n__global__ void k(float* x) { x[0] = 2.0f; }\n"""\n'
    + "# </script><b>not markup</b>\n" * 40,
]


class State(TypedDict, total=False):
    attempt: int
    plan: Plan
    candidate: Candidate
    evaluation: Evaluation
    feedback: Feedback
    candidate_source: str


def candidate_of(attempt: int) -> Candidate:
    return Candidate(id=attempt, parent_id=None, author="chat", path=f"candidates/{attempt:02d}.py", sha256="0" * 64)


async def planner(state: State) -> State:
    assert not state
    task = SubTask(id="s1", title="one kernel", ops=("relu",), contract="", technique="fuse", done_when="it passes")
    return {"plan": Plan(summary="One kernel for everything.", subtasks=(task,)), "attempt": 0}


async def coder(state: State) -> State:
    attempt = state["attempt"] + 1
    answer = AIMessage(content=f"Here:\n\n```python\n{SOURCES[attempt - 1]}```\n- with `warps`")
    answer.usage_metadata = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    model = GenericFakeChatModel(messages=iter([answer]))
    async with span("engine.coder", {"engine": "openai:x"}) as step:
        await model.ainvoke(
            [("system", "You are the Coder."), ("user", f"# Task\n\nWrite attempt {attempt}; {SECRET}")]
        )
        step.outputs = {
            "source": SOURCES[attempt - 1],
            "summary": f"attempt {attempt}",
            "usage": {"calls": 1, "cost_usd": 0.0125},
        }
    return {"attempt": attempt, "candidate": candidate_of(attempt), "candidate_source": SOURCES[attempt - 1]}


async def verifier(state: State) -> State:
    ok = state["attempt"] == 2
    error = Diagnostic(severity="error", message="identifier y is undefined", line=4)
    extension = ExtensionBuild(name="k", ok=ok, target="cpu", diagnostics=() if ok else (error,))
    async with span("evaluator.build", {"source": state["candidate_source"]}) as step:
        report = BuildReport(ok=ok, extensions=(extension,), seconds=0.1)
        step.outputs = report.model_dump(mode="json")
    evaluation = Evaluation(
        candidate_id=state["attempt"],
        status=Status.PASSED if ok else Status.BUILD_FAILED,
        reasons=() if ok else ("compile_error",),
        message="" if ok else error.message,
        device="cpu",
        build=report,
    )
    feedback = Feedback(kind="accept" if ok else "repair", instruction="Declare y.")
    return {"evaluation": evaluation, "feedback": feedback}


def after_verifier(state: State) -> str:
    return END if state["evaluation"].passed else "coder"


async def play(run_dir: Path, callbacks: list[Any] | None = None) -> None:
    builder = StateGraph(State)
    builder.add_node("planner", planner)
    builder.add_node("coder", coder)
    builder.add_node("verifier", verifier)
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "coder")
    builder.add_edge("coder", "verifier")
    builder.add_conditional_edges("verifier", after_verifier)
    config: RunnableConfig = {
        "run_name": "solve",
        "callbacks": [JsonlTracer(run_dir, secrets={SECRET}), *(callbacks or [])],
    }
    await builder.compile().ainvoke({}, config)
