"""What the graph remembers between steps.

Comes in: a problem by path, by KernelBench checkout + level + id, or loaded. Goes out: the best
candidate and why the run stopped. Large things lie in the run folder; the state holds paths, digests
and excerpts, so that a checkpoint stays small.
"""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from stitchcuda.core.records import (
    BuildReport,
    Candidate,
    CheckReport,
    Evaluation,
    Feedback,
    Plan,
    ProfileReport,
    Record,
    ScreenReport,
    Status,
    TimingReport,
)
from stitchcuda.graph.checked import Checked, checked_add
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import Attempt, Citation, DeviceFacts

__all__ = ["CHECKPOINT_TYPES", "Best", "Decision", "InputState", "OutputState", "State", "StepKind", "VerifierOutput"]

StepKind = Literal["repair", "optimise", "next_subtask", "replan", "stop"]


class Best(Record):
    """The best passed candidate so far, with its evaluation."""

    candidate: Candidate
    evaluation: Evaluation


class Decision(Record):
    """Where the graph goes after a verdict, and why."""

    kind: StepKind
    reason: str
    """A code, for example ``attempts_spent`` or ``subtask_done``; the report explains it."""
    subtask_id: str | None = None
    """The sub-task that the Coder works on next."""
    skip: str | None = None
    """A sub-task that is given up."""


class InputState(TypedDict, total=False):
    """A problem: ``problem_path``, or ``kernelbench`` with ``level`` and ``id``, or ``problem_json`` (a loaded one)."""

    problem_path: str
    kernelbench: str
    level: int
    id: int
    problem_json: str


class OutputState(TypedDict, total=False):
    best: Best | None
    decision: Decision
    report_path: str
    run_dir: str


class State(InputState, total=False):
    run_dir: str
    problem_name: str
    device: Annotated[DeviceFacts, Checked]
    sizes: Literal["full", "reduced"]
    input_summary: tuple[str, ...]
    profile: Annotated[ProfileReport | None, Checked]

    plan: Annotated[Plan | None, Checked]
    replans: int
    citations: Annotated[tuple[Citation, ...], Checked]
    decision: Annotated[Decision | None, Checked]
    skipped: Annotated[list[str], Checked]

    candidate: Annotated[Candidate | None, Checked]
    engine_failure: str
    build: Annotated[BuildReport | None, Checked]
    screen: Annotated[ScreenReport | None, Checked]
    check: Annotated[CheckReport | None, Checked]
    timing: Annotated[TimingReport | CheckReport | None, Checked]
    candidate_profile: Annotated[ProfileReport | None, Checked]
    evaluation: Annotated[Evaluation | None, Checked]
    feedback: Annotated[Feedback | None, Checked]

    attempts: Annotated[list[Attempt], checked_add(list[Attempt], "attempts")]
    best: Annotated[Best | None, Checked]
    verifier_usage: Annotated[Usage, Checked]
    verifier_seconds: float
    usage: Annotated[Usage, checked_add(Usage, "usage")]
    seconds_spent: Annotated[float, operator.add]
    report_path: str


class VerifierOutput(TypedDict, total=False):
    """What the verifier's sub-graph hands to its parent.

    Only plain channels: a channel with a reducer would be added to the parent's a second time.
    """

    evaluation: Evaluation | None
    feedback: Feedback | None
    best: Best | None
    verifier_usage: Usage
    verifier_seconds: float


def _record_types(kind: type[Record]) -> list[tuple[str, str]]:
    found = [(kind.__module__, kind.__name__)]
    for child in kind.__subclasses__():
        found += _record_types(child)
    return found


CHECKPOINT_TYPES = [*_record_types(Record), (Status.__module__, Status.__name__)]
"""Our own types that a checkpoint may hold, as ``(module, name)``; anything else is refused on reading."""
