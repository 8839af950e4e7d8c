"""At which sizes a problem runs on a device, and calls of the problem's own code in a worker."""

from __future__ import annotations

from typing import Any, Literal

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems import Problem
from stitchcuda.tools import IsolatedError, run_isolated

__all__ = ["isolated", "sizes_for"]

REDUCE_TIMEOUT_S = 300.0


def isolated(function: str, timeout_s: float, **arguments: Any) -> Any:
    """``run_isolated``, with the problem's own complaints as ``ProblemError``."""
    try:
        return run_isolated(function, arguments, timeout_s)
    except IsolatedError as error:
        if error.kind == "ProblemError":
            raise ProblemError(error.message) from None
        raise


def sizes_for(device: str, problem: Problem) -> tuple[Literal["full", "reduced"], Problem]:
    """On ``cpu`` a problem runs at its reduced sizes, its own or found ones; on a GPU as it stands.

    Returns:
        The sizes, and the problem with its reduced ones.

    Raises:
        ProblemError: it is too large for ``cpu``, or it does not run at all.
    """
    if device != "cpu":
        return "full", problem
    if not problem.reduced:
        found = isolated("stitchcuda.problems.reduce:reduce_sizes", REDUCE_TIMEOUT_S, source=problem.source)
        problem = problem.with_reduced(found["reduced"])
        if not found["ok"]:
            raise ProblemError(
                f"{problem.name} is too large for the cpu device ({found['reason']}); "
                "give it REDUCED = {constant: value} or use a GPU"
            )
    return ("reduced" if problem.reduced else "full"), problem
