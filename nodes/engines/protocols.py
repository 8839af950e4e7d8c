"""What fills a role. Each engine is one object per role; the embedded and the chat ones look alike from here.

An engine that cannot answer raises ``EngineFailure`` with a line for the user: the node counts a failed
attempt and goes on. ``ModelError`` (wrong key, no such model) ends the run; everything else is a bug.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stitchcuda.core.records import CandidateSource, Feedback, Plan, Record
from stitchcuda.nodes.evidence import CoderEvidence, PlannerEvidence, VerifierEvidence

__all__ = ["CoderEngine", "EngineFailure", "PlannerEngine", "SamplingCoder", "Usage", "VerifierEngine"]


class EngineFailure(Exception):
    """No usable answer this time: malformed beyond repair, empty, or the endpoint kept failing.

    ``usage`` is what the failed call cost all the same.
    """

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class Usage(Record):
    """What calls cost; all zero for the embedded engine."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """By the price table of the settings; 0 without one."""
    cached: int = 0
    """Answers that were given before and cost nothing now; not among ``calls``."""
    unreported: int = 0
    """Calls whose tokens are an estimate, because the endpoint gave no figures."""
    roles: dict[str, Usage] = {}
    """The same by role."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            cached=self.cached + other.cached,
            unreported=self.unreported + other.unreported,
            roles={
                role: self.roles.get(role, Usage()) + other.roles.get(role, Usage())
                for role in dict.fromkeys((*self.roles, *other.roles))
            },
        )

    def of_role(self, role: str) -> Usage:
        """This usage, also entered under ``role``."""
        return self.model_copy(update={"roles": {role: self.model_copy(update={"roles": {}})}})

    def told(self) -> str:
        """The total as one line for people."""
        text = f"{self.calls} calls, {self.input_tokens} tokens in, {self.output_tokens} out"
        if self.cost_usd:
            text += f", ${self.cost_usd:.4f}"
        return text + (f", {self.cached} answers from the cache" if self.cached else "")

    def counts(self) -> dict[str, int]:
        """Calls and tokens alone."""
        return {"calls": self.calls, "input_tokens": self.input_tokens, "output_tokens": self.output_tokens}


class PlannerEngine(Protocol):
    async def plan(self, evidence: PlannerEvidence) -> tuple[Plan, Usage]: ...


class CoderEngine(Protocol):
    async def write(self, evidence: CoderEvidence) -> tuple[CandidateSource, Usage]: ...


@runtime_checkable
class SamplingCoder(Protocol):
    """A Coder that can write several candidates for one attempt."""

    async def write_several(self, evidence: CoderEvidence, count: int) -> tuple[tuple[CandidateSource, ...], Usage]: ...


class VerifierEngine(Protocol):
    async def diagnose(self, evidence: VerifierEvidence) -> tuple[Feedback, Usage]: ...
