"""Orders of threads under which kernels run: a candidate without races gives the same results under each."""

from __future__ import annotations

import os

__all__ = ["SCHEDULES", "use_schedule"]

SCHEDULES = ("ascending", "descending", "warps:1", "warps:2")
"""Plain random orders of single threads found no planted race; descending and warp priorities found all of them."""

_VARIABLE = "STITCHCUDA_SCHEDULE"


def use_schedule(name: str) -> None:
    """All later launches of this process run in this order; ``include/stitch/schedule.h`` reads it at each launch."""
    if name.partition(":")[0] not in {schedule.partition(":")[0] for schedule in SCHEDULES}:
        raise ValueError(f"unknown schedule {name!r}")
    os.environ[_VARIABLE] = name
