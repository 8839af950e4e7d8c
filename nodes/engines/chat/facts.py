"""Evidence as lines for prompts: what is told of an evaluation, a profile, a plan, earlier attempts.

Each list is cut to a number of lines, and says how many it left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stitchcuda.core.records import Diagnostic, Evaluation, ProfileReport, SubTask
from stitchcuda.nodes.engines.chat.fitting import WHOLE, Cuts
from stitchcuda.nodes.engines.chat.prompts import render
from stitchcuda.nodes.evidence import Attempt, Citation, DeviceFacts, ProblemFacts

__all__ = [
    "citation_blocks",
    "cut",
    "evaluation_lines",
    "history_lines",
    "known_citations",
    "problem_text",
    "profile_lines",
    "subtask_lines",
]

DIAGNOSTIC_LINES = 12
CHECK_LINES = 8


def cut(lines: Iterable[str], limit: int) -> list[str]:
    """At most ``limit`` lines, the last of which says what is missing; none at all for a limit of 0."""
    kept = list(lines) if limit > 0 else []
    return kept if len(kept) <= limit else [*kept[: limit - 1], f"… {len(kept) - limit + 1} more lines"]


def problem_text(problem: ProblemFacts, device: DeviceFacts, cuts: Cuts = WHOLE) -> str:
    """The reference program, its inputs and its op graph."""
    return render(
        "problem", problem=problem, device=device, op_lines=cut(problem.op_lines, cuts.ops), left_out=cuts.left_out
    )


def profile_lines(profile: ProfileReport | None, cuts: Cuts = WHOLE) -> list[str]:
    """The profile's total and its largest rows, at most ``cuts.profile`` lines; empty when there is none."""
    if profile is None:
        return []
    head = f"total {profile.total_ms:.3f} ms ({profile.source})"
    if profile.device_busy is not None:
        head += f", GPU busy {profile.device_busy:.0%}"
    if profile.launches is not None:
        head += f", {profile.launches} kernel launches"
    rows = sorted(profile.rows, key=lambda row: row.total_ms, reverse=True)
    lines = (f"{row.share:6.1%} {row.total_ms:10.4f} ms {row.calls:6d}x {row.name[:140]}" for row in rows)
    return cut([head, *lines], cuts.profile)


def _diagnostic_line(diagnostic: Diagnostic) -> str:
    place = f"{diagnostic.file or 'source'}:{diagnostic.line}: " if diagnostic.line is not None else ""
    return f"{place}{diagnostic.severity}: {diagnostic.message}"


def evaluation_lines(evaluation: Evaluation, cuts: Cuts = WHOLE) -> list[str]:
    """What was established, the first cause first."""
    return cut(_evaluation_lines(evaluation), cuts.evaluation)


def _evaluation_lines(evaluation: Evaluation) -> list[str]:
    lines = [f"status: {evaluation.status.value}", f"device: {evaluation.device}, {evaluation.sizes} sizes"]
    if evaluation.reasons:
        lines.append("reasons: " + ", ".join(evaluation.reasons))
    if evaluation.message:
        lines.append(f"message: {evaluation.message}")
    if (build := evaluation.build) is not None:
        if build.error:
            lines.append(f"build: {build.error}")
        every = [*build.extensions, *build.cross_compiled]
        found = [(extension, item) for extension in every for item in extension.diagnostics if not extension.ok]
        found.sort(key=lambda pair: pair[1].severity != "error")
        marks = (f"build {extension.name} ({extension.target}): {_diagnostic_line(item)}" for extension, item in found)
        lines += cut(marks, DIAGNOSTIC_LINES)
        registers = {name: count for extension in every for name, count in extension.registers.items()}
        lines += cut((f"registers: {name}: {count} per thread" for name, count in registers.items()), CHECK_LINES)
    if evaluation.screen is not None:
        findings = (
            f"screen {finding.severity} {finding.rule}"
            f"{f' (line {finding.line})' if finding.line is not None else ''}: {finding.message}"
            for finding in evaluation.screen.findings
        )
        lines += cut(findings, CHECK_LINES)
    if (check := evaluation.check) is not None:
        lines.append(
            f"check: {'ok' if check.ok else check.status.value} after {check.trials} trials {check.message}".rstrip()
        )
        if check.own_kernel_launches is not None:
            lines.append(f"own kernel launches in one call: {check.own_kernel_launches}")
        outputs = sorted(check.outputs, key=lambda output: output.ok)
        lines += cut(
            (
                f"check {output.trial} {output.output}: {'ok' if output.ok else output.status.value}"
                f"{_figure(', max abs error', output.max_abs_error)}{_figure(', max rel error', output.max_rel_error)}"
                f"{_figure(', mismatched share', output.mismatched_fraction)} {output.message}".rstrip()
                for output in outputs
            ),
            CHECK_LINES,
        )
    if (timing := evaluation.timing) is not None:
        lines.append(f"time: {timing.candidate.median_ms:.4f} ms (median of {timing.candidate.calls} calls)")
        lines += [
            f"against {base.name}: {base.stats.median_ms:.4f} ms, speed-up {base.speedup:.3f} "
            f"(95 % interval {base.speedup_low:.3f} to {base.speedup_high:.3f})"
            for base in timing.baselines
        ]
        if timing.launch_bound:
            lines.append("the time is launch-bound: fewer launches help, faster kernels do not")
    return lines


def _figure(label: str, value: float | None) -> str:
    return "" if value is None else f"{label} {value:.3g}"


def subtask_lines(subtasks: Sequence[SubTask], cuts: Cuts = WHOLE) -> list[str]:
    """One line per sub-task of a plan."""
    return cut((f"{task.id}: {task.title} [{', '.join(task.ops)}]" for task in subtasks), cuts.plan)


def history_lines(history: Sequence[Attempt], cuts: Cuts = WHOLE) -> list[str]:
    """Earlier attempts, the latest ones."""
    left_out = len(history) - cuts.history
    lines = [f"… {left_out} earlier attempts"] if left_out > 0 and cuts.history else []
    for attempt in history[max(0, left_out) :]:
        speed = f", speed-up {attempt.speedup:.3f}" if attempt.speedup is not None else ""
        reasons = f" ({', '.join(attempt.reasons)})" if attempt.reasons else ""
        covers = f" covers {', '.join(attempt.covers)}" if attempt.covers else ""
        summary = f": {' '.join(attempt.summary.split())[:200]}" if attempt.summary else ""
        lines.append(f"#{attempt.candidate_id} {attempt.status}{reasons}{speed}{covers}{summary}")
    return lines


def citation_blocks(citations: Sequence[Citation], cuts: Cuts = WHOLE) -> list[Citation]:
    """The best passages, each shortened to what a prompt has room for."""
    best = sorted(citations, key=lambda item: item.score, reverse=True)[: cuts.citations]
    room = cuts.citation_chars
    return [
        item if len(item.text) <= room else item.model_copy(update={"text": item.text[:room] + "…"}) for item in best
    ]


def known_citations(named: Sequence[str], citations: Sequence[Citation], found: Sequence[str] = ()) -> tuple[str, ...]:
    """Those of ``named`` that the model was shown: a source that nobody gave it is made up."""
    sources = {*(item.source for item in citations), *found}
    return tuple(dict.fromkeys(name for name in named if name in sources))
