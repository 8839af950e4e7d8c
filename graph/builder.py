"""The wiring: which node follows which. ``graph`` is what ``langgraph dev`` serves.

Comes in: an ``InputState`` and, as run context, a ``Context``. Goes out: an ``OutputState``. The exported
graph has no checkpointer; ``graph.solve`` compiles one with the run folder's.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from langgraph.graph import END, START, StateGraph

from stitchcuda.graph.context import Context
from stitchcuda.graph.routing import STEPS, after_coder, after_planner, follow
from stitchcuda.graph.state import InputState, OutputState, State, VerifierOutput
from stitchcuda.graph.tracing import known_secrets
from stitchcuda.nodes import verifier
from stitchcuda.nodes.coder import coder
from stitchcuda.nodes.planner import planner, review_plan
from stitchcuda.nodes.problem import load_problem_node, profile_reference
from stitchcuda.nodes.report import report
from stitchcuda.nodes.route import route
from stitchcuda.traces.served import ServedTracer

__all__ = ["build_graph", "build_verifier", "graph"]


def build_verifier() -> StateGraph[Any, Context, Any, Any]:
    """The Verifier's stages, with an early exit to ``diagnose`` as soon as one settles the matter."""
    stages = StateGraph(State, context_schema=Context, output_schema=VerifierOutput)
    stages.add_node("build", verifier.build)
    stages.add_node("screen", verifier.screen)
    stages.add_node("check", verifier.check)
    stages.add_node("time", verifier.time)
    stages.add_node("profile", verifier.profile)
    stages.add_node("diagnose", verifier.diagnose)
    stages.add_edge(START, "build")
    stages.add_edge("build", "screen")
    stages.add_conditional_edges("screen", verifier.after_screen)
    stages.add_conditional_edges("check", verifier.after_check)
    stages.add_edge("time", "profile")
    stages.add_edge("profile", "diagnose")
    stages.add_edge("diagnose", END)
    return stages


def build_graph() -> StateGraph[Any, Context, Any, Any]:
    """A fresh, uncompiled graph; each caller compiles it with the checkpointer that it wants."""
    builder = StateGraph(State, context_schema=Context, input_schema=InputState, output_schema=OutputState)
    builder.add_node("load_problem", load_problem_node)
    builder.add_node("profile_reference", profile_reference)
    builder.add_node("planner", planner)
    builder.add_node("review_plan", review_plan)
    builder.add_node("coder", coder)
    builder.add_node("verifier", build_verifier().compile())
    builder.add_node("route", route)
    builder.add_node("report", report)
    builder.add_edge(START, "load_problem")
    builder.add_edge("load_problem", "profile_reference")
    builder.add_edge("profile_reference", "planner")
    builder.add_conditional_edges("planner", after_planner)
    builder.add_edge("review_plan", "coder")
    builder.add_conditional_edges("coder", after_coder)
    builder.add_edge("verifier", "route")
    steps: dict[Hashable, str] = {step: node for step, node in STEPS.items()}  # noqa: C416  # widens the key's type
    builder.add_conditional_edges("route", follow, steps)
    builder.add_edge("report", END)
    return builder


# ``solve`` traces its own runs; those of a server get their trace from here.
graph = build_graph().compile(name="stitchcuda").with_config(callbacks=[ServedTracer(known_secrets)])
