"""Run folders of a batch: which one a problem gets, and what becomes of an earlier one."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["drop_if_never_begun", "has_run", "move_aside"]


def has_run(run_dir: Path) -> bool:
    """Whether a run was begun there, so that it can be resumed."""
    return (run_dir / "run.json").exists() and (run_dir / "problem.json").exists()


def drop_if_never_begun(run_dir: Path) -> None:
    """Remove a folder whose run ended before its first step was saved: nothing in it can be resumed.

    Only for a folder that the caller has made.
    """
    if run_dir.is_dir() and not has_run(run_dir):
        shutil.rmtree(run_dir)


def move_aside(run_dir: Path) -> Path | None:
    """Rename an earlier run to ``<name>.1``, ``.2``, …; its best candidate is kept. ``None`` if there is none."""
    if not run_dir.exists():
        return None
    number = 1
    while (aside := run_dir.with_name(f"{run_dir.name}.{number}")).exists():
        number += 1
    run_dir.rename(aside)
    return aside
