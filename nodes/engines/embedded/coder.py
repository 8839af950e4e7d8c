"""The embedded Coder: a candidate from the op graph, one sub-task more each time.

After a failure it takes back the riskiest choice of the newest groups: first vector access, then the groups
themselves, which are labelled. When it is asked to optimise it changes the schedule of one kernel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from stitchcuda.codegen import Group, TraceError, Workspace, default_schedule
from stitchcuda.core.errors import one_line
from stitchcuda.core.records import CandidateSource, Status
from stitchcuda.nodes.engines.embedded.opening import open_problem
from stitchcuda.nodes.engines.embedded.tuning import LEFT, careful, next_choices, slowest_first
from stitchcuda.nodes.engines.protocols import EngineFailure, Usage
from stitchcuda.nodes.evidence import CoderEvidence

__all__ = ["EmbeddedCoder"]


class EmbeddedCoder:
    """Writes candidates without a model."""

    async def write(self, evidence: CoderEvidence) -> tuple[CandidateSource, Usage]:
        """The next candidate.

        Raises:
            EngineFailure: there is no op graph, no group is left to implement, or the search is at its end.
        """
        return await asyncio.to_thread(write_candidate, evidence), Usage()


def write_candidate(evidence: CoderEvidence) -> CandidateSource:
    """The next candidate, as a pure function of the evidence."""
    try:
        workspace = open_problem(evidence.problem)
    except TraceError as error:
        raise EngineFailure(one_line(error)) from error
    if evidence.feedback is not None and evidence.feedback.kind == "repair":
        choices, told = _repaired(evidence, workspace)
    elif evidence.subtask is None:
        choices, told = _optimised(evidence, workspace)
    else:
        choices, told = _extended(evidence, workspace)
    enabled = [group.id for group in workspace.groups if choices.get(group.id, LEFT) != LEFT]
    if not enabled:
        raise EngineFailure("every group that could have an own kernel has failed and is left to PyTorch")
    if workspace.conflict:
        told += f" Written for the reduced sizes only: {workspace.conflict}."
    schedules = {group_id: choices[group_id] for group_id in enabled}
    return CandidateSource(
        source=workspace.emit(enabled, schedules),
        summary=told,
        covers=_covers(evidence),
        choices=choices,
    )


def _covers(evidence: CoderEvidence) -> tuple[str, ...]:
    before = evidence.previous.covers if evidence.previous is not None else ()
    planned = {task.id for task in evidence.plan.subtasks}
    own = (evidence.subtask.id,) if evidence.subtask is not None else ()
    return tuple(dict.fromkeys([*[item for item in before if item in planned], *own]))


def _groups_of(evidence: CoderEvidence, workspace: Workspace) -> list[Group]:
    """The groups of the current sub-task, found by their ops: ids may be renamed by a new plan."""
    if evidence.subtask is None:
        return []
    ops = set(evidence.subtask.ops)
    return [group for group in workspace.groups if set(group.ops) <= ops]


def _known(choices: Mapping[str, str], workspace: Workspace) -> dict[str, str]:
    """Choices whose groups exist; a candidate of another engine has none."""
    ids = {group.id for group in workspace.groups}
    return {group_id: choice for group_id, choice in choices.items() if group_id in ids}


def _extended(evidence: CoderEvidence, workspace: Workspace) -> tuple[dict[str, str], str]:
    """The previous candidate plus the groups of the sub-task at their default schedule."""
    choices = _known(evidence.previous.choices, workspace) if evidence.previous is not None else {}
    groups = _groups_of(evidence, workspace)
    if not groups:
        raise EngineFailure(f"no fusion group fits the ops of the sub-task {evidence.subtask and evidence.subtask.id}")
    fresh = [group for group in groups if group.id not in choices] or groups
    for group in fresh:
        choices[group.id] = str(default_schedule(group))
    before = sum(group.bytes_before for group in groups)
    after = sum(group.bytes_after for group in groups)
    title = evidence.subtask.title if evidence.subtask is not None else ""
    told = f"Own kernel for {title}."
    if before > after:
        told += f" Expected: {before / after:.1f}x less memory traffic in these ops."
    return choices, told


def _repaired(evidence: CoderEvidence, workspace: Workspace) -> tuple[dict[str, str], str]:
    """One step back for the groups under suspicion."""
    if evidence.previous is None:
        return _extended(evidence, workspace)
    choices = _known(evidence.previous.choices, workspace)
    suspects = [group for group in _groups_of(evidence, workspace) if choices.get(group.id, LEFT) != LEFT]
    if not suspects:
        # A change of schedule failed: go back to the last choices that passed, or step back everywhere.
        for attempt in reversed(evidence.history):
            if attempt.status == Status.PASSED and attempt.choices and attempt.choices != choices:
                found = next_choices(workspace.groups, attempt.choices, _tried(evidence))
                if found is not None:
                    return found[0], "Took back the schedule that failed and changed another one."
                raise EngineFailure("the schedule search is at its end")
        suspects = [group for group in workspace.groups if choices.get(group.id, LEFT) != LEFT]
    named = _named_in(evidence, suspects)
    stepped = {group.id: careful(choices[group.id]) for group in named}
    if any(stepped.values()):
        choices.update({group_id: choice for group_id, choice in stepped.items() if choice is not None})
        return choices, f"Repair: scalar instead of vector access in {_titles(named)}."
    choices.update({group.id: LEFT for group in named})
    return choices, f"Repair: {_titles(named)} left to PyTorch, because the own kernel keeps failing."


def _named_in(evidence: CoderEvidence, suspects: list[Group]) -> list[Group]:
    """Suspects that the feedback names; all of them when it names none."""
    if evidence.feedback is None:
        return suspects
    text = " ".join([*evidence.feedback.evidence, evidence.feedback.instruction])
    from stitchcuda.codegen.emit_body import working_name

    return [group for group in suspects if working_name(group) in text] or suspects


def _optimised(evidence: CoderEvidence, workspace: Workspace) -> tuple[dict[str, str], str]:
    """One schedule changed, in the slowest kernel first."""
    if evidence.previous is None or not evidence.previous.choices:
        raise EngineFailure("there is no candidate of this engine to tune")
    profile = evidence.previous_evaluation.profile if evidence.previous_evaluation is not None else None
    current = _known(evidence.previous.choices, workspace)
    found = next_choices(slowest_first(workspace.groups, profile), current, _tried(evidence))
    if found is None:
        raise EngineFailure("the schedule search is at its end")
    choices, group_id = found
    group = next(group for group in workspace.groups if group.id == group_id)
    return choices, f"Schedule of {group.title}: {current[group_id]} → {choices[group_id]}."


def _tried(evidence: CoderEvidence) -> list[dict[str, str]]:
    return [attempt.choices for attempt in evidence.history if attempt.choices]


def _titles(groups: list[Group]) -> str:
    titles = list(dict.fromkeys(group.title for group in groups))
    return ", ".join(titles[:3]) + (" …" if len(titles) > 3 else "")
