"""``settle``: from the reports of the stages to one evaluation. Pure.

============================  ============================================================================
first of these that applies   status and reasons
============================  ============================================================================
the cpu device lacks a        ``machine_error``: ``unsupported_on_cpu``; it says nothing about the candidate
feature of an extension
an extension did not compile  ``build_failed``: ``compile_error``, or ``cross_compile_error``
the import raised, and a      ``cheating``: it failed because of what it tried
finding blocks
the import failed             by the code in front of ``BuildReport.error`` (``timeout: …`` is ``timeout``, a
                              syntax error is ``build_failed``, all others ``runtime_error``)
a finding blocks              ``cheating``: the rules of the blocking findings
the check is not ok           its own status and reasons
the timing is a CheckReport   its own status and reasons (wrong when timed, clocks that disagree)
nothing of these              ``passed``, with the timing if there is one
============================  ============================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stitchcuda.core.records import (
    BuildReport,
    CheckReport,
    Evaluation,
    ExtensionBuild,
    ProfileReport,
    ScreenReport,
    Status,
    TimingReport,
)

if TYPE_CHECKING:
    from stitchcuda.tools.evaluate import EvaluatorSettings

__all__ = ["settle"]

_IMPORT_STATUS = {
    "timeout": Status.TIMEOUT,
    "syntax_error": Status.BUILD_FAILED,
    "harness_tamper": Status.CHEATING,
    "precision_downgrade": Status.CHEATING,
}


def settle(
    candidate_id: int,
    settings: EvaluatorSettings,
    sizes: Literal["full", "reduced"],
    build: BuildReport | None = None,
    screen: ScreenReport | None = None,
    check: CheckReport | None = None,
    timing: TimingReport | CheckReport | None = None,
    profile: ProfileReport | None = None,
    seconds: float = 0.0,
    machine: dict[str, str] | None = None,
) -> Evaluation:
    """Combine what the stages found; a stage that did not run is ``None``.

    Without a check that is ok nothing has passed: when no report settles the matter and ``check`` is missing, the
    status is what the stages so far allow, ``passed`` provisionally, so ask for it only after the check.
    """
    status, reasons, message = _verdict(build, screen, check, timing)
    return Evaluation(
        candidate_id=candidate_id,
        status=status,
        reasons=reasons,
        message=message,
        device=settings.device,
        policy=settings.policy,
        sizes=sizes,
        build=build,
        screen=screen,
        check=check,
        timing=timing if status is Status.PASSED and isinstance(timing, TimingReport) else None,
        profile=profile,
        seconds=seconds,
        machine=machine or {},
    )


def _verdict(
    build: BuildReport | None,
    screen: ScreenReport | None,
    check: CheckReport | None,
    timing: TimingReport | CheckReport | None,
) -> tuple[Status, tuple[str, ...], str]:
    blocked = screen is not None and screen.blocked
    if build is not None and not build.ok and not (blocked and build.error.startswith("import_error")):
        return _build_verdict(build)
    if screen is not None and blocked:
        blocking = [finding for finding in screen.findings if finding.severity == "block"]
        first = blocking[0]
        where = f" (line {first.line})" if first.line else ""
        return Status.CHEATING, tuple(dict.fromkeys(f.rule for f in blocking)), f"{first.message}{where}"
    for report in (check, timing):
        if isinstance(report, CheckReport) and not report.ok:
            return report.status, report.reasons, report.message
    return Status.PASSED, (), check.message if check is not None else ""


def _build_verdict(build: BuildReport) -> tuple[Status, tuple[str, ...], str]:
    for builds, reason in ((build.extensions, "compile_error"), (build.cross_compiled, "cross_compile_error")):
        for extension in builds:
            if not extension.ok:
                if any(d.code == "unsupported_on_cpu" for d in extension.diagnostics):
                    return Status.MACHINE_ERROR, ("unsupported_on_cpu",), _first_error(extension)
                return Status.BUILD_FAILED, (reason,), _first_error(extension)
    reason, _, message = build.error.partition(": ")
    return _IMPORT_STATUS.get(reason, Status.RUNTIME_ERROR), (reason or "import_error",), message


def _first_error(extension: ExtensionBuild) -> str:
    errors = [d for d in extension.diagnostics if d.severity == "error"]
    if not errors:
        return f"extension {extension.name} did not build for {extension.target}"
    first = errors[0]
    where = f"{first.file}:{first.line}: " if first.file and first.line else ""
    return f"{where}{first.message}"
