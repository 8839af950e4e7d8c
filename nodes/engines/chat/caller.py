"""One call of a chat model, repeated while that helps: what is sent, how it arrives, what it costs.

Comes in: messages. Goes out: the answer's message; ``usage`` grows. Calls that fail for a passing reason are repeated
with exponential backoff and jitter; what the endpoint refuses by name is left out from then on; an answer that was
given before comes from the cache.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from stitchcuda.core.errors import ModelError, one_line
from stitchcuda.nodes.engines.chat.answer_cache import AnswerCache, CachedAnswer, CachedChatModel
from stitchcuda.nodes.engines.chat.faults import Fault, classify, redact, secrets_of
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.profile import (
    Endpoint,
    EndpointProfile,
    endpoint_of,
    names_tools,
    refusal_text,
    told_prompt_tokens,
    told_window,
)
from stitchcuda.nodes.engines.chat.tokens import estimate_tokens
from stitchcuda.nodes.engines.deadline import seconds_left
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage

__all__ = ["Caller", "PromptTooLongError"]

_GATES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], asyncio.Semaphore]] = WeakKeyDictionary()


class PromptTooLongError(Exception):
    """The endpoint's window is smaller than the prompt; how large it is was learnt."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass
class Caller:
    """Calls ``model`` for ``role``."""

    model: BaseChatModel
    role: str
    limits: CallLimits
    cache: AnswerCache | None = None
    tell: Callable[[str], None] | None = None
    """Told while an answer arrives."""
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.endpoint: Endpoint = endpoint_of(self.model)
        self.secrets = secrets_of(self.model)

    def say(self, line: str) -> None:
        """Show ``line`` to whoever watches."""
        if self.tell is not None:
            self.tell(line)

    def failure(self, code: str, detail: str) -> EngineFailure:
        """The failure of this role with what it cost so far."""
        line = redact(one_line(Exception(detail)), self.secrets)
        return EngineFailure(f"chat {self.role}: {code}: {line}", self.usage.of_role(self.role))

    async def call(
        self,
        messages: list[BaseMessage],
        schema: dict[str, Any] | None,
        *,
        sample: int = 0,
        tools: dict[str, Any] | None = None,
    ) -> AIMessage:
        """One answer, after as many tries as the limits allow.

        Args:
            messages: what is asked.
            schema: JSON schema of the answer.
            sample: which one of several answers.
            tools: the arguments that offer tools; left out for an endpoint that refuses them.

        Raises:
            PromptTooLongError: the endpoint told a window that is smaller than was assumed.
            EngineFailure: the call keeps failing.
            ModelError: the endpoint cannot be used.
        """
        key = ""
        if self.cache is not None and self.endpoint.key is not None:
            asked = self._asked(schema, sample)
            if tools is not None and self.endpoint.profile.tools:
                asked["tools"] = tools
            key = await asyncio.to_thread(self.cache.key, self.endpoint.key, messages, asked)
            stored = await asyncio.to_thread(self.cache.get, key)
            if stored is not None:
                self.usage += Usage(cached=1)
                self.say("answer from the cache")
                return await CachedChatModel(answer=stored).ainvoke(messages, self._config())
        message = await self._asked_until_answered(messages, schema, sample, tools)
        if key and self.cache is not None and not message.additional_kwargs.get("refusal"):
            used = message.usage_metadata
            answer = CachedAnswer(
                model=getattr(self.model, "model_name", ""),
                text=redact(str(message.text), self.secrets),
                finish_reason=str(message.response_metadata.get("finish_reason") or "stop"),
                input_tokens=used["input_tokens"] if used else 0,
                output_tokens=used["output_tokens"] if used else 0,
                tool_calls=tuple(dict(call) for call in message.tool_calls),
            )
            await asyncio.to_thread(self.cache.put, key, answer)
        return message

    def _asked(self, schema: dict[str, Any] | None, sample: int) -> dict[str, Any]:
        """What makes the answer to the same messages another one."""
        limits = self.limits
        kept = ("max_output_tokens", "temperature", "reasoning_effort", "seed")
        return {"schema": schema, "sample": sample} | {name: getattr(limits, name) for name in kept}

    async def _asked_until_answered(
        self, messages: list[BaseMessage], schema: dict[str, Any] | None, sample: int, tools: dict[str, Any] | None
    ) -> AIMessage:
        profile = self.endpoint.profile
        refused: set[str] = set()
        tries = 0
        while True:
            self._fail_without_time()
            try:
                offered = tools if profile.tools else None
                message = await self._once(messages, schema, sample, profile, offered)
            except Exception as error:
                fault = classify(error, self.model)
                if fault is None:
                    raise
                changed = _adapted(fault, error, profile, self._features(schema, profile, offered))
                # Each form is tried once: two endpoints' words could otherwise send us back and forth.
                if changed is not None and changed.model_dump_json() not in refused:
                    refused.add(profile.model_dump_json())
                    profile = changed
                    continue
                if fault.code == "context_too_long" and await self._learnt_size(messages, refusal_text(error)):
                    raise PromptTooLongError(fault) from None
                await self._pause_or_raise(fault, tries)
                tries += 1
                continue
            self.endpoint.answered = True
            if refused:
                if self.endpoint.profile.tools and not profile.tools:
                    self.say("the endpoint takes no tools: the model cannot search the documentation itself")
                await asyncio.to_thread(self.endpoint.learn, profile)
            return message

    async def _learnt_size(self, messages: list[BaseMessage], refusal: str) -> bool:
        """Enter what a refused prompt taught about the window or the tokenizer; whether that was anything new."""
        before = self.endpoint.profile
        window = told_window(refusal)
        if window is not None and window < (before.context_tokens or 10**9):
            known = before.model_copy(update={"context_tokens": window})
            await asyncio.to_thread(self.endpoint.learn, known)
        if (counted := told_prompt_tokens(refusal)) is not None:
            await asyncio.to_thread(self.endpoint.calibrate, estimate_all(messages), counted)
        return self.endpoint.profile != before

    def _features(
        self, schema: dict[str, Any] | None, profile: EndpointProfile, tools: dict[str, Any] | None = None
    ) -> frozenset[str]:
        """Which of the things that an endpoint may refuse are sent."""
        limits = self.limits
        sent = {
            "limit": limits.max_output_tokens is not None,
            "temperature": limits.temperature is not None and profile.temperature,
            "seed": limits.seed is not None and profile.seed,
            "reasoning_effort": limits.reasoning_effort is not None and profile.reasoning_effort,
            "tools": tools is not None,
            "structured": schema is not None and profile.structured != "none",
            "stream": limits.stream and profile.stream,
            "stream_usage": limits.stream and profile.stream and profile.stream_usage,
        }
        return frozenset(name for name, is_sent in sent.items() if is_sent)

    def _options(
        self, schema: dict[str, Any] | None, sample: int, profile: EndpointProfile, prompt_tokens: int
    ) -> dict[str, Any]:
        """The arguments of the call beside the messages."""
        limits, sent = self.limits, self._features(schema, profile)
        options: dict[str, Any] = {}
        # In the body and not as arguments: the library renames the one, and parses the other itself.
        body: dict[str, Any] = dict(getattr(self.model, "extra_body", None) or {})
        if "limit" in sent:
            body[profile.token_parameter] = _room(limits, profile, prompt_tokens)
        if "structured" in sent:
            named = {"name": f"{self.role}_answer", "strict": True, "schema": schema}
            as_schema = {"type": "json_schema", "json_schema": named}
            body["response_format"] = as_schema if profile.structured == "json_schema" else {"type": "json_object"}
        if "temperature" in sent:
            options["temperature"] = limits.temperature
        if "seed" in sent and limits.seed is not None:
            options["seed"] = limits.seed + sample
        if "reasoning_effort" in sent:
            options["reasoning_effort"] = limits.reasoning_effort
        if body:
            options["extra_body"] = body
        return options

    def _config(self) -> Any:
        return {"run_name": f"chat {self.role}", "tags": [f"role:{self.role}"]}

    async def _once(
        self,
        messages: list[BaseMessage],
        schema: dict[str, Any] | None,
        sample: int,
        profile: EndpointProfile,
        tools: dict[str, Any] | None,
    ) -> AIMessage:
        estimated = estimate_all(messages)
        options = self._options(schema, sample, profile, round(estimated * profile.tokens_per_estimate))
        options |= tools or {}
        # The client's own limit restarts with a byte; waiting for a place counts against the run, not the call.
        async with asyncio.timeout(seconds_left()), self._gate(), asyncio.timeout(self.limits.timeout_s):
            self.usage += Usage(calls=1)
            if self.limits.stream and profile.stream and not tools:  # a call of a tool is not put together from pieces
                message = await self._streamed(messages, profile, options)
            else:
                message = await self.model.ainvoke(messages, self._config(), **options)
        used = message.usage_metadata
        if used is None:
            given, got = round(estimated * profile.tokens_per_estimate), estimate_tokens(str(message.text))
            self.usage += Usage(unreported=1)
        else:
            given, got = used["input_tokens"], used["output_tokens"]
            if messages and isinstance(messages[0], SystemMessage):
                await asyncio.to_thread(self.endpoint.calibrate, estimated, given)
        self.usage += Usage(input_tokens=given, output_tokens=got, cost_usd=self.limits.cost_usd(given, got))
        return message

    async def _streamed(
        self, messages: list[BaseMessage], profile: EndpointProfile, options: dict[str, Any]
    ) -> AIMessage:
        """The answer put together from its pieces; Studio sees them through the run's callbacks."""
        model = self.model.model_copy(update={"disable_streaming": False})
        parts: list[str] = []
        facts: dict[str, Any] = {}
        used = None
        told = time.monotonic()
        async for chunk in model.astream(messages, self._config(), stream_usage=profile.stream_usage, **options):
            parts.append(str(chunk.text))
            facts.update({name: value for name, value in chunk.response_metadata.items() if value})
            used = getattr(chunk, "usage_metadata", None) or used
            if time.monotonic() - told >= self.limits.progress_s:
                told = time.monotonic()
                text = "".join(parts)
                self.say(f"{len(text)} characters, line {text.count(chr(10)) + 1}")
        return AIMessage("".join(parts), response_metadata=facts, usage_metadata=used)

    @asynccontextmanager
    async def _gate(self) -> AsyncIterator[None]:
        """Wait for a place among the calls to this endpoint."""
        if self.endpoint.key is None:
            yield
            return
        gates = _GATES.setdefault(asyncio.get_running_loop(), {})
        async with gates.setdefault(self.endpoint.key, asyncio.Semaphore(self.limits.concurrency)):
            yield

    def _fail_without_time(self) -> None:
        left = seconds_left()
        if left is not None and left <= 0:
            raise self.failure("out_of_time", "the run's budget of seconds (max_seconds) is spent") from None

    async def _pause_or_raise(self, fault: Fault, tries: int) -> None:
        """Wait before another try, or raise what the fault means.

        The fault is raised without its cause: an exception of the transport shows request and headers.
        """
        again = fault.action == "retry" or (fault.code == "unreachable" and self.endpoint.answered)
        if again and tries < self.limits.max_retries:
            pause_s = self.limits.backoff_s * 2**tries * random.uniform(0.5, 1.0)
            pause_s = min(max(pause_s, fault.retry_after_s or 0.0), self.limits.backoff_limit_s)
            left = seconds_left()
            await asyncio.sleep(pause_s if left is None else max(0.0, min(pause_s, left)))
            return
        if fault.action == "retry":
            self._fail_without_time()  # a call that was cut off at the end of the run is no fault of the endpoint
        if fault.action == "end":
            raise ModelError(f"chat {self.role}: {fault.message}") from None
        suffix = f" (tried {tries + 1} times)" if fault.action == "retry" else ""
        raise self.failure(fault.code, fault.message + suffix) from None


def estimate_all(messages: list[BaseMessage]) -> int:
    """Estimated tokens of all messages."""
    return sum(estimate_tokens(str(message.text)) for message in messages)


def _room(limits: CallLimits, profile: EndpointProfile, prompt_tokens: int) -> int | None:
    """The limit on the answer; less than what was asked for where the window has no room for prompt and answer."""
    window = limits.context_tokens or profile.context_tokens
    if limits.max_output_tokens is None or window is None:
        return limits.max_output_tokens
    return min(limits.max_output_tokens, max(256, window - round(prompt_tokens * 1.05) - 32))


def _adapted(
    fault: Fault, error: BaseException, profile: EndpointProfile, sent: frozenset[str]
) -> EndpointProfile | None:
    """The profile to try instead after ``fault``; ``None`` when no other form of the call would help."""
    if fault.code == "no_stream":
        return profile.model_copy(update={"stream": False})
    if "tools" in sent and names_tools(refusal_text(error)):  # with any status: 400, 404, 500 and 501 were seen
        return profile.model_copy(update={"tools": False})
    if fault.status_code not in (400, 404, 415, 422, 501) or fault.code in ("context_too_long", "no_model", "refused"):
        return None
    if changed := profile.without(refusal_text(error), sent):
        return changed
    if "tools" in sent:
        return profile.model_copy(update={"tools": False})
    # Perhaps it is the schema that it does not take, in words unknown; if not, it says so again without.
    return profile.model_copy(update={"structured": "none"}) if "structured" in sent else None
