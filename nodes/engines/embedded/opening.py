"""A problem's facts as a codegen workspace.

Comes in: ``ProblemFacts`` with traces as JSON. Goes out: a ``Workspace``, kept for the next role that asks, because
reading the traces of a large network takes a second.
"""

from __future__ import annotations

import json
from functools import lru_cache

from pydantic import ValidationError

from stitchcuda.codegen import Trace, TraceError, Workspace, open_workspace
from stitchcuda.core.errors import one_line
from stitchcuda.nodes.evidence import ProblemFacts

__all__ = ["open_problem"]


def open_problem(problem: ProblemFacts) -> Workspace:
    """The workspace of a problem.

    Raises:
        TraceError: there is no op graph, or it cannot be read.
    """
    if problem.trace is None and problem.trace_reduced is None:
        raise TraceError(problem.trace_error or "there is no op graph of the reference")
    return _open(problem.source, _text(problem.trace), _text(problem.trace_reduced))


def _text(trace: dict[str, object] | None) -> str:
    return json.dumps(trace) if trace is not None else ""


@lru_cache(maxsize=4)
def _open(source: str, full: str, reduced: str) -> Workspace:
    try:
        traces = [Trace.model_validate(json.loads(text)) for text in (full, reduced) if text]
    except ValidationError as error:
        raise TraceError(f"the op graph cannot be read: {one_line(error)}") from error
    return open_workspace(source, *traces)
