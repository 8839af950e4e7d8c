"""Tell whoever watches what a node is doing: custom stream events, and runs of the trace for engine calls."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from langgraph.config import get_stream_writer

from stitchcuda.traces import Span, span

__all__ = ["engine_call", "say"]


def say(stage: str, message: str, **facts: Any) -> None:
    """Send one progress event; ``stage`` is the node's name. Nothing happens when nobody streams."""
    get_stream_writer()({"stage": stage, "message": message, **facts})


def engine_call(
    engine: str, role: Literal["planner", "coder", "verifier"], **inputs: Any
) -> AbstractAsyncContextManager[Span]:
    """A role's engine at work, as a tool run of the trace; a chat engine's calls lie below it."""
    return span(f"engine.{role}", {"engine": engine, **inputs})
