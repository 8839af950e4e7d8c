"""Prompt and answer of an LLM run as plain text, whichever of LangChain's shapes they were stored in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["answer_of", "prompt_of"]

_ROLES = {
    "HumanMessage": "user",
    "human": "user",
    "SystemMessage": "system",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "ai": "assistant",
    "ToolMessage": "tool",
}


def prompt_of(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The messages of an LLM run as ``(role, text)``; empty for other runs."""
    found: list[tuple[str, str]] = []
    for batch in inputs.get("messages") or []:
        for message in batch if isinstance(batch, list) else [batch]:
            if isinstance(message, Mapping):
                found.append(_message(message))
    found += [("user", text) for text in inputs.get("prompts") or [] if isinstance(text, str)]
    return found


def answer_of(outputs: Mapping[str, Any]) -> str:
    """The text of the first generation of an LLM run; empty for other runs."""
    for batch in outputs.get("generations") or []:
        for generation in batch if isinstance(batch, list) else [batch]:
            if not isinstance(generation, Mapping):
                continue
            message = generation.get("message")
            text = _message(message)[1] if isinstance(message, Mapping) else ""
            return text or _text(generation.get("text"))
    return ""


def _message(message: Mapping[str, Any]) -> tuple[str, str]:
    fields = message.get("kwargs", message)
    kind = str(message["id"][-1]) if isinstance(message.get("id"), list) and message["id"] else fields.get("type", "")
    role = _ROLES.get(str(kind)) or fields.get("role") or str(kind)
    return str(role), _text(fields.get("content"))


def _text(content: Any) -> str:
    """Content is a string, a reference to a long one, or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(block.get("text") if isinstance(block, Mapping) else block) for block in content)
    if isinstance(content, Mapping) and content.keys() == {"ref", "bytes"}:
        return f"({content['bytes']} bytes in {content['ref']})"
    return ""
