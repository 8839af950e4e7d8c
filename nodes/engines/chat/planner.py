"""The Planner as a chat model: op graph and profile in, a to-do list out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from langchain_core.language_models import BaseChatModel

from stitchcuda.core.records import Plan, SubTask
from stitchcuda.nodes.engines.chat.answer_text import AnswerError
from stitchcuda.nodes.engines.chat.answers import PlanAnswer, parse_answer, strict_schema
from stitchcuda.nodes.engines.chat.conversation import ChatOptions, Conversation, Reply
from stitchcuda.nodes.engines.chat.facts import (
    citation_blocks,
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
from stitchcuda.nodes.evidence import PlannerEvidence, ProblemFacts

__all__ = ["ChatPlanner"]

NAMES_SHOWN = 40


@dataclass(frozen=True)
class ChatPlanner:
    """Asks ``model`` for a plan; ``limits`` come from the model when not given."""

    model: BaseChatModel
    limits: CallLimits | None = None
    options: ChatOptions | None = None
    """Limits and more; ``limits`` alone serves as well."""

    async def plan(self, evidence: PlannerEvidence) -> tuple[Plan, Usage]:
        """A plan whose sub-tasks name ops that exist, with unique ids.

        Raises:
            EngineFailure: no usable answer this time.
            ModelError: the endpoint cannot be used.
        """
        options = self.options or ChatOptions(self.limits or CallLimits.of(self.model))
        prompts = partial(planner_prompts, evidence)
        conversation = Conversation(self.model, "planner", prompts, options, strict_schema(PlanAnswer))
        return await conversation.settle(partial(_read, evidence))


def planner_prompts(evidence: PlannerEvidence, cuts: Cuts = WHOLE) -> tuple[str, str]:
    """System and user prompt."""
    previous = evidence.previous_plan
    question = render(
        "planner",
        problem_text=problem_text(evidence.problem, evidence.device, cuts),
        profile_lines=profile_lines(evidence.profile, cuts),
        previous_plan=previous,
        previous_lines=subtask_lines(previous.subtasks, cuts) if previous else [],
        history_lines=history_lines(evidence.history, cuts),
        feedback=evidence.feedback,
        citations=citation_blocks(evidence.citations, cuts),
    )
    return render("planner_system", policy=evidence.policy), question


def _op_names(problem: ProblemFacts) -> list[str]:
    """The op graph's names; empty when the reference could not be traced."""
    nodes = (problem.trace or {}).get("nodes")
    if not isinstance(nodes, list):
        return []
    ops = [node for node in nodes if isinstance(node, dict) and node.get("kind", "op") == "op"]
    return [name for node in ops if isinstance(name := node.get("name"), str)]


def _read(evidence: PlannerEvidence, reply: Reply) -> Plan:
    answer = parse_answer(PlanAnswer, *reply.texts)
    ids = [task.id for task in answer.subtasks]
    names = _op_names(evidence.problem)
    if not ids and not answer.left_to_pytorch:
        raise AnswerError("empty_plan", "the plan has no sub-task and does not say what is left to PyTorch, and why")
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise AnswerError("wrong_plan", f"sub-task ids must be unique: {', '.join(twice)}")
    for task in answer.subtasks:
        if not task.id or not task.ops:
            raise AnswerError("wrong_plan", f"sub-task {task.id or task.title!r} needs an id and at least one op")
        if names and (unknown := [op for op in task.ops if op not in names]):
            shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
            detail = f"sub-task {task.id} names ops that are not in the op graph: {', '.join(unknown)}"
            raise AnswerError("wrong_plan", f"{detail}; its ops are: {shown}")
    return Plan(
        revision=evidence.previous_plan.revision + 1 if evidence.previous_plan else 0,
        summary=answer.summary,
        subtasks=tuple(
            SubTask(
                **{**task.model_dump(), "citations": known_citations(task.citations, evidence.citations, reply.sources)}
            )
            for task in answer.subtasks
        ),
        left_to_pytorch=answer.left_to_pytorch,
        rationale=answer.rationale,
    )
