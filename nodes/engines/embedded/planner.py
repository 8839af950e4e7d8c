"""The embedded Planner: sub-tasks from the fusion groups of the op graph, the largest saving first."""

from __future__ import annotations

import asyncio

from stitchcuda.codegen import Group, TraceError, Workspace
from stitchcuda.core.errors import one_line
from stitchcuda.core.records import Plan, Status, SubTask
from stitchcuda.nodes.engines.embedded.opening import open_problem
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import PlannerEvidence

__all__ = ["EmbeddedPlanner"]

MAX_SUBTASKS = 6
"""A sub-task costs one build and one evaluation; groups beyond this are done together in the last one."""


class EmbeddedPlanner:
    """Plans without a model."""

    async def plan(self, evidence: PlannerEvidence) -> tuple[Plan, Usage]:
        """A plan; one without sub-tasks when nothing can be covered."""
        return await asyncio.to_thread(make_plan, evidence), Usage()


def make_plan(evidence: PlannerEvidence) -> Plan:
    """The plan for ``evidence``, as a pure function."""
    try:
        workspace = open_problem(evidence.problem)
    except TraceError as error:
        reason = one_line(error)
        return Plan(
            summary=f"nothing can be covered: {reason}",
            left_to_pytorch=(f"the whole program: {reason}",),
            rationale="The embedded engine writes kernels from the op graph, and there is none.",
        )
    failed = _given_up(evidence)
    batches = [batch for batch in _batches(workspace.groups) if not _is_failed(batch, failed)]
    given_up = [batch for batch in _batches(workspace.groups) if _is_failed(batch, failed)]
    citations = tuple(dict.fromkeys(citation.source for citation in evidence.citations))
    subtasks = tuple(_subtask(batch, citations) for batch in _capped(batches))
    enabled = {group.id for batch in batches for group in batch}
    left = [*workspace.left_over(enabled), *workspace.dropped]
    left += [f"{batch[0].title}: own kernels failed before" for batch in given_up]
    saved = sum(group.saved_bytes for batch in batches for group in batch)
    summary = (
        f"{len(enabled)} fusion groups in {len(subtasks)} sub-tasks save {_size(saved)} of memory traffic per call"
    )
    if not subtasks:
        summary = "nothing can be covered: no group of elementwise ops or row reductions is left"
    return Plan(
        summary=summary,
        subtasks=subtasks,
        left_to_pytorch=tuple(left),
        rationale=_rationale(workspace, evidence),
    )


def _batches(groups: tuple[Group, ...]) -> list[tuple[Group, ...]]:
    """Groups that do the same belong to one sub-task; the largest saving, then the largest traffic, first."""
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        alike.setdefault((group.kind, *group.op_kinds), []).append(group)
    batches = [tuple(batch) for batch in alike.values()]

    def order(batch: tuple[Group, ...]) -> tuple[int, int, str]:
        saved = sum(group.saved_bytes for group in batch)
        return -saved, -sum(group.bytes_after for group in batch), batch[0].id

    return sorted(batches, key=order)


def _capped(batches: list[tuple[Group, ...]]) -> list[tuple[Group, ...]]:
    if len(batches) <= MAX_SUBTASKS:
        return batches
    rest = tuple(group for batch in batches[MAX_SUBTASKS - 1 :] for group in batch)
    return [*batches[: MAX_SUBTASKS - 1], rest]


def _given_up(evidence: PlannerEvidence) -> list[set[str]]:
    """Ops of earlier sub-tasks that were tried and never passed."""
    previous = evidence.previous_plan
    if previous is None:
        return []
    tried: set[str] = set()
    passed: set[str] = set()
    for attempt in evidence.history:
        (passed if attempt.status == Status.PASSED else tried).update(attempt.covers)
    # What an earlier candidate covered when it passed is fine; the newest cover of a failed one is the suspect.
    suspects = tried - passed
    return [set(task.ops) for task in previous.subtasks if task.id in suspects]


def _is_failed(batch: tuple[Group, ...], failed: list[set[str]]) -> bool:
    ops = {op for group in batch for op in group.ops}
    return any(ops <= given_up for given_up in failed)


def _subtask(batch: tuple[Group, ...], citations: tuple[str, ...]) -> SubTask:
    first = batch[0]
    alike = len({group.op_kinds for group in batch}) == 1
    count = f" ({len(batch)} times)" if len(batch) > 1 else ""
    title = first.title + count if alike else f"the remaining {len(batch)} groups"
    saved = sum(group.saved_bytes for group in batch)
    before = sum(group.bytes_before for group in batch)
    after = sum(group.bytes_after for group in batch)
    return SubTask(
        id=first.id,
        title=title,
        ops=tuple(op for group in batch for op in group.ops),
        contract="; ".join(_contract(group) for group in batch[:4]) + ("; …" if len(batch) > 4 else ""),
        technique=_technique(first) if alike else "one kernel per group, equal groups share it",
        done_when="the candidate passes with these ops in own kernels and is not slower than before",
        memory_limit=f"{_size(after)} of global memory traffic per call",
        expected_gain=f"{_size(saved)} less memory traffic ({_size(before)} → {_size(after)})",
        citations=citations,
    )


def _contract(group: Group) -> str:
    return f"{', '.join(group.input_shapes)} → {', '.join(group.output_shapes)}, any strides, contiguous results"


def _technique(group: Group) -> str:
    if group.kind == "elementwise":
        return "fuse into one vectorised elementwise kernel that keeps intermediates in registers"
    return (
        f"one block or warp per row of the last {group.row_dims} dimension(s), shuffle reductions in float32,"
        " elementwise neighbours fused in"
    )


def _rationale(workspace: Workspace, evidence: PlannerEvidence) -> str:
    lines = ["Memory-bound ops are fused; matrix products and convolutions stay with the library."]
    if evidence.policy == "own-kernels":
        lines.append("Under the policy own-kernels those library calls count against the candidate.")
    if workspace.conflict:
        lines.append(f"The candidate is written for the reduced sizes only: {workspace.conflict}.")
    if evidence.profile is not None and evidence.profile.rows:
        row = max(evidence.profile.rows, key=lambda row: row.total_ms)
        lines.append(f"The reference spends {row.share:.0%} of its device time in {row.name}.")
    return " ".join(lines)


def _size(count_bytes: int) -> str:
    value, units = float(count_bytes), ["B", "kB", "MB", "GB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"
