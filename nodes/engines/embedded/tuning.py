"""Which schedule to try next: the search over the choices of all groups.

Comes in: the groups, the choices of the candidate to start from, and every set of choices that was evaluated. Goes
out: the next set, which changes one thing; or ``None`` when the neighbourhood is searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stitchcuda.codegen import Group, parse_schedule, schedule_space
from stitchcuda.codegen.emit_body import working_name
from stitchcuda.core.records import ProfileReport

__all__ = ["LEFT", "careful", "next_choices", "slowest_first"]

LEFT = "pytorch"
"""The choice of a group that goes back to PyTorch."""


def careful(choice: str) -> str | None:
    """The same schedule without vector access; ``None`` when it is that already."""
    schedule = parse_schedule(choice)
    return str(schedule.model_copy(update={"vec": 1, "items": 1})) if schedule.vec != 1 else None


def slowest_first(groups: Iterable[Group], profile: ProfileReport | None) -> list[Group]:
    """Groups by the measured time of their kernel, else by their memory traffic."""
    times = {row.name: row.total_ms for row in profile.rows} if profile is not None else {}

    def cost(group: Group) -> tuple[float, int]:
        name = working_name(group)
        return -sum(ms for row, ms in times.items() if name in row), -group.bytes_after

    return sorted(groups, key=cost)


def next_choices(
    groups: Sequence[Group], current: Mapping[str, str], tried: Sequence[Mapping[str, str]]
) -> tuple[dict[str, str], str] | None:
    """The first untried neighbour of ``current`` and the id of the group that it changes.

    Equal groups change together: they share one kernel. The first neighbour of each group comes before the second
    of any, so that a short budget still touches every kernel.
    """
    alike: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        if current.get(group.id, LEFT) != LEFT:
            alike.setdefault((group.kind, *group.op_kinds), []).append(group)
    spaces = {key: [str(schedule) for schedule in schedule_space(members[0])] for key, members in alike.items()}
    for rank in range(max((len(space) for space in spaces.values()), default=0)):
        for key, members in alike.items():
            if rank >= len(spaces[key]):
                continue
            trial = dict(current)
            trial.update({group.id: spaces[key][rank] for group in members})
            if trial != dict(current) and all(trial != dict(old) for old in tried):
                return trial, members[0].id
    return None
