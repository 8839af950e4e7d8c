"""A chat model that reads its answers from a file: deterministic, offline, with a real model's interface.

The file is JSON or TOML. ``answers`` is one list for everybody, ``roles`` a list per role (``planner``,
``coder``, ``verifier``); an answer is a string or a table with

- ``text``: the answer; or ``json``: a value sent as JSON; or ``code_file``: a program, relative to the script
- ``finish_reason`` (``stop``), ``input_tokens``, ``output_tokens`` (estimated from the length when left out)
- ``raise``: ``timeout``, ``connection``, ``unreachable`` or an HTTP status such as ``429``; ``message``

``after_last = "repeat"`` gives the last answer again and again; by default a script that runs out is a failure.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Literal, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from stitchcuda.core.errors import SettingsError, one_line
from stitchcuda.core.records import Record

__all__ = ["ScriptedAnswer", "ScriptedChatModel", "ScriptedStatusError", "role_of"]


class ScriptedStatusError(Exception):
    """An HTTP status other than success, as a script asked for it."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


class ScriptedAnswer(Record):
    """One entry of a script."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    text: str | None = None
    json_value: Any = Field(default=None, alias="json")
    code_file: str | None = None
    finish_reason: str = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None
    raised: Literal["timeout", "connection", "unreachable"] | int | None = Field(default=None, alias="raise")
    message: str = "as the script asks"
    delay_s: float = 0.0

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        given = [self.text is not None, "json_value" in self.model_fields_set, self.code_file is not None]
        if sum([*given, self.raised is not None]) != 1:
            raise ValueError("give one of text, json, code_file, raise")
        return self


class _Script(Record):
    answers: tuple[ScriptedAnswer | str, ...] = ()
    roles: dict[Literal["planner", "coder", "verifier", "judge"], tuple[ScriptedAnswer | str, ...]] = {}
    after_last: Literal["fail", "repeat"] = "fail"


def role_of(system_text: str) -> str:
    """The role that a system prompt speaks to: its first words are ``You are the <Role>``."""
    match = re.search(r"You are the (\w+)", system_text)
    return match.group(1).lower() if match else ""


class ScriptedChatModel(BaseChatModel):
    """Answers from a script, in order; one per call, those of a role before those for everybody."""

    name_: str = Field(default="scripted", alias="model_name")
    answers: tuple[ScriptedAnswer, ...] = ()
    roles: dict[str, tuple[ScriptedAnswer, ...]] = {}
    after_last: Literal["fail", "repeat"] = "fail"
    folder: Path = Path()
    _used: Counter[str] = PrivateAttr(default_factory=Counter)
    _calls: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @classmethod
    def from_file(cls, path: Path, *, timeout_s: float = 600.0, max_retries: int = 4) -> Self:
        """Read a script.

        Raises:
            SettingsError: the file is missing, or is no script.
        """
        try:
            text = path.read_text(encoding="utf-8")
            value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
            script = _Script.model_validate({"answers": value} if isinstance(value, list) else value)
        except OSError as error:
            raise SettingsError(f"script {path}: {error.strerror or error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            raise SettingsError(f"script {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError and both parsers' errors are ValueErrors
            raise SettingsError(f"script {path}: {one_line(error)}") from error
        return cls(
            model_name=f"scripted:{path.name}",
            answers=_as_answers(script.answers),
            roles={role: _as_answers(answers) for role, answers in script.roles.items()},
            after_last=script.after_last,
            folder=path.parent,
            metadata={"timeout_s": timeout_s, "max_retries": max_retries},
        )

    @property
    def model_name(self) -> str:
        return self.name_

    @property
    def calls(self) -> tuple[tuple[BaseMessage, ...], ...]:
        """The messages of each call so far."""
        return tuple(tuple(call) for call in self._calls)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _next(self, messages: list[BaseMessage]) -> ScriptedAnswer:
        role = role_of(str(messages[0].text)) if messages else ""
        queue = role if role in self.roles else ""
        answers = self.roles.get(queue, self.answers)
        with self._lock:
            self._calls.append(list(messages))
            index = self._used[queue]
            self._used[queue] += 1
        if index >= len(answers):
            if self.after_last == "fail" or not answers:
                raise ScriptedStatusError(410, f"the script has no answer number {index + 1} for {role or 'this role'}")
            index = len(answers) - 1
        return answers[index]

    def _result(self, answer: ScriptedAnswer, messages: list[BaseMessage]) -> ChatResult:
        if answer.raised == "timeout":
            raise TimeoutError(answer.message)
        if answer.raised == "connection":
            raise ConnectionResetError(answer.message)
        if answer.raised == "unreachable":
            raise ConnectionRefusedError(answer.message)
        if answer.raised is not None:
            raise ScriptedStatusError(answer.raised, answer.message)
        text = answer.text if answer.text is not None else ""
        if answer.code_file is not None:
            text = f"```python\n{(self.folder / answer.code_file).read_text(encoding='utf-8')}\n```\n"
        elif answer.text is None:
            text = json.dumps(answer.json_value, ensure_ascii=False)
        prompt_chars = sum(len(str(message.text)) for message in messages)
        used_in = answer.input_tokens if answer.input_tokens is not None else prompt_chars // 4
        used_out = answer.output_tokens if answer.output_tokens is not None else len(text) // 4
        message = AIMessage(
            content=text,
            usage_metadata=UsageMetadata(input_tokens=used_in, output_tokens=used_out, total_tokens=used_in + used_out),
            response_metadata={"finish_reason": answer.finish_reason, "model_name": self.model_name},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002  # the interface's
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return self._result(self._next(messages), messages)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        answer = self._next(messages)
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return await asyncio.to_thread(self._result, answer, messages)


def _as_answers(entries: tuple[ScriptedAnswer | str, ...]) -> tuple[ScriptedAnswer, ...]:
    return tuple(ScriptedAnswer(text=entry) if isinstance(entry, str) else entry for entry in entries)
