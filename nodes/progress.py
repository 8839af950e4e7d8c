"""Tell whoever watches what a node is doing: custom stream events, and nothing when nobody streams."""

from __future__ import annotations

from typing import Any

from langgraph.config import get_stream_writer

__all__ = ["say"]


def say(stage: str, message: str, **facts: Any) -> None:
    """Send one progress event; ``stage`` is the node's name."""
    get_stream_writer()({"stage": stage, "message": message, **facts})
