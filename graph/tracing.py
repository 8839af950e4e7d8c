"""What the graph's two ways of running, ``solve`` and ``langgraph dev``, share of tracing."""

from __future__ import annotations

from stitchcuda.core.environment import Environment

__all__ = ["known_secrets"]


def known_secrets() -> list[str]:
    """Strings that must never be written to a trace. Reads ``.env``: not for the event loop."""
    environment = Environment()
    return [key.get_secret_value() for key in (environment.openai_api_key, environment.langsmith_api_key) if key]
