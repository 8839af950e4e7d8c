"""Until when an engine may work: what is left of the run's seconds, for whatever it calls below.

A node sets it around the engine's call; a chat call reads it where it waits. It travels with the task's context, so
that engines keep their signatures, and calls that are made side by side share it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["seconds_left", "until"]

_deadline: ContextVar[float | None] = ContextVar("_deadline", default=None)


@contextmanager
def until(deadline: float) -> Iterator[None]:
    """Engine calls within end at ``deadline``, a reading of ``time.monotonic()``."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left() -> float | None:
    """Until the deadline, negative after it; ``None`` without one."""
    deadline = _deadline.get()
    return None if deadline is None else deadline - time.monotonic()
