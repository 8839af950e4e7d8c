"""What the calls of one check have shown, and what is concluded from it. Pure; in the parent.

The order of conclusions: a process that was tampered with or worked on late says nothing else; then wrong results, by
their most telling reason; then a result that others computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stitchcuda.core.records import CheckReport, OutputCheck, Policy, Status
from stitchcuda.tools.checks.coverage import Coverage, Log, judge_operators
from stitchcuda.tools.checks.verdict import CONTROLS, first_failure, numerics_reason

__all__ = ["Findings", "conclude"]


@dataclass
class Findings:
    """Notes of every call, in order."""

    checks: list[tuple[OutputCheck, str]] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    replayed: list[str] = field(default_factory=list)
    late: str = ""
    tampered: list[str] = field(default_factory=list)
    numerics: list[str] = field(default_factory=list)
    overwritten: bool = False
    mutated: str = ""
    launches: list[int | None] = field(default_factory=list)
    """Of each call in which own launches were counted; ``None`` for an answer that is no number."""
    operators: Log | None = None
    """Of the call with the most work of PyTorch in it."""
    downgraded: bool = False
    other_batch: str = ""
    """What was wrong with the results for another batch size."""
    unproven: int = 0
    calls: int = 0
    controls: list[str] = field(default_factory=lambda: list(CONTROLS))
    """Those that have not failed yet."""
    notes: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        wrong = any(not check.ok for check, _ in self.checks)
        return wrong or self.overwritten or bool(self.mutated or self.tampered or self.late or self.numerics)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def conclude(found: Findings, policy: Policy, reference_operators: Log, seconds: float) -> CheckReport:
    """The report."""
    coverage = judge_operators(reference_operators, found.operators or [], policy)
    counted = found.launches[0] if found.launches else None
    complete = not found.failed and found.calls > 1
    common: dict[str, Any] = {
        "outputs": _worth_keeping(found.checks),
        "trials": found.calls,
        "own_kernel_launches": counted,
        "unscorable": tuple(found.controls) if complete else (),
        "replaced_share": coverage.replaced if found.operators is not None else None,
        "library_ops": coverage.library,
        "seconds": seconds,
    }

    def failed(status: Status, message: str, *reasons: str) -> CheckReport:
        return CheckReport(ok=False, status=status, reasons=tuple(dict.fromkeys(reasons)), message=message, **common)

    if found.tampered:
        return failed(Status.CHEATING, f"the candidate replaced {found.tampered[0]}", "harness_tamper")
    if found.late:
        return failed(Status.CHEATING, found.late, "late_write")
    if any(not check.ok for check, _ in found.checks):
        return failed(*_wrong(found))
    if found.numerics:
        return failed(Status.CHEATING, f"the candidate set {found.numerics[0]}", numerics_reason(found.numerics))
    if found.overwritten:
        message = "the result of the first call changed when the second call was made: outputs share one buffer"
        return failed(Status.WRONG_VALUES, message, "stale_output")
    if found.mutated:
        return failed(Status.WRONG_VALUES, found.mutated, "input_mutated")
    if found.other_batch:
        return failed(Status.WRONG_VALUES, found.other_batch, "hard_coded_shape")
    if policy != "any" and (told := _not_own(found, coverage)):
        return failed(Status.CHEATING, *told)
    if complete and found.controls:
        found.note(f"unscorable: {', '.join(found.controls)} would pass as well")
    return CheckReport(ok=True, status=Status.PASSED, message="; ".join(found.notes), **common)


def _wrong(found: Findings) -> tuple[Any, ...]:
    status, codes, message = first_failure(found.checks)
    if status is Status.WRONG_VALUES:
        if found.replayed:
            return status, f"the output is that of an earlier call; {message}", "stale_output", *codes
        if len(found.digests) > 1 and len(set(found.digests)) == 1:
            return status, f"the output is the same whatever the input; {message}", "ignores_input", *codes
        if found.downgraded:
            told = f"the errors are those of a narrower number format; {message}"
            return status, told, "precision_downgrade", *codes
        if all(check.trial != found.checks[0][0].trial for check, _ in found.checks if not check.ok) and any(
            check.trial == "seen_before" for check, _ in found.checks if not check.ok
        ):
            return status, f"inputs that were seen before got another answer; {message}", "stale_output", *codes
    return status, message, *codes


def _not_own(found: Findings, coverage: Coverage) -> tuple[str, str] | None:
    counted = [count for count in found.launches if count is not None]
    if len(counted) == len(found.launches) and counted and sum(counted) == 0:
        return "the results are right, but forward launched no kernel of the candidate's own", "not_own_kernel"
    if len(counted) > 1 and counted[-1] == 0 < counted[0]:
        told = (
            f"{counted[0]} own kernels ran in the first call, none when its inputs came once more: nothing was computed"
        )
        return told, "stale_output"
    if coverage.objection:
        return coverage.objection, "not_own_kernel"
    return None


def _worth_keeping(checks: list[tuple[OutputCheck, str]], limit: int = 20) -> tuple[OutputCheck, ...]:
    """Failed ones first, then the worst passed one of each trial."""
    failed = [check for check, _ in checks if not check.ok]
    worst: dict[str, OutputCheck] = {}
    for check, _ in checks:
        if check.ok:
            before = worst.get(check.trial)
            if before is None or (check.max_rel_error or 0) > (before.max_rel_error or 0):
                worst[check.trial] = check
    return tuple([*failed, *worst.values()][:limit])
