"""What fills a role. Each engine is one object per role; the embedded and the chat ones look alike from here.

An engine that cannot answer raises ``EngineFailure`` with a line for the user: the node counts a failed
attempt and goes on. ``ModelError`` (wrong key, no such model) ends the run; everything else is a bug.
"""

from __future__ import annotations

from typing import Protocol

from stitchcuda.core.records import CandidateSource, Feedback, Plan, Record
from stitchcuda.nodes.evidence import CoderEvidence, PlannerEvidence, VerifierEvidence

__all__ = ["CoderEngine", "EngineFailure", "PlannerEngine", "Usage", "VerifierEngine"]


class EngineFailure(Exception):
    """No usable answer this time: malformed beyond repair, empty, or the endpoint kept failing.

    ``usage`` is what the failed call cost all the same.
    """

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class Usage(Record):
    """What a call cost; all zero for the embedded engine."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class PlannerEngine(Protocol):
    async def plan(self, evidence: PlannerEvidence) -> tuple[Plan, Usage]: ...


class CoderEngine(Protocol):
    async def write(self, evidence: CoderEvidence) -> tuple[CandidateSource, Usage]: ...


class VerifierEngine(Protocol):
    async def diagnose(self, evidence: VerifierEvidence) -> tuple[Feedback, Usage]: ...
