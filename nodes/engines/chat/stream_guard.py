"""What may pass of a streamed answer: server-sent events whose data are chat completion chunks, to their end.

A stream that breaks off, holds something else, or an error in the middle raises here, in words that say so; the
library would stop silently or raise whatever its parser stumbles over. Keys are taken out of errors.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from stitchcuda.nodes.engines.chat.faults import redact

__all__ = ["BrokenStreamError", "MalformedStreamError", "RefusedStreamError", "guard_stream"]

LINE_LIMIT_BYTES = 4_000_000
ANSWER_LIMIT_BYTES = 64_000_000
"""An event costs some 200 bytes for a few letters of answer; a real answer stays far below."""


class MalformedStreamError(Exception):
    """A stream that holds something other than chunks of an answer."""

    status_code = 502
    code = "malformed_answer"


class BrokenStreamError(ConnectionResetError):
    """A stream that ended before the answer did."""


class RefusedStreamError(Exception):
    """The model declines; the library would drop the words with which it does so."""

    status_code = 400
    code = "refused"


class _Watch:
    def __init__(self, secrets: tuple[str, ...]) -> None:
        self.secrets = secrets
        self.rest = b""
        self.size = 0
        self.finished = False
        self.refusal = ""
        self.seen = False

    def see(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > ANSWER_LIMIT_BYTES:
            raise MalformedStreamError(f"the answer has more than {ANSWER_LIMIT_BYTES // 1_000_000} MB")
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > LINE_LIMIT_BYTES:
            raise MalformedStreamError("the stream has a line without an end")
        for line in lines:
            self._line(line.rstrip(b"\r"))

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        text = line[5:].strip()
        if text == b"[DONE]":
            if not self.seen:
                raise MalformedStreamError("the stream holds no answer")
            self.finished = True
            return
        try:
            chunk = json.loads(text)
        except (ValueError, RecursionError):
            raise MalformedStreamError("an event of the stream is not JSON") from None
        if flaw := _flaw(chunk):
            raise MalformedStreamError(redact(flaw, self.secrets))
        choices = chunk.get("choices") or []
        self.seen = self.seen or bool(choices)
        self.refusal += "".join((choice.get("delta") or {}).get("refusal") or "" for choice in choices)
        self.finished = self.finished or any(choice.get("finish_reason") for choice in choices)
        if self.finished and self.refusal:
            raise RefusedStreamError(redact(self.refusal, self.secrets))

    def end(self) -> None:
        if self.rest.strip():
            self._line(self.rest.strip())
        if not self.finished:
            raise BrokenStreamError("the stream ended before the answer did")


def _flaw(chunk: object) -> str:
    """Why ``chunk`` is no part of an answer; empty when it is one."""
    if not isinstance(chunk, dict):
        return "an event of the stream is not a JSON object"
    if chunk.get("error"):
        return f"the stream holds an error: {json.dumps(chunk['error'])[:200]}"
    choices = chunk.get("choices", [])
    if not isinstance(choices, list | None) or not isinstance(chunk.get("usage"), dict | None):
        return "an event of the stream has a field of the wrong type"
    for choice in choices or []:
        delta = choice.get("delta") if isinstance(choice, dict) else 0
        texts = [(delta or {}).get(name) for name in ("content", "refusal")] if isinstance(delta, dict | None) else [0]
        if not all(isinstance(text, str | None) for text in texts):
            return "an event of the stream has a choice of the wrong form"
    return ""


def guard_stream(
    read: Callable[..., AsyncIterator[bytes]], secrets: tuple[str, ...]
) -> Callable[..., AsyncIterator[bytes]]:
    """``read`` (a response's ``aiter_bytes``), watched."""

    async def guarded(*args: Any, **kwargs: Any) -> AsyncIterator[bytes]:
        watch = _Watch(secrets)
        async for data in read(*args, **kwargs):
            watch.see(data)
            yield data
        watch.end()

    return guarded
