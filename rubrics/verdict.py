"""Verdicts: levels with reasons, parsed strictly. What cannot be read is a judge failure, never a score.

Comes in: a judge's answer (text or decoded JSON). Goes out: a ``Verdict``, or ``JudgeFailure``. A total that the judge
gives is ignored; ``total`` computes it from the levels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from stitchcuda.core.errors import one_line
from stitchcuda.core.records import Record
from stitchcuda.rubrics.evidence import JudgeEvidence
from stitchcuda.rubrics.rubric import LEVELS, Rubric, Skill

__all__ = ["DimensionVerdict", "Judge", "JudgeFailure", "Verdict", "judge_or_unscored", "parse_verdict", "total"]

_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


class JudgeFailure(Exception):
    """The judge gave no usable verdict; says nothing about the candidate."""


class DimensionVerdict(Record):
    """One dimension judged."""

    dimension: str
    reason: str
    level: Annotated[int, Field(ge=1, le=LEVELS, strict=True)] | None
    """``None``: unscored, because the evidence does not say."""


class Verdict(Record):
    """A judge's answer about one candidate."""

    judge: str
    """``embedded``, or a model's name."""
    skill: Skill
    rubric_digest: str
    dimensions: tuple[DimensionVerdict, ...] = ()
    major_hack: Annotated[bool, Field(strict=True)] | None = None
    """``None``: not established."""
    failure: str = ""
    """Why there is no verdict at all, after the last retry."""

    @property
    def levels(self) -> dict[str, int | None]:
        return {dimension.dimension: dimension.level for dimension in self.dimensions}


class Judge(Protocol):
    """Scores one candidate; raises ``JudgeFailure`` when it has no usable answer."""

    name: str
    rubric: Rubric

    def judge(self, evidence: JudgeEvidence) -> Verdict: ...


def total(verdict: Verdict, rubric: Rubric) -> float | None:
    """The weighted total, scaled to 4 … 20 for four dimensions whatever their weights.

    ``None`` when a dimension of the skill is unscored or missing: a partial total would look like a low score.
    """
    dimensions = rubric.dimensions(verdict.skill)
    levels = verdict.levels
    scored = [
        (dimension.weight, level) for dimension in dimensions if (level := levels.get(dimension.name)) is not None
    ]
    if verdict.failure or not dimensions or len(scored) != len(dimensions):
        return None
    weights = sum(weight for weight, _ in scored)
    return len(dimensions) * sum(weight * level for weight, level in scored) / weights


def parse_verdict(answer: str | Mapping[str, Any], rubric: Rubric, skill: Skill, *, judge: str) -> Verdict:
    """Read a judge's answer of the form ``{"<dimension>": {"reason": …, "level": 1-5}, …, "major_hack": bool}``.

    Levels are integers or single digits as text; booleans are ``true``/``false``, also as text. Anything else fails.

    Raises:
        JudgeFailure: The answer is malformed or incomplete.
    """
    data = _decode(answer) if isinstance(answer, str) else answer
    verdicts = []
    for dimension in rubric.dimensions(skill):
        part = data.get(dimension.name)
        if not isinstance(part, Mapping):
            raise JudgeFailure(f"the verdict has no object for {dimension.name!r}")
        reason = part.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            raise JudgeFailure(f"the verdict gives no reason for {dimension.name!r}")
        verdicts.append(
            DimensionVerdict(dimension=dimension.name, reason=reason, level=_level(part.get("level"), dimension.name))
        )
    return Verdict(
        judge=judge,
        skill=skill,
        rubric_digest=rubric.digest,
        dimensions=tuple(verdicts),
        major_hack=_boolean(data.get("major_hack"), "major_hack"),
    )


def judge_or_unscored(judge: Judge, evidence: JudgeEvidence, *, attempts: int = 3) -> Verdict:
    """The judge's verdict, asked again after a failure; unscored with the last reason when every attempt failed."""
    reason = ""
    for _ in range(attempts):
        try:
            return judge.judge(evidence)
        except JudgeFailure as failure:
            reason = one_line(failure)
    return Verdict(judge=judge.name, skill=evidence.skill, rubric_digest=judge.rubric.digest, failure=reason)


def _decode(text: str) -> Mapping[str, Any]:
    # The last fenced block: a model may quote the format before it answers.
    fenced = _FENCED.findall(text)
    try:
        data = json.loads(fenced[-1] if fenced else text)
    except (ValueError, RecursionError) as error:
        raise JudgeFailure(f"the verdict is no JSON: {one_line(error)}") from error
    if not isinstance(data, dict):
        raise JudgeFailure("the verdict is no JSON object")
    return data


def _level(value: object, name: str) -> int:
    if isinstance(value, str) and re.fullmatch(r"[1-5]", value.strip()):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LEVELS:
        return value
    raise JudgeFailure(f"the level of {name!r} is {value!r}, not an integer from 1 to {LEVELS}")


def _boolean(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise JudgeFailure(f"{name!r} is {value!r}, neither true nor false")
