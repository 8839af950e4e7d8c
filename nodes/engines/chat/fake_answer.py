"""What the fake server sends: one scripted answer as the bytes of an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["FakeAnswer", "completion_body", "error_body", "events_body"]


@dataclass(frozen=True)
class FakeAnswer:
    """One answer, or one way to misbehave. The defaults are a well-behaved one with ``content``."""

    content: str | None = ""
    """The assistant's text."""
    finish_reason: str = "stop"
    """``length`` for a cut answer, ``content_filter`` for a suppressed one."""
    status: int = 200
    error: str = ""
    """Message of an error; a plain one for ``status`` when empty."""
    code: str | None = None
    """OpenAI's code of an error, for example ``insufficient_quota``."""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Pause before anything is sent."""
    drip_s: float = 0.0
    """Send one byte each so many seconds: never silent, never done."""
    drop: Literal["", "before", "within"] = ""
    """Close the connection instead of answering, or in the middle of the body."""
    body: bytes | None = None
    """Sent as it is in place of a chat completion."""
    content_type: str = "application/json"
    refusal: str | None = None
    usage: tuple[int, int] | None = (100, 20)
    """Prompt and completion tokens; ``None`` leaves the figures out."""
    cut_stream: bool = False
    """End a streamed answer in the middle, politely: as if it were complete, but without its end."""
    tool_calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    """Functions that the model calls, as (name, arguments); arguments that are text are sent as they are."""
    events: Sequence[str] | None = None
    """The data of a streamed answer's events, sent as they are."""


def error_body(message: str, code: str | None) -> bytes:
    return json.dumps({"error": {"message": message, "type": "fake", "param": None, "code": code}}).encode()


def completion_body(answer: FakeAnswer, request: dict[str, Any]) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": answer.refusal}
    finish = answer.finish_reason
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
            }
            for number, (name, given) in enumerate(answer.tool_calls)
        ]
        finish = "tool_calls"
    body: dict[str, Any] = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.get("model", "fake"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    }
    if answer.usage is not None:
        prompt, completion = answer.usage
        body["usage"] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return json.dumps(body).encode()


def events_body(answer: FakeAnswer, request: dict[str, Any]) -> bytes:
    """The answer as server-sent events, some letters each."""
    if answer.events is not None:
        return "".join(f"data: {event}\n\n" for event in answer.events).encode()

    def chunk(choices: list[dict[str, Any]], **more: Any) -> str:
        head = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": int(time.time())}
        return "data: " + json.dumps({**head, "model": request.get("model"), "choices": choices, **more}) + "\n\n"

    def delta(finish: str | None = None, **fields: Any) -> str:
        return chunk([{"index": 0, "delta": fields, "finish_reason": finish}])

    text = answer.content or ""
    parts = [delta(role="assistant", content="")]
    size = max(40, len(text) // 500)
    parts += [delta(content=text[at : at + size]) for at in range(0, len(text), size)]
    if answer.refusal is not None:
        parts.append(delta(refusal=answer.refusal))
    if answer.cut_stream:
        return "".join(parts[: 1 + len(parts) // 2]).encode()
    parts.append(delta(finish=answer.finish_reason))
    if answer.usage is not None and (request.get("stream_options") or {}).get("include_usage"):
        prompt, completion = answer.usage
        figures = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        parts.append(chunk([], usage=figures))
    return "".join([*parts, "data: [DONE]\n\n"]).encode()
