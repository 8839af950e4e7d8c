"""The rubric as data, verdicts that are never guessed, and the judge that needs no model.

::

    rubric = load_rubric()
    verdict = EmbeddedJudge(rubric).judge(JudgeEvidence(skill="scratch", evaluation=evaluation, source=source))
    total(verdict, rubric)          # 4 to 20, or None when a dimension is unscored

Not there yet: the chat judge (``parse_verdict`` and ``judge_view`` are its reading and writing ends), evidence from
SASS and ncu, and the report on how far judges agree.
"""

from __future__ import annotations

from stitchcuda.rubrics.embedded import EmbeddedJudge
from stitchcuda.rubrics.evidence import JudgeEvidence, judge_view
from stitchcuda.rubrics.rubric import Dimension, Rubric, Skill, load_rubric
from stitchcuda.rubrics.verdict import (
    DimensionVerdict,
    Judge,
    JudgeFailure,
    Verdict,
    judge_or_unscored,
    parse_verdict,
    total,
)

__all__ = [
    "Dimension",
    "DimensionVerdict",
    "EmbeddedJudge",
    "Judge",
    "JudgeEvidence",
    "JudgeFailure",
    "Rubric",
    "Skill",
    "Verdict",
    "judge_or_unscored",
    "judge_view",
    "load_rubric",
    "parse_verdict",
    "total",
]
