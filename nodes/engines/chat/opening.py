"""Chat models and their options from a run's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langgraph.config import get_stream_writer

from stitchcuda.core.environment import Environment
from stitchcuda.core.errors import SettingsError
from stitchcuda.nodes.engines.chat.answer_cache import AnswerCache
from stitchcuda.nodes.engines.chat.conversation import ChatOptions
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.model import open_chat_model
from stitchcuda.nodes.retrieval import documentation_index
from stitchcuda.rag_index import search_tool

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from stitchcuda.graph.context import Context

__all__ = ["ChatOpener"]


class ChatOpener:
    """Opens each model once; all roles of a run share one answer cache."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._environment = Environment()
        self._cache = AnswerCache(self._environment.cache_dir / "answers", reuse=context.cache_answers)
        self._models: dict[str, BaseChatModel] = {}

    def model(self, spec: str) -> BaseChatModel:
        """The model ``spec``.

        Raises:
            SettingsError: no such kind of engine, or an endpoint setting that does not exist.
            ModelError: a hosted endpoint without a key.
        """
        if not spec.startswith(("openai:", "scripted:")):
            raise SettingsError(f"no engine {spec!r}; use embedded, openai:<model> or scripted:<file>")
        if spec not in self._models:
            self._models[spec] = open_chat_model(
                spec,
                base_url=self.context.base_url,
                api_key=self._environment.openai_api_key,
                timeout_s=self.context.model_timeout_s,
                max_retries=self.context.model_retries,
                profile_cache=self._environment.cache_dir / "endpoints",
                endpoint=self.context.endpoint,
            )
        return self._models[spec]

    def options(self, role: Literal["planner", "coder", "verifier"]) -> ChatOptions:
        """What ``role`` sends and may spend.

        Raises:
            SettingsError: there is a money budget, and no price for the role's model.
        """
        context = self.context
        spec = context.engines[role]
        input_usd, output_usd = self._price(spec.partition(":")[2])
        limits = CallLimits(
            timeout_s=context.model_timeout_s,
            max_retries=context.model_retries,
            concurrency=context.concurrency,
            stream=context.stream,
            max_output_tokens=context.max_output_tokens,
            context_tokens=context.context_tokens,
            temperature=context.temperatures.get(role, context.temperature),
            reasoning_effort=context.reasoning_effort,
            seed=context.chat_seed,
            input_usd=input_usd,
            output_usd=output_usd,
        )
        tool = search_tool(documentation_index) if context.retrieval_tool else None
        return ChatOptions(limits, self._cache, _say, tool)

    def _price(self, name: str) -> tuple[float, float]:
        prices = self.context.prices
        if name in prices:
            return prices[name]
        if self.context.max_cost_usd is not None:
            raise SettingsError(
                f"max_cost_usd is set, and prices has no entry for {name!r}: give --set prices={name}=IN/OUT "
                "(dollars per million tokens, 0/0 for an own server)"
            )
        return 0.0, 0.0


def _say(role: str, line: str) -> None:
    """One progress event of a node; the chat calls of a run are made inside one."""
    get_stream_writer()({"stage": role, "message": line})
