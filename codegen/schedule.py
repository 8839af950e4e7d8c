"""How a group is run on the device: a small search space per group, the default first.

Comes in: a group. Goes out: ``Schedule`` values; their text form (``block=256 vec=4 items=1``) is what a
candidate's ``choices`` record and what the Verifier's feedback moves through.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from stitchcuda.codegen.groups import Group
from stitchcuda.core.records import Record

__all__ = ["Schedule", "default_schedule", "parse_schedule", "schedule_space"]

WARP_ROW_ELEMENTS = 1024
"""Rows up to this length go to one warp each: 32 elements per lane, and no barrier."""


class Schedule(Record):
    """One way to run a group."""

    block: Literal[128, 256, 512, 1024] = 256
    """Threads per block."""
    vec: Literal[1, 2, 4] = 4
    """Elements per load and store where layout and alignment allow it; 1 is the careful choice."""
    items: Literal[1, 2, 4] = 1
    """Vectors per thread of an elementwise kernel."""
    rows: Literal["block", "warp"] = "block"
    """Whether a block or a warp works on one row of a reduction."""

    def __str__(self) -> str:
        return f"block={self.block} vec={self.vec} items={self.items} rows={self.rows}"


def parse_schedule(text: str) -> Schedule:
    """The inverse of ``str(schedule)``; fields that are left out keep their default."""
    values = dict(part.split("=", 1) for part in text.split())
    return Schedule.model_validate({key: value if key == "rows" else int(value) for key, value in values.items()})


def default_schedule(group: Group) -> Schedule:
    """What is tried first."""
    if group.kind == "elementwise":
        return Schedule(items=2)
    length = prod(group.domain[len(group.domain) - group.row_dims :])
    if length <= WARP_ROW_ELEMENTS:
        return Schedule(block=128, rows="warp")
    return Schedule(block=256 if length <= 8192 else 1024)


def schedule_space(group: Group) -> tuple[Schedule, ...]:
    """All choices of a group: the default, then its neighbours in the order in which they are worth a try."""
    default = default_schedule(group)
    space = [default]
    if group.kind == "elementwise":
        space += [default.model_copy(update={"items": items}) for items in (4, 1)]
        space += [default.model_copy(update={"block": block}) for block in (128, 512)]
        space += [default.model_copy(update={"vec": vec}) for vec in (2, 1)]
    else:
        other: Literal["block", "warp"] = "block" if default.rows == "warp" else "warp"
        blocks: tuple[Literal[128, 256, 512, 1024], ...] = (256, 512, 128, 1024)
        space += [default.model_copy(update={"block": block}) for block in blocks if block != default.block]
        space.append(default.model_copy(update={"rows": other, "block": 128}))
        space += [default.model_copy(update={"vec": vec}) for vec in (2, 1)]
    return tuple(dict.fromkeys(space))
