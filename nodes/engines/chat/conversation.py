"""One question to a chat model, asked until the answer can be used or the tries are spent.

Comes in: a prompt that fits itself to a token budget, and a function that reads an answer. Goes out: what that function
returned, and the usage. Answers that cannot be read are returned to the model with the reason; an answer cut off at
its limit is continued once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool

from stitchcuda.nodes.engines.chat.answer_cache import AnswerCache
from stitchcuda.nodes.engines.chat.answer_text import AnswerError, join_continuation, plain_text
from stitchcuda.nodes.engines.chat.caller import Caller, PromptTooLongError
from stitchcuda.nodes.engines.chat.faults import redact
from stitchcuda.nodes.engines.chat.fitting import Cuts, fit, prompt_budget
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.listing import find_window
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.engines.chat.tokens import estimate_tokens
from stitchcuda.nodes.engines.chat.tool_use import ToolUse
from stitchcuda.nodes.engines.protocols import Usage

__all__ = ["ChatOptions", "Conversation", "Reply"]

Answer = TypeVar("Answer")

KEPT_ANSWER_CHARS = 40_000
"""An unusable answer goes back into the conversation up to this length."""


@dataclass(frozen=True)
class ChatOptions:
    """What a chat engine needs beside its model."""

    limits: CallLimits
    cache: AnswerCache | None = None
    tell: Callable[[str, str], None] | None = None
    """Told (role, line) while an answer arrives and when evidence was left out."""
    tool: BaseTool | None = None
    """Searches the documentation; the model may call it before it answers, where the endpoint takes tools."""


@dataclass(frozen=True)
class Reply:
    """An answer as text; ``texts`` holds its possible readings, the most likely first."""

    texts: tuple[str, ...]
    truncated: bool = False
    sources: tuple[str, ...] = ()
    """Citations of what the model found by itself."""

    @property
    def text(self) -> str:
        return self.texts[0]


@dataclass
class Conversation:
    """System and user prompt, and what was said since.

    ``prompts`` renders both under given cuts of the evidence; ``schema`` is a JSON schema of the answer, ``None`` when
    it is free text.
    """

    model: BaseChatModel
    role: str
    prompts: Callable[[Cuts], tuple[str, str]]
    options: ChatOptions
    schema: dict[str, Any] | None = None
    sample: int = 0

    def __post_init__(self) -> None:
        tell = self.options.tell
        self.limits = self.options.limits
        self._said: list[BaseMessage] = []
        self._caller = Caller(
            self.model,
            self.role,
            self.limits,
            self.options.cache,
            (lambda line: tell(self.role, line)) if tell is not None else None,
        )
        self._tool = ToolUse(self.options.tool, self._caller.say) if self.options.tool is not None else None

    async def settle(self, read: Callable[[Reply], Answer]) -> tuple[Answer, Usage]:
        """Ask until ``read`` accepts an answer.

        Args:
            read: returns what the answer means, or raises ``AnswerError``.

        Raises:
            EngineFailure: no usable answer; the message names the reason's code.
            ModelError: the endpoint cannot be used at all.
        """
        await find_window(self.model, self._caller.endpoint, self.limits)
        await self._open()
        problem = AnswerError("no_answer", "no answer")
        for _ in range(1 + self.limits.answer_retries):
            reply = await self._reply()
            try:
                answer = await asyncio.to_thread(read, reply)  # parsing may take a while
            except AnswerError as error:
                problem = error
            else:
                return answer, self._caller.usage.of_role(self.role)
            if reply.truncated and problem.code != "refused":
                problem = AnswerError("truncated", f"the answer was cut off at its length limit; {problem}")
            await asyncio.to_thread(self._correct, reply, problem)
        tries = 1 + self.limits.answer_retries
        raise self._caller.failure(problem.code, f"{problem} (asked {tries} times)")

    async def _open(self) -> None:
        """Render the prompts so that they fit the window as it is known now."""
        profile = self._caller.endpoint.profile
        budget = prompt_budget(self.limits, profile)
        system, question, left_out = await asyncio.to_thread(fit, self.prompts, budget, profile.tokens_per_estimate)
        if left_out:
            self._caller.say(f"left out to fit the context window: {left_out}")
        self._opening: list[BaseMessage] = [SystemMessage(system), HumanMessage(question)]

    @property
    def messages(self) -> list[BaseMessage]:
        return [*self._opening, *self._said]

    def _correct(self, reply: Reply, problem: AnswerError) -> None:
        # Some endpoints refuse an empty message.
        said = plain_text(reply.text[:KEPT_ANSWER_CHARS]).strip() or "(no answer)"
        request = render("correction", problem=str(problem), structured=self.schema is not None)
        profile = self._caller.endpoint.profile
        budget = prompt_budget(self.limits, profile)
        if budget is not None:
            room = budget - round(sum(map(_size, self._opening)) * profile.tokens_per_estimate) - 200
            if estimate_tokens(said) * profile.tokens_per_estimate > room:
                said = "(an answer that could not be used)"
            if sum(map(_size, self._said)) + estimate_tokens(said) > room:
                self._said = []
        self._said += [AIMessage(said), HumanMessage(request)]

    async def _ask(self, extra: list[BaseMessage], schema: dict[str, Any] | None) -> AIMessage:
        """One call; a window that turns out smaller than assumed has the prompt cut and asked once more."""
        before = self.messages
        tools = self._tool.offer if self._tool is not None and not extra else None
        try:
            return await self._caller.call([*before, *extra], schema, sample=self.sample, tools=tools)
        except PromptTooLongError as error:
            await self._open()
            self._said = []
            if self.messages == before:  # nothing more can be left out, and the endpoint has said no
                raise self._caller.failure(error.fault.code, error.fault.message) from None
        try:
            return await self._caller.call([*self.messages, *extra], schema, sample=self.sample, tools=tools)
        except PromptTooLongError as error:
            raise self._caller.failure(error.fault.code, error.fault.message) from None

    async def _reply(self) -> Reply:
        message = await self._ask([], self.schema)
        tool = self._tool
        while tool is not None and tool.used < tool.most_calls and (message.tool_calls or message.invalid_tool_calls):
            self._said += await tool.play(message, self._fits)
            message = await self._ask([], self.schema)
        sources = tuple(tool.sources) if tool is not None else ()
        text = redact(str(message.text), self._caller.secrets)
        if refusal := message.additional_kwargs.get("refusal"):
            raise self._caller.failure("refused", f"the model declines: {refusal}")
        reason = message.response_metadata.get("finish_reason")
        if reason == "content_filter":
            raise self._caller.failure("refused", "the endpoint's content filter stopped the answer")
        if reason != "length":
            return Reply((text,), sources=sources)
        if not text.strip():  # the whole limit went into reasoning: nothing to continue
            return Reply((text,), truncated=True, sources=sources)
        request = await asyncio.to_thread(render, "continuation")
        rest = await self._ask([AIMessage(text), HumanMessage(request)], None)
        second = redact(str(rest.text), self._caller.secrets)
        still_cut = rest.response_metadata.get("finish_reason") == "length"
        return Reply((join_continuation(text, second), second), truncated=still_cut, sources=sources)

    def _fits(self, text: str) -> bool:
        """Whether the window has room for ``text`` beside all that was said."""
        profile = self._caller.endpoint.profile
        budget = prompt_budget(self.limits, profile)
        estimated = sum(map(_size, self.messages)) + estimate_tokens(text)
        return budget is None or estimated * profile.tokens_per_estimate <= budget


def _size(message: BaseMessage) -> int:
    return estimate_tokens(str(message.text))
