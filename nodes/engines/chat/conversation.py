"""One question to a chat model, asked until the answer can be used or the tries are spent.

Comes in: rendered prompts and a function that reads an answer. Goes out: what that function returned, and the
usage. Calls that fail for a passing reason are repeated with exponential backoff and jitter; answers that
cannot be read are returned to the model with the reason; an answer cut off at its limit is continued once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from stitchcuda.core.errors import ModelError, one_line
from stitchcuda.core.records import Record
from stitchcuda.nodes.engines.chat.answer_text import AnswerError, join_continuation, plain_text
from stitchcuda.nodes.engines.chat.faults import Fault, classify, redact, secrets_of
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage

__all__ = ["CallLimits", "Conversation", "Reply"]

Answer = TypeVar("Answer")

KEPT_ANSWER_CHARS = 40_000
"""An unusable answer goes back into the conversation up to this length."""


class CallLimits(Record):
    """How patient an engine is."""

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

    @classmethod
    def of(cls, model: BaseChatModel) -> CallLimits:
        """The limits that ``open_chat_model`` noted in the model's metadata."""
        metadata = model.metadata or {}
        return cls.model_validate({name: metadata[name] for name in cls.model_fields if name in metadata})


@dataclass
class _Endpoint:
    """What was learnt about an endpoint in this process."""

    takes_schema: bool
    answered: bool = False


_ENDPOINTS: dict[tuple[str, str], _Endpoint] = {}


def _endpoint(model: BaseChatModel) -> _Endpoint:
    """What is known of the endpoint of ``model``; shared by all models of one name at one address."""
    base, name = getattr(model, "openai_api_base", None), getattr(model, "model_name", None)
    if not isinstance(base, str) or not isinstance(name, str):
        return _Endpoint(takes_schema=False)
    return _ENDPOINTS.setdefault((base, name), _Endpoint(takes_schema=True))


@dataclass(frozen=True)
class Reply:
    """An answer as text; ``texts`` holds its possible readings, the most likely first."""

    texts: tuple[str, ...]
    truncated: bool = False

    @property
    def text(self) -> str:
        return self.texts[0]


@dataclass
class Conversation:
    """System and user prompt, and what was said since.

    ``schema`` is a JSON schema of the answer; ``None`` when it is free text.
    """

    model: BaseChatModel
    role: str
    system: str
    question: str
    limits: CallLimits
    schema: dict[str, Any] | None = None
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.messages: list[BaseMessage] = [SystemMessage(self.system), HumanMessage(self.question)]
        self._endpoint = _endpoint(self.model)

    async def settle(self, read: Callable[[Reply], Answer]) -> tuple[Answer, Usage]:
        """Ask until ``read`` accepts an answer.

        Args:
            read: returns what the answer means, or raises ``AnswerError``.

        Raises:
            EngineFailure: no usable answer; the message names the reason's code.
            ModelError: the endpoint cannot be used at all.
        """
        problem = AnswerError("no_answer", "no answer")
        for _ in range(1 + self.limits.answer_retries):
            reply = await self._reply()
            try:
                return await asyncio.to_thread(read, reply), self.usage  # parsing may take a while
            except AnswerError as error:
                problem = error
            if reply.truncated and problem.code != "refused":
                problem = AnswerError("truncated", f"the answer was cut off at its length limit; {problem}")
            await asyncio.to_thread(self._correct, reply, problem)
        tries = 1 + self.limits.answer_retries
        raise self._failure(problem.code, f"{problem} (asked {tries} times)")

    def _correct(self, reply: Reply, problem: AnswerError) -> None:
        # Some endpoints refuse an empty message.
        said = plain_text(reply.text[:KEPT_ANSWER_CHARS]).strip() or "(no answer)"
        request = render("correction", problem=str(problem), structured=self.schema is not None)
        self.messages += [AIMessage(said), HumanMessage(request)]

    def _failure(self, code: str, detail: str) -> EngineFailure:
        line = redact(one_line(Exception(detail)), secrets_of(self.model))
        return EngineFailure(f"chat {self.role}: {code}: {line}", self.usage)

    async def _reply(self) -> Reply:
        message = await self._call(self.messages, structured=self.schema is not None)
        text = str(message.text)
        if refusal := message.additional_kwargs.get("refusal"):
            raise self._failure("refused", f"the model declines: {refusal}")
        reason = message.response_metadata.get("finish_reason")
        if reason == "content_filter":
            raise self._failure("refused", "the endpoint's content filter stopped the answer")
        if reason != "length":
            return Reply((text,))
        if not text.strip():  # the whole limit went into reasoning: nothing to continue
            return Reply((text,), truncated=True)
        request = await asyncio.to_thread(render, "continuation")
        more = [*self.messages, AIMessage(text), HumanMessage(request)]
        rest = await self._call(more, structured=False)
        second = str(rest.text)
        still_cut = rest.response_metadata.get("finish_reason") == "length"
        return Reply((join_continuation(text, second), second), truncated=still_cut)

    async def _call(self, messages: list[BaseMessage], *, structured: bool) -> AIMessage:
        """One answer, after as many tries as the limits allow."""
        structured = structured and self._endpoint.takes_schema
        schema_refused = False
        tries = 0
        while True:
            try:
                message = await self._once(messages, structured=structured)
            except Exception as error:
                fault = classify(error, self.model)
                if fault is None:
                    raise
                if structured and fault.status_code in (400, 422) and fault.code != "context_too_long":
                    # Perhaps it is the schema that it does not take; if not, it says so again without.
                    structured, schema_refused = False, True
                    continue
                await self._pause_or_raise(fault, tries)
                tries += 1
                continue
            self._endpoint.takes_schema = self._endpoint.takes_schema and not schema_refused
            self._endpoint.answered = True
            return message

    async def _once(self, messages: list[BaseMessage], *, structured: bool) -> AIMessage:
        options: dict[str, Any] = {}
        if structured:
            # In the body and not as an argument: the library would parse the answer itself, and raise on a cut one.
            extra = getattr(self.model, "extra_body", None) or {}
            options["extra_body"] = {**extra, "response_format": self._response_format()}
        self.usage += Usage(calls=1)
        async with asyncio.timeout(self.limits.timeout_s):  # the client's own limit starts anew with every byte
            message = await self.model.ainvoke(
                messages, {"run_name": f"chat {self.role}", "tags": [f"role:{self.role}"]}, **options
            )
        used = message.usage_metadata
        if used is not None:
            self.usage += Usage(input_tokens=used["input_tokens"], output_tokens=used["output_tokens"])
        return message

    def _response_format(self) -> dict[str, Any]:
        return {
            "type": "json_schema",
            "json_schema": {"name": f"{self.role}_answer", "strict": True, "schema": self.schema},
        }

    async def _pause_or_raise(self, fault: Fault, tries: int) -> None:
        """Wait before another try, or raise what the fault means.

        The fault is raised without its cause: an exception of the transport shows request and headers.
        """
        # An endpoint that answered before may be restarting; one that never did has a wrong address.
        again = fault.action == "retry" or (fault.code == "unreachable" and self._endpoint.answered)
        if again and tries < self.limits.max_retries:
            pause_s = self.limits.backoff_s * 2**tries * random.uniform(0.5, 1.0)
            await asyncio.sleep(min(max(pause_s, fault.retry_after_s or 0.0), self.limits.backoff_limit_s))
            return
        if fault.action == "end":
            raise ModelError(f"chat {self.role}: {fault.message}") from None
        suffix = f" (tried {tries + 1} times)" if fault.action == "retry" else ""
        raise self._failure(fault.code, fault.message + suffix) from None
