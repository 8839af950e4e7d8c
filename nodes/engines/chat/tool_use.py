"""A documentation tool that a chat model may call before it answers: offered, played, and counted.

Comes in: the message of a model that asks for the tool. Goes out: the messages to go on with. The calls of one question
are limited, and what they return is limited by the room that the window has left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["MOST_CALLS", "ToolUse"]

MOST_CALLS = 4
"""Of one question to a model, its corrections included."""
NO_MORE = "No further search is possible. Answer now."


@dataclass
class ToolUse:
    """What a conversation may still ask of ``tool``, and what it was shown."""

    tool: BaseTool
    say: Callable[[str], None]
    most_calls: int = MOST_CALLS
    used: int = 0
    sources: list[str] = field(default_factory=list)
    """Citations of all passages that the model was shown."""

    @property
    def offer(self) -> dict[str, Any]:
        """The arguments of a call that offer the tool; once the calls are spent they only explain the ones before."""
        choice = "auto" if self.used < self.most_calls else "none"
        return {"tools": [convert_to_openai_tool(self.tool)], "tool_choice": choice}

    async def play(self, asked: AIMessage, fits: Callable[[str], bool]) -> list[BaseMessage]:
        """``asked`` and the answer to each of its calls.

        Args:
            fits: whether a text still fits the window.
        """
        answers: list[BaseMessage] = []
        for call in asked.tool_calls:
            message = await self._call(dict(call))
            if not fits("".join(str(one.text) for one in (*answers, message))):
                message = _answer(call["id"], NO_MORE)
                self.used = self.most_calls
            else:
                self.sources += _sources(message.artifact)
            answers.append(message)
        for bad in asked.invalid_tool_calls:
            self.used += 1
            answers.append(_answer(bad["id"], "The arguments are not valid JSON."))
        return [asked, *answers]

    async def _call(self, call: dict[str, Any]) -> ToolMessage:
        if self.used >= self.most_calls:
            return _answer(call["id"], NO_MORE)
        self.used += 1
        if call["name"] != self.tool.name:
            return _answer(call["id"], f"There is no tool {call['name']!r}; there is {self.tool.name}.")
        self.say(f"searches the documentation: {' '.join(str(call['args'].get('query', '')).split())[:120]}")
        message = await self.tool.ainvoke({**call, "type": "tool_call"})
        assert isinstance(message, ToolMessage)  # what a tool gives for a call with an id
        return message


def _answer(key: str | None, text: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=key or "")


def _sources(hits: Sequence[Any] | None) -> list[str]:
    return [hit.citation for hit in hits or ()]
