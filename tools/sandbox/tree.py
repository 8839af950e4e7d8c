"""Ending a process together with everything that it started, also what has moved to sessions of its own.

Works on ``/proc``; a subreaper at the top of the tree makes sure that orphans stay below it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

__all__ = ["descendants", "kill_descendants"]


def descendants(pid: int) -> list[int]:
    """Ids of all living (not zombie) processes below ``pid``."""
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # pid (name) state ppid …; the name may hold blanks and brackets
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        child = int(entry.name)
        children.setdefault(int(fields[1]), []).append(child)
        if fields[0] in "ZX":
            dead.add(child)
    found: list[int] = []
    stack = [pid]
    while stack:
        below = children.get(stack.pop(), [])
        found += below
        stack += below
    return [p for p in found if p not in dead]


def kill_descendants(pid: int, timeout_s: float = 2.0) -> bool:
    """SIGKILL everything below ``pid`` until nothing is left; whether that was reached."""
    deadline = time.monotonic() + timeout_s
    while left := descendants(pid):
        for child in left:
            try:
                os.kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
