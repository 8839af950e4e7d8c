"""What fills the roles: ``open_engines`` gives one engine per role from the run's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stitchcuda.core.errors import SettingsError
from stitchcuda.nodes.engines.protocols import CoderEngine, PlannerEngine, VerifierEngine

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stitchcuda.graph.context import Context

__all__ = ["Engines", "open_engines"]


@dataclass(frozen=True)
class Engines:
    """The three roles, filled."""

    planner: PlannerEngine
    coder: CoderEngine
    verifier: VerifierEngine


def open_engines(context: Context) -> Engines:
    """Open the engine of each role; equal chat specifications share one model.

    Raises:
        SettingsError: an engine name that is neither ``embedded`` nor a chat specification.
        ModelError: a hosted endpoint without a key.
    """
    from stitchcuda.nodes.engines.chat import ChatCoder, ChatPlanner, ChatVerifier, open_chat_model
    from stitchcuda.nodes.engines.embedded import EmbeddedCoder, EmbeddedPlanner, EmbeddedVerifier

    models: dict[str, BaseChatModel] = {}

    def chat(spec: str) -> BaseChatModel:
        from stitchcuda.core.environment import Environment

        if not spec.startswith(("openai:", "scripted:")):
            raise SettingsError(f"no engine {spec!r}; use embedded, openai:<model> or scripted:<file>")
        if spec not in models:
            models[spec] = open_chat_model(
                spec,
                base_url=context.base_url,
                api_key=Environment().openai_api_key,
                temperature=context.temperature,
                timeout_s=context.model_timeout_s,
                max_retries=context.model_retries,
                max_output_tokens=context.max_output_tokens,
            )
        return models[spec]

    planner, coder, verifier = context.planner, context.coder, context.verifier
    return Engines(
        planner=EmbeddedPlanner() if planner == "embedded" else ChatPlanner(chat(planner)),
        coder=EmbeddedCoder() if coder == "embedded" else ChatCoder(chat(coder)),
        verifier=EmbeddedVerifier() if verifier == "embedded" else ChatVerifier(chat(verifier)),
    )
