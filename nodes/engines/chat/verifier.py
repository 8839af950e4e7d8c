"""The Verifier's diagnosis as a chat model: an evaluation in, an instruction to the Coder out.

The routing rules have proposed what happens next, and the model cannot overrule them: all that it may decide
is that the plan itself is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from langchain_core.language_models import BaseChatModel

from stitchcuda.core.records import Feedback
from stitchcuda.nodes.engines.chat.answer_text import AnswerError
from stitchcuda.nodes.engines.chat.answers import FeedbackAnswer, parse_answer, strict_schema
from stitchcuda.nodes.engines.chat.conversation import ChatOptions, Conversation, Reply
from stitchcuda.nodes.engines.chat.facts import (
    citation_blocks,
    evaluation_lines,
    history_lines,
    known_citations,
    problem_text,
    profile_lines,
    subtask_lines,
)
from stitchcuda.nodes.engines.chat.fitting import WHOLE, Cuts
from stitchcuda.nodes.engines.chat.limits import CallLimits
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import VerifierEvidence

__all__ = ["ChatVerifier"]


@dataclass(frozen=True)
class ChatVerifier:
    """Asks ``model`` for a diagnosis; ``limits`` come from the model when not given."""

    model: BaseChatModel
    limits: CallLimits | None = None
    options: ChatOptions | None = None
    """Limits and more; ``limits`` alone serves as well."""

    async def diagnose(self, evidence: VerifierEvidence) -> tuple[Feedback, Usage]:
        """Feedback of the proposed kind, or of kind ``replan``.

        Raises:
            EngineFailure: no usable answer this time.
            ModelError: the endpoint cannot be used.
        """
        options = self.options or ChatOptions(self.limits or CallLimits.of(self.model))
        prompts = partial(verifier_prompts, evidence)
        conversation = Conversation(self.model, "verifier", prompts, options, strict_schema(FeedbackAnswer))
        return await conversation.settle(partial(_read, evidence))


def verifier_prompts(evidence: VerifierEvidence, cuts: Cuts = WHOLE) -> tuple[str, str]:
    """System and user prompt."""
    question = render(
        "verifier",
        problem_text=problem_text(evidence.problem, evidence.device, cuts),
        plan_lines=subtask_lines(evidence.plan.subtasks, cuts),
        subtask=evidence.subtask,
        candidate=evidence.candidate,
        evaluation_lines=evaluation_lines(evidence.evaluation, cuts),
        profile_lines=profile_lines(evidence.evaluation.profile, cuts),
        best_speedup=evidence.best_speedup,
        proposed_kind=evidence.proposed_kind,
        history_lines=history_lines(evidence.history, cuts),
        citations=citation_blocks(evidence.citations, cuts),
    )
    return render("verifier_system", policy=evidence.policy), question


def _read(evidence: VerifierEvidence, reply: Reply) -> Feedback:
    answer = parse_answer(FeedbackAnswer, *reply.texts)
    kind = "replan" if answer.replan else evidence.proposed_kind
    if not answer.instruction and kind != "accept":
        raise AnswerError("wrong_schema", "instruction: must say what is to be done next")
    return Feedback(
        kind=kind,
        evidence=answer.evidence,
        instruction=answer.instruction,
        expectation=answer.expectation,
        citations=known_citations(answer.citations, evidence.citations, reply.sources),
    )
