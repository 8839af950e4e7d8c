"""What a role's engine is told: the facts that a node gathered with tools before asking.

The evidence is the same for the embedded and the chat engine. Records only; no engine, no tool.
"""

from __future__ import annotations

from stitchcuda.core.records import (
    CandidateSource,
    Evaluation,
    Feedback,
    FeedbackKind,
    Plan,
    Policy,
    ProfileReport,
    Record,
    SubTask,
)

__all__ = ["Attempt", "Citation", "CoderEvidence", "DeviceFacts", "PlannerEvidence", "ProblemFacts", "VerifierEvidence"]


class Citation(Record):
    """A passage of the documentation index."""

    source: str
    """Document and section, for example ``warp-primitives.md › Shuffle reductions``."""
    text: str
    score: float
    link: str = ""
    """Where to read on: an address, or ``file:line`` in an installed header; empty when there is none."""


class DeviceFacts(Record):
    """Where candidates run."""

    device: str
    """``cpu`` or ``cuda:N``."""
    name: str = ""
    """GPU name; the CPU device is an emulator and is never timed as a GPU."""
    compute_capability: str = ""
    memory_bytes: int | None = None


class ProblemFacts(Record):
    """The problem, as every role sees it."""

    name: str
    source: str
    """The reference at full size: what the candidate must replace."""
    input_summary: tuple[str, ...] = ()
    """One line per input, for example ``float32[16, 1024]``."""
    parameter_count: int = 0
    trace: dict[str, object] | None = None
    """``codegen.Trace`` of the reference at full size as JSON; ``None`` when capture failed."""
    trace_reduced: dict[str, object] | None = None
    """The same at the reduced sizes that the ``cpu`` device runs; ``None`` on a GPU."""
    trace_error: str = ""
    op_lines: tuple[str, ...] = ()
    """The op graph, a line per op with shapes; for prompts and reports."""


class Attempt(Record):
    """One earlier candidate, in short."""

    candidate_id: int
    status: str
    reasons: tuple[str, ...] = ()
    speedup: float | None = None
    summary: str = ""
    choices: dict[str, str] = {}
    covers: tuple[str, ...] = ()


class PlannerEvidence(Record):
    problem: ProblemFacts
    device: DeviceFacts
    policy: Policy
    profile: ProfileReport | None = None
    previous_plan: Plan | None = None
    """Set when replanning."""
    history: tuple[Attempt, ...] = ()
    feedback: Feedback | None = None
    citations: tuple[Citation, ...] = ()


class CoderEvidence(Record):
    problem: ProblemFacts
    device: DeviceFacts
    policy: Policy
    plan: Plan
    subtask: SubTask | None
    """The one to implement now; ``None`` when a whole program is to be improved."""
    previous: CandidateSource | None = None
    """The candidate to start from: the best passed one, or the one to repair."""
    previous_evaluation: Evaluation | None = None
    feedback: Feedback | None = None
    history: tuple[Attempt, ...] = ()
    citations: tuple[Citation, ...] = ()


class VerifierEvidence(Record):
    problem: ProblemFacts
    device: DeviceFacts
    policy: Policy
    plan: Plan
    subtask: SubTask | None
    candidate: CandidateSource
    evaluation: Evaluation
    proposed_kind: FeedbackKind
    """What the routing rules would do; an engine may differ only by asking to replan."""
    best_speedup: float | None = None
    history: tuple[Attempt, ...] = ()
    citations: tuple[Citation, ...] = ()
