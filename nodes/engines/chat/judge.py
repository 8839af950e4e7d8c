"""The judge as a chat model: the rubric and measured evidence in, a reason and a level per dimension out.

The candidate is shown without comments and fenced, so that it cannot speak to the judge. What cannot be read is a
``JudgeFailure``, never a score.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from langchain_core.language_models import BaseChatModel

from stitchcuda.core.errors import one_line
from stitchcuda.nodes.engines.chat.answer_text import AnswerError, plain_text
from stitchcuda.nodes.engines.chat.conversation import ChatOptions, Conversation, Reply
from stitchcuda.nodes.engines.chat.facts import evaluation_lines, profile_lines
from stitchcuda.nodes.engines.chat.fitting import WHOLE, Cuts
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage
from stitchcuda.rubrics import JudgeEvidence, JudgeFailure, Rubric, Verdict, judge_view, load_rubric, parse_verdict

__all__ = ["ChatJudge"]


@dataclass
class ChatJudge:
    """Fits ``rubrics.Judge``; ``usage`` is what all verdicts so far cost."""

    model: BaseChatModel
    rubric: Rubric = field(default_factory=load_rubric)
    options: ChatOptions | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def name(self) -> str:
        """The model's name."""
        return str(getattr(self.model, "model_name", type(self.model).__name__))

    def judge(self, evidence: JudgeEvidence) -> Verdict:
        """A verdict, from a thread that runs no event loop.

        Raises:
            JudgeFailure: no usable verdict this time.
            ModelError: the endpoint cannot be used.
        """
        return asyncio.run(self.verdict(evidence))

    async def verdict(self, evidence: JudgeEvidence) -> Verdict:
        """The same for callers with an event loop."""
        options = self.options or ChatOptions(CallLimits.of(self.model))
        prompts = partial(judge_prompts, self.rubric, evidence)
        conversation = Conversation(self.model, "judge", prompts, options, verdict_schema(self.rubric, evidence))
        try:
            verdict, usage = await conversation.settle(partial(self._read, evidence))
        except EngineFailure as failure:
            self.usage += failure.usage
            raise JudgeFailure(one_line(failure)) from failure
        self.usage += usage
        return verdict

    def _read(self, evidence: JudgeEvidence, reply: Reply) -> Verdict:
        try:
            return parse_verdict(plain_text(reply.text).strip(), self.rubric, evidence.skill, judge=self.name)
        except JudgeFailure as failure:
            raise AnswerError("wrong_verdict", one_line(failure)) from failure


def verdict_schema(rubric: Rubric, evidence: JudgeEvidence) -> dict[str, Any]:
    """The JSON schema of a verdict: for each dimension the reason stands before the level."""
    part = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "level": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
        "required": ["reason", "level"],
        "additionalProperties": False,
    }
    fields: dict[str, Any] = {dimension.name: part for dimension in rubric.dimensions(evidence.skill)}
    fields["major_hack"] = {"type": "boolean"}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def judge_prompts(rubric: Rubric, evidence: JudgeEvidence, cuts: Cuts = WHOLE) -> tuple[str, str]:
    """System and user prompt."""
    dimensions = rubric.dimensions(evidence.skill)
    plan = evidence.plan
    subtask = next((task for task in plan.subtasks if task.id == evidence.subtask_id), None) if plan else None
    previous = evidence.previous_evaluation
    question = render(
        "judge",
        plan=plan,
        subtask=subtask,
        covers=evidence.covers,
        feedback=evidence.feedback,
        previous_lines=evaluation_lines(previous, cuts) if previous else [],
        evaluation_lines=evaluation_lines(evidence.evaluation, cuts),
        profile_lines=profile_lines(evidence.evaluation.profile, cuts),
        speedup=evidence.evaluation.speedup,
        code=judge_view(evidence.source),
        left_out=cuts.left_out,
    )
    return render("judge_system", dimensions=dimensions, skill=evidence.skill), question
