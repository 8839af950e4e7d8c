"""Builds an ``ExtensionSpec`` for a target: the facade first, torch's own headers when they are needed.

Comes in: a spec, which is untrusted text. Goes out: an ``ExtensionBuild``; a candidate that does not compile is a
result, never an exception. Only compilers run here, each in its own process group; no code of the candidate does.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from stitchcuda.core.errors import ToolchainError
from stitchcuda.core.files import sha256_text
from stitchcuda.core.process import Completed, run_command
from stitchcuda.core.records import Diagnostic, ExtensionBuild
from stitchcuda.tools.build.commands import (
    CheckedSpec,
    Emulator,
    Unit,
    build_bridge_command,
    build_cxx_command,
    build_link_command,
    build_nvcc_command,
    build_pch_command,
    build_runtime_command,
    build_sanitizer_command,
    build_units,
    check_spec,
    pch_flags,
)
from stitchcuda.tools.build.diagnostics import curable, parse_diagnostics, parse_ptxas
from stitchcuda.tools.build.spec import ExtensionSpec
from stitchcuda.tools.build.store import Busy, Store
from stitchcuda.tools.build.toolchain import Toolchain, find_toolchain, torch_names
from stitchcuda.tools.sandbox.box import boxed

__all__ = ["Builder"]

RECORD = "build.json"
SANITIZED = "cpu+sanitize"
"""The emulator with its checks of every memory access; ``tools.emulator``'s documentation says which."""
ROOMY_CPUS = 4


@dataclass(frozen=True)
class _Attempt:
    """One pass over all files of an extension against one set of headers."""

    ok: bool
    output: str
    diagnostics: tuple[Diagnostic, ...]
    stopped: str = ""
    """``timeout`` or ``cancelled``: says nothing about the candidate for good."""


@dataclass(frozen=True)
class _Job:
    spec: ExtensionSpec
    checked: CheckedSpec
    toolchain: Toolchain
    target: str
    link: bool
    ends: float
    sanitize: bool = False

    def left_s(self) -> float:
        return max(0.1, self.ends - time.monotonic())

    def files(self) -> tuple[str, ...]:
        return (*self.spec.shown_cuda_names(), *self.spec.shown_cpp_names(), "functions")


class Builder:
    """Compiles extensions into a store; several builders, also of other processes, may share one store.

    Args:
        cache_dir: where the store lies; created when missing.
        timeout_s: wall-clock limit of one extension, fall-back included. The one-time precompiled header of torch's
            own headers (emulator only) counts towards it too.
        cancel: when another thread sets it, the running compiler's process group is killed at once.
    """

    def __init__(self, cache_dir: Path, *, timeout_s: float, cancel: threading.Event | None = None) -> None:
        self.store = Store(cache_dir.absolute() / "extensions")  # compilers work in folders of their own
        self.timeout_s = timeout_s
        self.cancel = cancel

    def build(self, spec: ExtensionSpec, target: str) -> ExtensionBuild:
        """Build ``spec`` for ``target`` (``cpu``, ``cpu+sanitize`` or ``sm_NN``) into a shared object.

        Raises:
            ToolchainError: the machine lacks a compiler or torch; never for a bad candidate.
        """
        return self._build(spec, target, link=True)

    def compile_only(self, spec: ExtensionSpec, target: str) -> ExtensionBuild:
        """Compile ``spec`` for ``target`` without linking: compile errors and registers where there is no GPU.

        Raises:
            ToolchainError: as ``build``.
        """
        return self._build(spec, target, link=False)

    def _build(self, spec: ExtensionSpec, target: str, *, link: bool) -> ExtensionBuild:
        started = time.monotonic()
        wanted, sanitize = target, target == SANITIZED
        target = "cpu" if sanitize else target
        toolchain = find_toolchain(target)
        checked = check_spec(spec)
        if checked.problems:
            return _failed(spec, target, [Diagnostic(severity="error", message=text) for text in checked.problems])
        digest = sha256_text(spec.digest(wanted, toolchain.identity()) + ("" if link else ":compile-only"))
        job = _Job(spec, checked, toolchain, target, link, started + self.timeout_s, sanitize)
        outcome: ExtensionBuild | None = None

        def make(folder: Path) -> bool:
            nonlocal outcome
            outcome, keep = self._compile(job, folder)
            (folder / RECORD).write_text(outcome.model_dump_json(), encoding="utf-8")
            return keep

        try:
            folder, was_there = self.store.get_or_make(digest, make, timeout_s=self.timeout_s, cancel=self.cancel)
        except Busy:
            cancelled = self.cancel is not None and self.cancel.is_set()
            reason = "the build was cancelled" if cancelled else "other builds held the machine until the time limit"
            return _failed(spec, target, [_stopped(reason)])
        seconds = time.monotonic() - started
        if folder is None:
            assert outcome is not None
            return outcome.model_copy(update={"seconds": seconds, "path": ""})
        record = ExtensionBuild.model_validate_json((folder / RECORD).read_text(encoding="utf-8"))
        path = str(folder / f"{spec.name}.so") if record.ok and link else ""
        return record.model_copy(update={"path": path, "cached": was_there, "seconds": seconds})

    def _compile(self, job: _Job, folder: Path) -> tuple[ExtensionBuild, bool]:
        """Fill ``folder``; also says whether the outcome is worth keeping."""
        if job.target == "cpu":
            units = _rewritten_units(job.spec)
            if isinstance(units, Diagnostic):
                return _failed(job.spec, job.target, [units]), True
        else:
            units = build_units(job.spec, job.spec.cuda_sources, job.spec.cpp_sources)
        notes = [Diagnostic(severity="warning", message=text, code="flag") for text in job.checked.notes]
        first = self._attempt(job, folder, units, facade=True)
        chosen, headers = first, "facade"
        if not first.ok and not first.stopped and curable(first.diagnostics, *torch_names(job.toolchain.torch_dir)):
            second = self._attempt(job, folder, units, facade=False)
            # Both failed: torch's headers know more names, so what remains in the candidate's lines is its own mistake.
            if second.ok or second.stopped or second.diagnostics[0].file in job.files():
                chosen, headers = second, "torch"
            else:
                cause = second.diagnostics[0]
                text = f"against torch's own headers: {cause.message} ({cause.file}:{cause.line})"
                notes.append(Diagnostic(severity="warning", message=text, code="fall-back"))
        record = ExtensionBuild(
            name=job.spec.name,
            ok=chosen.ok,
            target=job.target,
            headers="facade" if headers == "facade" else "torch",
            diagnostics=(*chosen.diagnostics, *notes),
            registers={name: use.registers for name, use in parse_ptxas(chosen.output).items()},
        )
        for left in folder.glob("*.o"):
            left.unlink()
        return record, not chosen.stopped

    def _attempt(self, job: _Job, folder: Path, units: Sequence[Unit], *, facade: bool) -> _Attempt:
        """Compile all units and link them."""
        objects = [folder / f"{unit.file}.o" for unit in units]
        results: dict[Unit, Completed] = {}

        def compile_unit(unit: Unit, output: Path) -> bool:
            source = folder / unit.file
            source.write_text(unit.text, encoding="utf-8")
            if job.target != "cpu" and unit.is_cuda:
                command = build_nvcc_command(
                    job.spec.name,
                    job.checked,
                    job.toolchain,
                    source,
                    output,
                    target=job.target,
                    facade=facade,
                    parts=unit.parts(),
                    object_wanted=job.link,
                )
            else:
                command = self._host_command(job, unit, source, output, facade=facade)
            results[unit] = self._run(command, job, folder)
            return results[unit].ok

        # nvcc and g++ side by side where there is room; on a small machine in turn, up to the first failure.
        if len(units) > 1 and (os.cpu_count() or 1) >= ROOMY_CPUS:
            with ThreadPoolExecutor(max_workers=min(len(units), 8)) as pool:
                list(pool.map(compile_unit, units, objects))
        else:
            all(compile_unit(unit, output) for unit, output in zip(units, objects, strict=True))
        outputs = [results[unit].output for unit in units if unit in results]
        for unit in units:
            if unit in results and not results[unit].ok:
                return _failed_attempt(results[unit], outputs, job)
        if job.link:
            if facade:
                objects.extend(self._runtime(job))
                if job.spec.python_module and (bridge := self._bridge(job)) is not None:
                    objects.append(bridge)
            if job.sanitize:
                sanitizer = self._sanitizer(job)
                if isinstance(sanitizer, Completed):
                    return _failed_attempt(sanitizer, outputs, job)
                objects.append(sanitizer)
            command = build_link_command(
                job.checked, job.toolchain, objects, folder / f"{job.spec.name}.so", target=job.target, facade=facade
            )
            completed = self._run(command, job, folder)
            if not completed.ok:
                return _failed_attempt(completed, [*outputs, completed.output], job)
        text = "\n".join(outputs)
        return _Attempt(True, text, parse_diagnostics(text, job.files()))

    def _host_command(self, job: _Job, unit: Unit, source: Path, output: Path, *, facade: bool) -> list[str]:
        emulator = _emulator(sanitize=job.sanitize) if job.target == "cpu" else None
        pch: Path | None = None
        if emulator is not None:
            pch = self._precompiled(job, emulator, facade=facade, is_cuda_source=unit.is_cuda)
        return build_cxx_command(
            job.spec.name,
            job.checked,
            job.toolchain,
            source,
            output,
            target=job.target,
            facade=facade,
            is_cuda_source=unit.is_cuda,
            parts=unit.parts(),
            emulator=emulator,
            pch=pch,
            object_wanted=job.link,
        )

    def _precompiled(self, job: _Job, emulator: Emulator, *, facade: bool, is_cuda_source: bool) -> Path | None:
        """The headers, precompiled once per set of flags; ``None`` when that did not work out."""
        from stitchcuda.tools.emulator import prelude

        flags = pch_flags(job.checked, job.toolchain, emulator, is_cuda_source=is_cuda_source)
        if flags is None:
            return None
        digest = "pch-" + sha256_text(repr([facade, *job.toolchain.identity().items(), *flags]))

        def make(folder: Path) -> bool:
            header, output = folder / "headers.h", folder / "headers.h.gch"
            # torch's own headers come before the emulator's words, which are not for them.
            text = "#include <torch/extension.h>\n"
            header.write_text(prelude() + text if facade else text, encoding="utf-8")
            command = build_pch_command(job.toolchain, flags, emulator, header, output, facade=facade)
            return self._run(command, job, folder).ok

        try:
            folder, _ = self.store.get_or_make(digest, make, timeout_s=job.left_s(), cancel=self.cancel)
        except Busy:
            return None
        return folder / "headers.h" if folder is not None else None

    def _runtime(self, job: _Job) -> list[Path]:
        """The facade's own code, compiled once.

        Raises:
            ToolchainError: the compiler refuses it, for which no candidate is to blame.
        """
        emulated = job.target == "cpu"
        digest = f"runtime-{emulated:d}-" + sha256_text(repr(sorted(job.toolchain.identity().items())))

        def make(folder: Path) -> bool:
            for command in build_runtime_command(job.toolchain, folder, emulated=emulated):
                completed = self._run(command, job, folder)
                if completed.timed_out or completed.cancelled or completed.returncode < 0:
                    return False
                if not completed.ok:
                    raise ToolchainError(f"{job.toolchain.cxx} cannot build for torch: {completed.output[:500]}")
            return True

        folder, _ = self.store.get_or_make(digest, make, timeout_s=job.left_s(), cancel=self.cancel)
        if folder is None:
            raise Busy(digest)
        return sorted(folder.glob("*.o"))

    def _bridge(self, job: _Job) -> Path | None:
        """The fast caller's object file, compiled once; ``None`` without Python's headers (calls then take ctypes)."""
        digest = "bridge-" + sha256_text(repr(sorted(job.toolchain.identity().items())))

        def make(folder: Path) -> bool:
            return self._run(build_bridge_command(job.toolchain, folder / "bridge.o"), job, folder).ok

        try:
            folder, _ = self.store.get_or_make(digest, make, timeout_s=job.left_s(), cancel=self.cancel)
        except Busy:
            return None
        return folder / "bridge.o" if folder is not None else None

    def _sanitizer(self, job: _Job) -> Path | Completed:
        """The checks' object file, compiled once; what the compiler said when it could not be."""
        digest = "sanitizer-" + sha256_text(repr(sorted(job.toolchain.identity().items())))
        failed: list[Completed] = []

        def make(folder: Path) -> bool:
            command = build_sanitizer_command(job.toolchain, _emulator(), folder / "sanitizer.o")
            completed = self._run(command, job, folder)
            if not completed.ok:
                failed.append(completed)
            return completed.ok

        folder, _ = self.store.get_or_make(digest, make, timeout_s=job.left_s(), cancel=self.cancel)
        return failed[0] if folder is None else folder / "sanitizer.o"

    def _run(self, command: Sequence[str], job: _Job, folder: Path) -> Completed:
        with self.store.slot(compiler_places(), timeout_s=job.left_s(), cancel=self.cancel):
            # The source is a candidate's: it must not pull this machine's files into messages or objects.
            inside = boxed(command, folder=folder, open_only=[self.store.path("")])
            completed = run_command(inside, timeout_s=job.left_s(), cwd=folder, cancel=self.cancel)
            return replace(completed, command=tuple(command))


def compiler_places() -> int:
    """How many compilers may run at once on this machine: one per CPU, and 1.5 GiB of free memory for each.

    nvcc takes 3 GiB on torch's own headers and 0.4 GiB on the facade (measured, CUDA 13.0).
    """
    cpus = len(os.sched_getaffinity(0))
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return cpus
    match = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return cpus if match is None else max(1, min(cpus, int(match[1]) * 1024 // (3 * 2**29)))


def _rewritten_units(spec: ExtensionSpec) -> tuple[Unit, ...] | Diagnostic:
    """The sources for the emulator, or why they cannot run there."""
    from stitchcuda.tools.emulator import UnsupportedOnCpu, prelude, rewrite

    texts: list[str] = []
    sources = zip(
        (*spec.cuda_sources, *spec.cpp_sources), (*spec.shown_cuda_names(), *spec.shown_cpp_names()), strict=True
    )
    for source, name in sources:
        try:
            texts.append(rewrite(source, name).text)
        except UnsupportedOnCpu as error:
            return Diagnostic(
                severity="error", message=str(error), file=name, line=error.line, code="unsupported_on_cpu"
            )
    device = len(spec.cuda_sources)
    return build_units(spec, texts[:device], texts[device:], prelude())


def _emulator(*, sanitize: bool = False) -> Emulator:
    from stitchcuda.tools.emulator import compile_flags, include_dir

    flags = compile_flags(sanitize=sanitize)
    return Emulator(include_dir(), tuple(flag for flag in flags if not flag.startswith("-Wl,")))


def _failed_attempt(completed: Completed, outputs: Sequence[str], job: _Job) -> _Attempt:
    text = "\n".join(outputs)
    if completed.cancelled:
        return _Attempt(False, text, (_stopped("the build was cancelled"),), "cancelled")
    if completed.timed_out:
        return _Attempt(False, text, (_stopped("the build ran out of time"),), "timeout")
    diagnostics = parse_diagnostics(completed.output, job.files())
    if not any(item.severity == "error" for item in diagnostics):
        last = completed.output.strip().splitlines()[-1:] or [f"exit status {completed.returncode}"]
        message = f"{Path(completed.command[0]).name} failed: {last[0]}"
        diagnostics = (Diagnostic(severity="error", message=message[:500]), *diagnostics)
        if completed.returncode < 0:  # killed from outside, for example for memory: not the candidate's for good
            return _Attempt(False, text, diagnostics, "killed")
    return _Attempt(False, text, diagnostics)


def _stopped(message: str) -> Diagnostic:
    return Diagnostic(severity="error", message=message, code="stopped")


def _failed(spec: ExtensionSpec, target: str, diagnostics: Sequence[Diagnostic]) -> ExtensionBuild:
    return ExtensionBuild(name=spec.name, ok=False, target=target, diagnostics=tuple(diagnostics))
