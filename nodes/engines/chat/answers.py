"""Structured answers: their shape as pydantic models and JSON schema, and how they are found in text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from stitchcuda.nodes.engines.chat.answer_text import AnswerError, fenced_blocks, plain_text

__all__ = ["FeedbackAnswer", "PlanAnswer", "SubTaskAnswer", "parse_answer", "strict_schema"]

ERRORS_SHOWN = 6
OBJECTS_TRIED = 500


class _Answer(BaseModel):
    """Fields that a model adds of its own are no reason to ask again."""

    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True)


class SubTaskAnswer(_Answer):
    id: str
    title: str
    ops: tuple[str, ...]
    contract: str
    technique: str
    done_when: str
    memory_limit: str = ""
    expected_gain: str = ""
    citations: tuple[str, ...] = ()


class PlanAnswer(_Answer):
    rationale: str = ""
    summary: str
    subtasks: tuple[SubTaskAnswer, ...]
    left_to_pytorch: tuple[str, ...] = ()


class FeedbackAnswer(_Answer):
    """The evidence comes first, so that a model that writes in order reasons before it concludes."""

    evidence: tuple[str, ...]
    replan: bool = False
    instruction: str
    expectation: str = ""
    citations: tuple[str, ...] = ()


AnswerModel = TypeVar("AnswerModel", bound=_Answer)


def strict_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of ``answer`` in the strict form that endpoints ask for.

    Every property is required, none may be added, and there are no defaults or titles.
    """

    def strict(node: Any) -> Any:
        if isinstance(node, list):
            return [strict(item) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("properties"), dict):
            fields = {name: strict(value) for name, value in node["properties"].items()}
            return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return {key: strict(value) for key, value in node.items() if key not in ("default", "title", "description")}

    schema = answer.model_json_schema()
    definitions = {name: strict(value) for name, value in schema.pop("$defs", {}).items()}
    result: dict[str, Any] = strict(schema)
    return {**result, "$defs": definitions} if definitions else result


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in ``text``: the whole of it, fenced ones (the last first), then any that stands in prose."""
    decoder = json.JSONDecoder(strict=False)  # line breaks inside strings are a common slip and do no harm
    for part in [text.strip(), *reversed([block.text for block in fenced_blocks(text, lambda _: True)])]:
        try:
            value = decoder.decode(part.strip())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value
    at = 0
    for _ in range(OBJECTS_TRIED):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        except RecursionError:
            return
        if isinstance(value, dict):
            yield value
        at = end


def parse_answer(answer: type[AnswerModel], *texts: str) -> AnswerModel:
    """The first JSON object in ``texts`` that is an ``answer``.

    Raises:
        AnswerError: ``empty_answer``, ``no_json`` or ``wrong_schema``, with what is wrong where.
    """
    plain = [plain_text(text) for text in texts]
    if not any(text.strip() for text in plain):
        raise AnswerError("empty_answer", "the answer is empty, or reasoning without an end")
    problem: ValidationError | None = None
    for value in chain.from_iterable(map(_objects, plain)):
        try:
            return answer.model_validate(value)
        except ValidationError as error:
            problem = problem or error
    if problem is None:
        raise AnswerError("no_json", "the answer holds no valid JSON object")
    errors = problem.errors(include_url=False, include_input=False)
    lines = [f"{'.'.join(map(str, error['loc'])) or 'the object'}: {error['msg']}" for error in errors[:ERRORS_SHOWN]]
    if len(errors) > ERRORS_SHOWN:
        lines.append(f"and {len(errors) - ERRORS_SHOWN} more")
    raise AnswerError("wrong_schema", "the JSON object does not have the asked-for form: " + "; ".join(lines))
