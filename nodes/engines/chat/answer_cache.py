"""Answers that were given before, by everything that was asked: a repeated run costs nothing.

The key is a digest of endpoint, model, messages, and what was sent with them, and of how often the same question
was asked before in this run. Measured figures do not count: no two runs measure the same, and a repeated run would
never find its answers. A question that is repeated on purpose (another sample, a plan that was no use) gets the
answer that it got the last time at this place, not the first one again. No key, no address and no prompt is stored.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ValidationError

from stitchcuda.core.files import sha256_text, write_json
from stitchcuda.core.records import Record

__all__ = ["AnswerCache", "CachedAnswer", "CachedChatModel", "without_measurements"]

FORMAT_VERSION = 1


_DECIMAL = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")
_VERDICT = re.compile(r"^(?:message|check|build|screen)\b")
_PROFILE_ROW = re.compile(r"^\s*#%\s+# ms\b")
_FENCE = re.compile(r"^(`{3,})(\w*)$")


def without_measurements(text: str) -> str:
    """``text`` with ``#`` for what a run measures: decimals, and all numbers of a verdict; programs stay as they are.

    Rows of a profile are put in order, because their order is a measurement too.
    """
    lines: list[str] = []
    rows: list[str] = []
    fence = tag = ""
    for line in text.split("\n"):
        if match := _FENCE.match(line):
            if not fence:
                fence, tag = match.groups()
            elif match.group(1) == fence and not match.group(2):
                fence = tag = ""
        if tag != "python":
            line = (re.compile(r"\d+") if _VERDICT.match(line) else _DECIMAL).sub("#", _DECIMAL.sub("#", line))
        if _PROFILE_ROW.match(line):
            rows.append(" ".join(line.split()))
            continue
        lines += [*sorted(rows), line]
        rows = []
    return "\n".join([*lines, *sorted(rows)])


class CachedAnswer(Record):
    """One answer on file."""

    version: int = FORMAT_VERSION
    model: str
    text: str
    finish_reason: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: tuple[dict[str, Any], ...] = ()


class AnswerCache:
    """Answers under ``folder``; one object per run.

    Args:
        reuse: answer from the store; otherwise everything is asked anew and replaces what is stored.
    """

    def __init__(self, folder: Path, *, reuse: bool = True) -> None:
        self.folder = folder
        self.reuse = reuse
        self._asked: Counter[str] = Counter()

    def key(self, endpoint: tuple[str, str], messages: list[BaseMessage], sent: dict[str, Any]) -> str:
        """The key of a question; each call counts as asking it once more."""
        asked: list[list[Any]] = [[message.type, without_measurements(str(message.text))] for message in messages]
        for entry, message in zip(asked, messages, strict=True):
            if isinstance(message, AIMessage) and message.tool_calls:
                entry.append([(call["name"], call["args"]) for call in message.tool_calls])
        question = sha256_text(json.dumps([FORMAT_VERSION, endpoint, asked, sent], sort_keys=True, default=str))
        self._asked[question] += 1
        return sha256_text(f"{question} {self._asked[question]}")

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> CachedAnswer | None:
        """The stored answer; ``None`` for none, and for a file that cannot be read."""
        if not self.reuse:
            return None
        try:
            answer = CachedAnswer.model_validate_json(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValidationError, UnicodeDecodeError):
            return None
        return answer if answer.version == FORMAT_VERSION else None

    def put(self, key: str, answer: CachedAnswer) -> None:
        """Store ``answer``; a full or read-only disk costs the saving, not the run."""
        try:
            write_json(self._path(key), answer.model_dump(mode="json"))
        except OSError:
            return


class CachedChatModel(BaseChatModel):
    """Gives one stored answer: so the trace of a run that costs nothing shows prompts and answers all the same."""

    answer: CachedAnswer

    @property
    def _llm_type(self) -> str:
        return "cached"

    @property
    def model_name(self) -> str:
        return self.answer.model

    def _generate(
        self,
        messages: list[BaseMessage],  # noqa: ARG002  # the interface's
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        facts = {"finish_reason": self.answer.finish_reason, "model_name": self.answer.model, "cached": True}
        calls = [ToolCall(name=call["name"], args=call["args"], id=call["id"]) for call in self.answer.tool_calls]
        message = AIMessage(content=self.answer.text, response_metadata=facts, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])
