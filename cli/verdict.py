"""The whole verdict on one candidate, for a person: what was done, what was found, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stitchcuda.core.records import BuildReport, CheckReport, Evaluation, ProfileReport, TimingReport

__all__ = ["verdict_lines"]

_MOST_FINDINGS = 10
_MOST_OUTPUTS = 6
_MOST_KERNELS = 3


def verdict_lines(evaluation: Evaluation) -> list[str]:
    """One line for the whole, then the stages that ran, then what it was judged on."""
    head = evaluation.status.value
    if evaluation.speedup is not None and evaluation.timing is not None:
        head += f", {evaluation.speedup:.2f}x the speed of {evaluation.timing.baselines[0].name}"
    if evaluation.reasons:
        head += f" ({', '.join(evaluation.reasons)})"
    lines = [head + (f": {evaluation.message}" if evaluation.message else "")]
    if evaluation.build is not None:
        lines += _build(evaluation.build)
    if evaluation.screen is not None:
        found = evaluation.screen.findings
        for finding in found[:_MOST_FINDINGS]:
            where = f" (line {finding.line})" if finding.line else ""
            lines.append(f"  screen  {finding.severity} {finding.rule}: {finding.message}{where}")
        if not found:
            lines.append("  screen  nothing found")
    if evaluation.check is not None:
        lines += _check(evaluation.check)
    if evaluation.timing is not None:
        lines += _timing(evaluation.timing)
    elif evaluation.passed:
        lines.append(f"  time    not on {evaluation.device}: only a GPU is timed")
    if evaluation.profile is not None:
        lines += _profile(evaluation.profile)
    machine = f" ({evaluation.machine['gpu']})" if "gpu" in evaluation.machine else ""
    lines.append(
        f"  on {evaluation.device}{machine}, {evaluation.sizes} sizes, policy {evaluation.policy}, "
        f"{evaluation.seconds:.1f} s"
    )
    return lines


def _build(build: BuildReport) -> Iterator[str]:
    cached = sum(extension.cached for extension in build.extensions)
    state = "ok" if build.ok else "failed"
    yield f"  build   {state}: {len(build.extensions)} extension(s), {cached} from the store, {build.seconds:.1f} s"
    if build.error:
        yield f"          {build.error}"
    for extension in (*build.extensions, *build.cross_compiled):
        for diagnostic in extension.diagnostics:
            if diagnostic.severity == "error":
                file = diagnostic.file or "candidate"
                where = f"{file}:{diagnostic.line}: " if diagnostic.line is not None else ""
                yield f"          {extension.target}: {where}{diagnostic.message}"


def _check(check: CheckReport) -> Iterator[str]:
    worst = max((output.max_abs_error for output in check.outputs if output.max_abs_error is not None), default=None)
    error = f", largest error {worst:.3g}" if worst is not None else ""
    launches = "" if check.own_kernel_launches is None else f", {check.own_kernel_launches} own launches per call"
    yield f"  check   {check.status.value}: {check.trials} trial(s){error}{launches}, {check.seconds:.1f} s"
    for output in [output for output in check.outputs if not output.ok][:_MOST_OUTPUTS]:
        yield f"          {output.trial}: {output.output}: {output.message}"
    if check.replaced_share is not None:
        yield f"          {check.replaced_share:.0%} of the reference's work is no longer PyTorch's"
    if check.library_ops:
        yield f"          library calls: {', '.join(check.library_ops)}"
    if check.unscorable:
        yield f"          proves nothing about {', '.join(check.unscorable)}: such an output would pass here too"


def _timing(timing: TimingReport) -> Iterator[str]:
    mine = timing.candidate
    yield (
        f"  time    {mine.median_ms:.4g} ms (quartiles {mine.p25_ms:.4g} to {mine.p75_ms:.4g}, {mine.calls} calls in "
        f"{timing.rounds} rounds, {timing.processes} process(es))" + (", launch-bound" if timing.launch_bound else "")
    )
    for baseline in timing.baselines:
        ratio = f"{baseline.speedup:.2f}x ({baseline.speedup_low:.2f} to {baseline.speedup_high:.2f})"
        yield f"          {ratio} against {baseline.stats.median_ms:.4g} ms {baseline.name}"
    if timing.stopped_by != "interval":
        yield "          the interval did not come within 2 %: more --set timing_budget_s=S would narrow it"
    if timing.floor_ms is not None:
        yield f"          floor of this problem's bytes on this GPU: {timing.floor_ms:.4g} ms"
    for side, extra in timing.peak_extra_bytes.items():
        yield f"          a call of {side} takes {extra / 1e6:.0f} MB of device memory"
    if throttled := timing.clocks.get("after_throttled") or timing.clocks.get("before_throttled"):
        yield f"          the GPU was slowed down: {throttled}"
    for note in timing.notes:
        yield f"          {note}"


def _profile(profile: ProfileReport) -> Iterator[str]:
    busy = f", GPU busy {profile.device_busy:.0%}" if profile.device_busy is not None else ""
    launches = f", {profile.launches} launches" if profile.launches is not None else ""
    yield f"  profile {profile.total_ms:.4g} ms{busy}{launches}"
    for row in profile.rows[:_MOST_KERNELS]:
        yield f"          {row.share:.0%} {row.name[:80]}"
