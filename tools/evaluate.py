"""The evaluator: build, screen, check, time and profile one candidate against one reference.

Comes in: the reference's source (at the sizes that are to be run) and candidates' sources. Goes out: one report per
stage, and an ``Evaluation`` that combines them. A bad candidate is data; exceptions are for the problem
(``ProblemError``), the machine (``ToolchainError``, ``WorkerError``) and the caller (``Cancelled``).

This process holds the seeds, tolerances, clocks and the verdict. It never imports torch, never maps a tensor, and
never runs a line of a candidate.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from stitchcuda.core.errors import SettingsError, ToolchainError, WorkerError, one_line
from stitchcuda.core.records import (
    BuildReport,
    CheckReport,
    Evaluation,
    ExtensionBuild,
    Policy,
    ProfileReport,
    Record,
    ScreenReport,
    Status,
    TimingReport,
)
from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.build.toolchain import find_toolchain
from stitchcuda.tools.checks.run import construct, run_check, set_weights
from stitchcuda.tools.checks.session import CandidateFailed, CandidateSession, ReferenceSession
from stitchcuda.tools.health import crowded, free_bytes, gpu_trouble
from stitchcuda.tools.sandbox import Worker, warm_up
from stitchcuda.tools.sandbox.wire import close_all
from stitchcuda.tools.screens.python_rules import screen_source
from stitchcuda.tools.settling import settle
from stitchcuda.tools.timing.baselines import Baseline, baseline_key
from stitchcuda.tools.timing.stage import TimingOptions, run_timing

__all__ = ["Cancelled", "Evaluator", "EvaluatorSettings", "settle"]

Sizes = Literal["full", "reduced"]
_REFERENCE_PATIENCE = 4.0
"""The reference also computes in float64 and compares: its calls may take this many times a candidate's limit."""
_MAY_BREAK_THE_GPU = ("timeout", "crashed", "cuda_error", "flood", "protocol_broken", "worker_gone")


class EvaluatorSettings(Record):
    """How candidates are judged."""

    device: str
    """``cpu`` or ``cuda:N``."""
    policy: Policy = "libraries"
    trials: int = 5
    """Calls with fresh inputs per check, at least two."""
    seed: int | None = None
    """For tests; ``None`` takes a fresh secret from the operating system for each check."""
    build_timeout_s: float = 600.0
    """For one extension."""
    call_timeout_s: float = 60.0
    """For one call of the candidate, its import included, builds not."""
    timing_budget_s: float = 10.0
    """Of timed rounds, for each candidate process."""
    timing_processes: int = Field(default=1, ge=1)
    """Fresh processes of the candidate that are timed; more of them average over where its memory happens to lie."""
    baselines: tuple[Baseline, ...] = ("eager", "eager_tf32")
    """Ways to run the reference; the first is the one that the speed-up names."""
    cross_compile: str | None = "sm_90"
    """On ``cpu`` with nvcc present: also compile for this target; ``None`` turns that off."""
    sanitize: bool = False
    """On ``cpu``: check every memory access of the kernels (bounds, alignment, races); a finding ends the call."""
    cache_dir: Path
    """Where built extensions are kept."""


class Cancelled(WorkerError):
    """``cancel`` was called; nothing was established about the candidate."""


class Evaluator:
    """Judges candidates for one reference on one device. One caller at a time; ``cancel`` from any thread."""

    def __init__(self, reference: str, settings: EvaluatorSettings, *, sizes: Sizes) -> None:
        if settings.device != "cpu" and not settings.device.startswith("cuda"):
            raise SettingsError(f"unknown device {settings.device!r}: use cpu or cuda:N")
        self._source = reference
        self.settings = settings
        self.sizes: Sizes = sizes
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._builder = Builder(settings.cache_dir, timeout_s=settings.build_timeout_s, cancel=self._cancelled)
        self._reference_session: ReferenceSession | None = None
        warm_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- stages -------------------------------------------------------------------------------------------------

    def build(self, source: str) -> BuildReport:
        """Import the candidate in a worker and build every extension that it asks for.

        ``error`` starts with a reason code and a colon when there is no compiler's message to tell it.
        """
        started = time.monotonic()
        built: list[ExtensionBuild] = []
        specs: list[ExtensionSpec] = []
        failure = ""
        with self._candidate(source, built, specs) as candidate:
            try:
                candidate.import_source()
            except CandidateFailed as failed:
                failure = f"{failed.reason}: {failed.message}"
        crossed = self._cross_compile(specs) if not failure and all(b.ok for b in built) else ()
        return BuildReport(
            ok=not failure and all(b.ok for b in (*built, *crossed)),
            extensions=tuple(built),
            cross_compiled=crossed,
            # A compile error that the candidate let through is told by the compiler's own words.
            error="" if any(not b.ok for b in built) else failure,
            seconds=time.monotonic() - started,
        )

    def screen(self, source: str) -> ScreenReport:
        """Static findings; ``block`` ones settle the matter."""
        return screen_source(source, self.settings.policy)

    def check(self, source: str) -> CheckReport:
        """Correctness on fresh inputs and weights, and whether own kernels ran.

        Raises:
            ProblemError: the reference cannot serve as a golden.
        """
        started = time.monotonic()
        built: list[ExtensionBuild] = []
        free: int | None = None
        try:
            reference = self._reference()
            free = free_bytes(self.settings.device)
            with self._candidate(source, built, []) as candidate:
                candidate.import_source()
                return run_check(
                    reference,
                    candidate,
                    trials=max(2, self.settings.trials),
                    seed=self._fresh_seed(),
                    policy=self.settings.policy,
                )
        except CandidateFailed as failed:
            return self._failed(failed, built, free, time.monotonic() - started)
        except WorkerError as error:
            return self._machine_error(error, time.monotonic() - started)

    def time(self, source: str) -> TimingReport | CheckReport:
        """Interleaved timing against the reference (GPU only).

        A ``CheckReport`` that is not ok comes back instead when the timed calls themselves gave the candidate away
        (wrong outputs, clocks that disagree, a crash); ``settle`` takes either.
        """
        if self.settings.device == "cpu":
            raise SettingsError("the cpu device is an emulator: times on it would mean nothing")
        started = time.monotonic()
        built: list[ExtensionBuild] = []
        free = free_bytes(self.settings.device)

        @contextlib.contextmanager
        def imported() -> Iterator[CandidateSession]:
            with self._candidate(source, built, []) as candidate:
                candidate.import_source()
                yield candidate

        try:
            reference = self._reference()
            options = TimingOptions(
                device=self.settings.device,
                baselines=self.settings.baselines,
                budget_s=self.settings.timing_budget_s,
                processes=self.settings.timing_processes,
                folder=self.settings.cache_dir / "timing",
                key=baseline_key(self._source, self.machine),
            )
            return run_timing(reference, imported, options, self._fresh_seed(), self._stop_if_cancelled)
        except CandidateFailed as failed:
            return self._failed(failed, built, free, time.monotonic() - started)
        except WorkerError as error:
            return self._machine_error(error, time.monotonic() - started)
        finally:
            self._end_timing()

    def profile(self, source: str | None) -> ProfileReport | None:
        """Where the time of one call goes; ``None`` source: the reference. ``None`` back when it cannot be had."""
        try:
            reference = self._reference()
            seed = secrets.randbelow(1 << 31)
            if source is None:
                reply, attached = reference.ask("profile", seed=seed)
                close_all(attached)
                return ProfileReport.model_validate(reply["profile"])
            with self._candidate(source, [], []) as candidate:
                candidate.import_source()
                set_weights(reference, candidate, construct(reference, candidate), None)
                sent, inputs = reference.ask("inputs", call=0, seed=seed, law="as_given")
                try:
                    reply, attached = candidate.ask("profile", inputs, inputs=sent["inputs"])
                finally:
                    close_all(inputs)
                close_all(attached)
                return ProfileReport.model_validate(reply["profile"])
        except CandidateFailed:
            return None
        except (KeyError, ValueError):
            return None  # a candidate's worker that answers with something else than a profile
        except WorkerError as error:
            self._machine_error(error, 0.0)
            return None

    def evaluate(self, source: str, candidate_id: int = 0) -> Evaluation:
        """All stages, ending with the first that settles the matter."""
        started = time.monotonic()
        reports: dict[str, Any] = {}

        def settled() -> Evaluation:
            return settle(
                candidate_id,
                self.settings,
                self.sizes,
                **reports,
                seconds=time.monotonic() - started,
                machine=self.machine,
            )

        stages: list[tuple[str, Callable[[str], Any]]] = [
            ("build", self.build),
            ("screen", self.screen),
            ("check", self.check),
        ]
        if self.settings.device != "cpu":
            stages += [("timing", self.time), ("profile", self.profile)]
        for name, stage in stages:
            reports[name] = stage(source)
            if name == "build" and not reports[name].ok:
                reports["screen"] = self.screen(source)  # an import may fail because of what a rule blocks
            evaluation = settled()
            if not evaluation.passed:
                return evaluation
        return evaluation

    @property
    def machine(self) -> dict[str, str]:
        """GPU and versions, as the reference worker saw them; empty before it was needed."""
        if self._reference_session is not None:
            info = self._reference_session.info
            self._machine = {key: str(info[key]) for key in ("gpu", "torch", "target") if key in info}
        return getattr(self, "_machine", {})

    # --- ending -------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End every worker and compiler now, for good; the stage that runs raises ``Cancelled``."""
        self._cancelled.set()
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.kill("cancelled")

    def close(self) -> None:
        """End the workers; the fork server stays for other evaluators until the process ends."""
        self._drop_reference()
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()

    # --- inside -------------------------------------------------------------------------------------------------

    def _fresh_seed(self) -> int:
        return secrets.randbits(62) if self.settings.seed is None else self.settings.seed

    def _register(self, worker: Worker) -> None:
        with self._lock:
            self._workers.append(worker)
        if self._cancelled.is_set():
            worker.kill("cancelled")

    def _stop_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("the evaluation was cancelled")

    def _reference(self) -> ReferenceSession:
        self._stop_if_cancelled()
        if self._reference_session is None:
            patience_s = _REFERENCE_PATIENCE * max(30.0, self.settings.call_timeout_s)
            try:
                self._reference_session = ReferenceSession(
                    self._source, self.settings.device, patience_s, self._register
                )
            except WorkerError:
                self._stop_if_cancelled()
                raise
        return self._reference_session

    def _drop_reference(self) -> None:
        _ = self.machine
        if self._reference_session is not None:
            self._reference_session.close()
            self._forget(self._reference_session)
            self._reference_session = None

    def _end_timing(self) -> None:
        """The reference's sets of inputs may fill the GPU; a worker that cannot even let go of them is replaced."""
        if self._reference_session is None:
            return
        try:
            _, attached = self._reference_session.ask("time_end")
            close_all(attached)
        except WorkerError:
            self._drop_reference()

    def _forget(self, session: ReferenceSession | CandidateSession) -> None:
        with self._lock:
            self._workers = [worker for worker in self._workers if worker is not session.worker]

    @contextlib.contextmanager
    def _candidate(
        self, source: str, built: list[ExtensionBuild], specs: list[ExtensionSpec]
    ) -> Iterator[CandidateSession]:
        """A candidate's worker, not yet imported; its builds are noted in ``built`` and ``specs``."""
        self._stop_if_cancelled()
        target = self._target()

        def build(message: dict[str, Any]) -> dict[str, Any]:
            try:
                spec = ExtensionSpec.from_json(message["spec"])
            except (ValueError, KeyError, TypeError) as error:
                raise CandidateFailed(
                    Status.RUNTIME_ERROR, "protocol_broken", f"malformed build request: {one_line(error)}"
                ) from None
            result = self._builder.build(spec, target)
            self._stop_if_cancelled()
            built.append(result)
            specs.append(spec)
            return result.model_dump(mode="json")

        session = CandidateSession(
            source,
            self.settings.device,
            self.settings.call_timeout_s,
            self._register,
            build,
            # Their names are content hashes: without a listing nobody finds another candidate's.
            extensions=(self._builder.store.path("").absolute(),),
        )
        try:
            yield session
        except WorkerError:
            self._stop_if_cancelled()
            raise
        finally:
            session.close()
            self._forget(session)

    def _target(self) -> str:
        if self.settings.device == "cpu":
            return "cpu+sanitize" if self.settings.sanitize else "cpu"
        return str(self._reference().info["target"])

    def _cross_compile(self, specs: list[ExtensionSpec]) -> tuple[ExtensionBuild, ...]:
        target = self.settings.cross_compile
        if self.settings.device != "cpu" or target is None:
            return ()
        try:
            find_toolchain(target)
        except ToolchainError:
            return ()  # no nvcc here, or one that is older than the target: doctor says what that means
        results = []
        for spec in specs:
            self._stop_if_cancelled()
            if spec.cuda_sources:
                results.append(self._builder.compile_only(spec, target))
        self._stop_if_cancelled()
        return tuple(results)

    def _failed(
        self, failed: CandidateFailed, built: list[ExtensionBuild], free_before: int | None, seconds: float
    ) -> CheckReport:
        """The candidate's failure, unless the GPU's state says that the machine is at fault."""
        session = self._reference_session
        if failed.reason == "out_of_memory" and session is not None:
            if crowded(free_before, int(session.info["input_bytes"])):
                assert free_before is not None
                told = f"other processes left {free_before / 2**30:.1f} GiB of the GPU's memory: {failed.message}"
                return self._machine_error(WorkerError(told), seconds, "gpu_crowded")
        elif failed.reason in _MAY_BREAK_THE_GPU and (trouble := gpu_trouble(self.settings.device)):
            return self._machine_error(WorkerError(trouble), seconds, "gpu_lost")
        return _failed_check(failed, built, seconds)

    def _machine_error(self, error: WorkerError, seconds: float, reason: str = "reference_failed") -> CheckReport:
        """The trusted side failed: start afresh next time, and say so."""
        if isinstance(error, Cancelled):
            raise error
        self._stop_if_cancelled()
        self._drop_reference()
        return CheckReport(
            ok=False,
            status=Status.MACHINE_ERROR,
            reasons=(reason,),
            message=one_line(error),
            seconds=seconds,
        )


def _failed_check(failed: CandidateFailed, built: list[ExtensionBuild], seconds: float) -> CheckReport:
    status, reason = failed.status, failed.reason
    if any(not b.ok for b in built):
        status, reason = Status.BUILD_FAILED, "compile_error"  # an extension that is built late, in a constructor
    return CheckReport(ok=False, status=status, reasons=(reason,), message=failed.message, seconds=seconds)
