"""The embedded Verifier: what an evaluation means, and what the Coder should do about it.

The verdict itself is made elsewhere, and so is the routing; this engine explains, and asks for a new plan when the
same failure keeps coming back.
"""

from __future__ import annotations

import asyncio

from stitchcuda.codegen import TraceError
from stitchcuda.core.records import Evaluation, Feedback, FeedbackKind, OutputCheck
from stitchcuda.nodes.engines.embedded.opening import open_problem
from stitchcuda.nodes.engines.embedded.rules import failure_rule, passed_rule
from stitchcuda.nodes.engines.embedded.tuning import next_choices
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import VerifierEvidence

__all__ = ["EmbeddedVerifier"]

SAME_FAILURES = 4
"""One more than the Coder's steps back (scalar access, PyTorch): then the plan is at fault, not a choice."""


class EmbeddedVerifier:
    """Diagnoses without a model."""

    async def diagnose(self, evidence: VerifierEvidence) -> tuple[Feedback, Usage]:
        """Feedback of the proposed kind, of kind ``replan``, or ``accept`` when the search is at its end."""
        return await asyncio.to_thread(make_feedback, evidence), Usage()


def make_feedback(evidence: VerifierEvidence) -> Feedback:
    """The feedback for ``evidence``, as a pure function."""
    evaluation = evidence.evaluation
    kind = _kind(evidence)
    passed = evaluation.passed
    rule = passed_rule(evaluation.timing, kind) if passed else failure_rule(evaluation, kind)
    return Feedback(
        kind=kind,
        evidence=_passed_facts(evaluation) if passed else _failure_facts(evaluation),
        instruction=rule.instruction,
        expectation=rule.expectation if passed else "the same outputs as the reference",
        citations=tuple(dict.fromkeys(filter(None, (rule.note, *(item.source for item in evidence.citations))))),
    )


def _kind(evidence: VerifierEvidence) -> FeedbackKind:
    if not evidence.evaluation.passed:
        classes = [(attempt.status, attempt.reasons) for attempt in evidence.history[-SAME_FAILURES:]]
        repeated = len(classes) == SAME_FAILURES and len(set(classes)) == 1
        return "replan" if repeated else evidence.proposed_kind
    if evidence.proposed_kind == "optimise" and not _anything_left(evidence):
        return "accept"
    return evidence.proposed_kind


def _anything_left(evidence: VerifierEvidence) -> bool:
    """Whether the schedule search has an untried neighbour; unknown candidates always have."""
    if not evidence.candidate.choices:
        return True
    try:
        groups = open_problem(evidence.problem).groups
    except TraceError:
        return False
    tried = [attempt.choices for attempt in evidence.history if attempt.choices]
    return next_choices(groups, evidence.candidate.choices, tried) is not None


# --- failures ---------------------------------------------------------------------------------------------------


def _failure_facts(evaluation: Evaluation) -> tuple[str, ...]:
    facts = [f"{evaluation.status.value}: {evaluation.message}" if evaluation.message else evaluation.status.value]
    build = evaluation.build
    if build is not None and not build.ok:
        if build.error:
            facts.append(build.error)
        for extension in (*build.extensions, *build.cross_compiled):
            errors = [item for item in extension.diagnostics if item.severity == "error"]
            for item in errors[:3]:
                place = f"{item.file}:{item.line}: " if item.line is not None else ""
                facts.append(f"{extension.target}: {place}{item.message}")
    if evaluation.screen is not None:
        facts += [f"{item.rule}: {item.message}" for item in evaluation.screen.findings if item.severity == "block"]
    if evaluation.check is not None:
        facts += [_output_fact(item) for item in evaluation.check.outputs if not item.ok][:3]
    return tuple(dict.fromkeys(facts))


def _output_fact(item: OutputCheck) -> str:
    parts = [f"{item.output} with inputs '{item.trial}': {item.message or item.status.value}"]
    if item.max_abs_error is not None:
        parts.append(f"largest error {item.max_abs_error:.3g}")
    if item.mismatched_fraction is not None:
        parts.append(f"{item.mismatched_fraction:.1%} of the elements differ")
    return ", ".join(parts)


# --- passed -----------------------------------------------------------------------------------------------------


def _passed_facts(evaluation: Evaluation) -> tuple[str, ...]:
    facts = ["all outputs agree with the reference"]
    if evaluation.check is not None and evaluation.check.own_kernel_launches is not None:
        facts.append(f"{evaluation.check.own_kernel_launches} launches of own kernels per call")
    timing = evaluation.timing
    if timing is not None:
        facts.append(f"median {timing.candidate.median_ms:.3f} ms per call")
        for base in timing.baselines:
            facts.append(f"{base.speedup:.2f}x {base.name} ({base.speedup_low:.2f} to {base.speedup_high:.2f})")
        if timing.launch_bound:
            facts.append("launch-bound: the GPU waits for the host")
    if evaluation.profile is not None:
        rows = sorted(evaluation.profile.rows, key=lambda row: row.total_ms, reverse=True)
        facts += [f"{row.share:.0%} of the device time in {row.name}" for row in rows[:3]]
    return tuple(facts)
