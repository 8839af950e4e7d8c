"""Which problem a command is about: a file, or a level and id of KernelBench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stitchcuda.core.errors import ProblemError, SettingsError

if TYPE_CHECKING:
    from stitchcuda.problems import Problem

__all__ = ["choose_problem"]


def choose_problem(
    path: Path | None, *, kernelbench: Path | None, huggingface: bool, level: int | None, number: int | None
) -> Problem:
    """Load the one problem that the options name.

    Raises:
        SettingsError: none or several sources are named, or level and id are missing.
        ProblemError: the problem does not exist or cannot be used.
    """
    from stitchcuda.problems import load_huggingface, load_kernelbench, load_problem

    named = [path is not None, kernelbench is not None, huggingface]
    if sum(named) != 1:
        raise SettingsError("name one problem: a FILE, or --kernelbench PATH, or --huggingface (with --level and --id)")
    if path is not None:
        if level is not None or number is not None:
            raise SettingsError("--level and --id go with --kernelbench or --huggingface, not with a file")
        if path.is_dir():
            raise ProblemError(f"{path} is a folder: `stitchcuda bench {path}` solves all problems in it")
        return load_problem(path)
    if level is None or number is None:
        raise SettingsError("--kernelbench and --huggingface need --level and --id")
    if kernelbench is not None:
        found = load_kernelbench(kernelbench, level, [number])
    else:
        found = load_huggingface(level, [number])
    if not found:
        raise ProblemError(f"KernelBench has no problem with id {number} in level {level}")
    return found[0]
