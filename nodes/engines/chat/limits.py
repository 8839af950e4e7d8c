"""What an engine may spend on an answer, and how it asks for it: one record per role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stitchcuda.core.records import Record

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["CallLimits"]


class CallLimits(Record):
    """How patient an engine is, and what it sends with each call."""

    timeout_s: float = 600.0
    """Wall-clock limit of one call, whole answer included."""
    max_retries: int = 4
    """Further tries of a call that failed for a passing reason."""
    backoff_s: float = 1.0
    """Pause before the first retry; doubled for each further one, shortened at random by up to a half."""
    backoff_limit_s: float = 60.0
    """Longest pause, also when the endpoint asks for a longer one."""
    answer_retries: int = 2
    """How often an unusable answer is returned to the model with the reason."""
    concurrency: int = 4
    """Calls to one endpoint at the same time."""
    stream: bool = False
    """Receive the answer piece by piece, so that its progress can be shown."""
    progress_s: float = 10.0
    """Between two lines of progress while an answer arrives."""

    max_output_tokens: int | None = None
    """Limit of one answer; the endpoint's own when ``None``."""
    context_tokens: int | None = None
    """The context window; found out, or learnt from a refusal, when ``None``."""
    temperature: float | None = None
    """Not sent when ``None``: reasoning models refuse it."""
    reasoning_effort: str | None = None
    seed: int | None = None
    input_usd: float = 0.0
    """Price of a million tokens of prompt."""
    output_usd: float = 0.0
    """Price of a million tokens of answer."""

    @classmethod
    def of(cls, model: BaseChatModel) -> CallLimits:
        """The limits that ``open_chat_model`` noted in the model's metadata."""
        metadata = model.metadata or {}
        return cls.model_validate({name: metadata[name] for name in cls.model_fields if name in metadata})

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        """Price of one call."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6
