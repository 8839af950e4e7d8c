"""The Coder as a chat model: a sub-task and its evidence in, one complete program out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from langchain_core.language_models import BaseChatModel

from stitchcuda.core.records import CandidateSource
from stitchcuda.nodes.engines.chat.answer_text import AnswerError, plain_text, prose_summary
from stitchcuda.nodes.engines.chat.conversation import ChatOptions, Conversation, Reply
from stitchcuda.nodes.engines.chat.extraction import extract_source
from stitchcuda.nodes.engines.chat.facts import (
    citation_blocks,
    evaluation_lines,
    history_lines,
    problem_text,
    profile_lines,
    subtask_lines,
)
from stitchcuda.nodes.engines.chat.fitting import WHOLE, Cuts
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.patches import patched_source
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage
from stitchcuda.nodes.evidence import CoderEvidence

__all__ = ["ChatCoder"]


@dataclass(frozen=True)
class ChatCoder:
    """Asks ``model`` for a candidate; ``limits`` come from the model when not given."""

    model: BaseChatModel
    limits: CallLimits | None = None
    options: ChatOptions | None = None
    """Limits and more; ``limits`` alone serves as well."""

    async def write(self, evidence: CoderEvidence) -> tuple[CandidateSource, Usage]:
        """A source that parses and defines ``ModelNew``; whether it works is the evaluator's to say.

        Raises:
            EngineFailure: no usable answer this time.
            ModelError: the endpoint cannot be used.
        """
        return await self._ask(evidence, 0)

    async def _ask(self, evidence: CoderEvidence, sample: int) -> tuple[CandidateSource, Usage]:
        options = self.options or ChatOptions(self.limits or CallLimits.of(self.model))
        conversation = Conversation(self.model, "coder", partial(coder_prompts, evidence), options, sample=sample)
        return await conversation.settle(partial(_read, evidence))

    async def write_several(self, evidence: CoderEvidence, count: int) -> tuple[tuple[CandidateSource, ...], Usage]:
        """Up to ``count`` different candidates, asked for side by side; those that came to nothing are left out.

        Raises:
            EngineFailure: there is not one usable answer; the message is that of the first.
            ModelError: the endpoint cannot be used.
        """
        asked = [self._ask(evidence, sample) for sample in range(count)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        usage = Usage()
        found: dict[str, CandidateSource] = {}
        failure: EngineFailure | None = None
        for outcome in outcomes:
            if isinstance(outcome, EngineFailure):
                usage += outcome.usage
                failure = failure or outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                found.setdefault(outcome[0].source, outcome[0])
                usage += outcome[1]
        if not found:
            assert failure is not None
            raise EngineFailure(f"{failure} (no usable answer among {count})", usage)
        return tuple(found.values()), usage


def coder_prompts(evidence: CoderEvidence, cuts: Cuts = WHOLE) -> tuple[str, str]:
    """System and user prompt: from scratch without a previous candidate, else on its evaluation."""
    system = render("coder_system", policy=evidence.policy, device=evidence.device)
    problem = problem_text(evidence.problem, evidence.device, cuts)
    plan_lines = subtask_lines(evidence.plan.subtasks, cuts)
    citations = citation_blocks(evidence.citations, cuts)
    history = history_lines(evidence.history, cuts)
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
        evaluation_lines=evaluation_lines(evaluation, cuts) if evaluation else [],
        profile_lines=profile_lines(evaluation.profile, cuts) if evaluation else [],
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
            source = _source(evidence, text)
        except AnswerError as error:
            problem = problem or error
            continue
        covers = (*(evidence.previous.covers if evidence.previous else ()),)
        if evidence.subtask is not None:
            covers += (evidence.subtask.id,)
        return CandidateSource(
            source=source,
            summary=prose_summary(text),
            covers=tuple(dict.fromkeys(covers)),
            own_ops=evidence.previous.own_ops if evidence.previous else (),
        )
    assert problem is not None  # a reply has at least one text
    raise problem


def _source(evidence: CoderEvidence, text: str) -> str:
    """The whole program in ``text``; changes to the previous one are applied when there is no whole program."""
    try:
        return extract_source(text)
    except AnswerError:
        patched = patched_source(text, evidence.previous.source) if evidence.previous is not None else None
        if patched is None:
            raise
        return patched
