"""The Coder as a chat model: a sub-task and its evidence in, one complete program out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from langchain_core.language_models import BaseChatModel

from stitchcuda.core.records import CandidateSource
from stitchcuda.nodes.engines.chat.answer_text import AnswerError, plain_text, prose_summary
from stitchcuda.nodes.engines.chat.conversation import CallLimits, Conversation, Reply
from stitchcuda.nodes.engines.chat.extraction import extract_source
from stitchcuda.nodes.engines.chat.facts import (
    citation_blocks,
    evaluation_lines,
    history_lines,
    problem_text,
    profile_lines,
    subtask_lines,
)
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import CoderEvidence

__all__ = ["ChatCoder"]


@dataclass(frozen=True)
class ChatCoder:
    """Asks ``model`` for a candidate; ``limits`` come from the model when not given."""

    model: BaseChatModel
    limits: CallLimits | None = None

    async def write(self, evidence: CoderEvidence) -> tuple[CandidateSource, Usage]:
        """A source that parses and defines ``ModelNew``; whether it works is the evaluator's to say.

        Raises:
            EngineFailure: no usable answer this time.
            ModelError: the endpoint cannot be used.
        """
        system, question = await asyncio.to_thread(coder_prompts, evidence)  # reads files
        limits = self.limits or CallLimits.of(self.model)
        return await Conversation(self.model, "coder", system, question, limits).settle(partial(_read, evidence))


def coder_prompts(evidence: CoderEvidence) -> tuple[str, str]:
    """System and user prompt: from scratch without a previous candidate, else on its evaluation."""
    system = render("coder_system", policy=evidence.policy, device=evidence.device)
    problem = problem_text(evidence.problem, evidence.device)
    plan_lines = subtask_lines(evidence.plan.subtasks)
    citations = citation_blocks(evidence.citations)
    history = history_lines(evidence.history)
    if evidence.previous is None:
        return system, render(
            "coder_scratch",
            problem_text=problem,
            plan=evidence.plan,
            plan_lines=plan_lines,
            subtask=evidence.subtask,
            feedback=evidence.feedback,
            history_lines=history,
            citations=citations,
        )
    evaluation = evidence.previous_evaluation
    return system, render(
        "coder_feedback",
        problem_text=problem,
        plan=evidence.plan,
        plan_lines=plan_lines,
        subtask=evidence.subtask,
        previous=evidence.previous,
        evaluation_lines=evaluation_lines(evaluation) if evaluation else [],
        profile_lines=profile_lines(evaluation.profile) if evaluation else [],
        feedback=evidence.feedback,
        history_lines=history,
        citations=citations,
    )


def _read(evidence: CoderEvidence, reply: Reply) -> CandidateSource:
    if not plain_text(reply.text).strip():
        raise AnswerError("empty_answer", "the answer is empty, or reasoning without an end")
    problem: AnswerError | None = None
    for text in reply.texts:
        try:
            source = extract_source(text)
        except AnswerError as error:
            problem = problem or error
            continue
        covers = (*(evidence.previous.covers if evidence.previous else ()),)
        if evidence.subtask is not None:
            covers += (evidence.subtask.id,)
        return CandidateSource(source=source, summary=prose_summary(text), covers=tuple(dict.fromkeys(covers)))
    assert problem is not None  # a reply has at least one text
    raise problem
