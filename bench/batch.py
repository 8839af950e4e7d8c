"""Run a batch, one problem after the other.

Comes in: chosen problems, settings, a folder. Goes out: a result line per problem. What one problem does to
itself stays with it: an expected error becomes its status, an unexpected one is kept in its folder with the
traceback. ^C leaves the current run resumable; the same command goes on with the batch.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stitchcuda.bench.records import OWED_STATUSES, BatchFile, BatchResult, Listed
from stitchcuda.bench.results import BatchFolder
from stitchcuda.bench.run_dirs import drop_if_never_begun, has_run, move_aside
from stitchcuda.bench.selection import Selection
from stitchcuda.core.errors import ModelError, ProblemError, SettingsError, StitchError, one_line
from stitchcuda.core.files import write_text

if TYPE_CHECKING:
    from stitchcuda.graph.context import Context
    from stitchcuda.graph.solve import Event, SolveResult

__all__ = ["Batch", "prepare_batch", "run_batch"]

MODEL_ERRORS_TO_STOP = 3
"""Model errors in a row after which the endpoint, not the problem, is at fault for the rest too."""


@dataclass(frozen=True)
class Batch:
    """A prepared batch: where it lies and what is still to do."""

    folder: BatchFolder
    file: BatchFile
    chosen: tuple[Selection, ...]
    owed: tuple[Selection, ...]


@dataclass(frozen=True)
class Watcher:
    """Who is told about the batch's progress; every call is optional to act on."""

    on_problem: Callable[[Listed, int, int], None]
    """A problem begins: which, its number in this call, of how many."""
    on_event: Callable[[Event], None]
    on_result: Callable[[Listed, BatchResult], None]


def prepare_batch(
    chosen: Sequence[Selection], context: Context, out: Path, device: str, *, redo: Collection[str] = ()
) -> Batch:
    """Begin a batch, or go on with the one that lies in ``out``.

    Owed are the problems without a result, those whose outcome said nothing about them (``OWED_STATUSES``), those
    whose source has changed, and those whose status is in ``redo``; the earlier run of the last two is moved aside.

    Raises:
        SettingsError: ``out`` holds something else, or a batch with other settings.
    """
    folder = BatchFolder(out)
    settings = _comparable(context)
    if context.review_plan:
        raise SettingsError("review_plan waits for a person at every plan; it is for `solve`, not for a batch")
    if folder.exists:
        before = folder.read()
        _refuse_other_settings(out, before, settings, device)
        known = {problem.slug: problem for problem in before.problems}
        known.update({one.listed.slug: one.listed for one in chosen})
        file = before.model_copy(update={"problems": tuple(known.values())})
    else:
        if not folder.is_empty:
            raise SettingsError(f"--out {out} is there and holds no batch; name a new folder")
        file = BatchFile(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=importlib.metadata.version("stitchcuda"),
            device=device,
            settings=settings,
            problems=tuple(one.listed for one in chosen),
        )
    results = folder.results()
    owed: list[Selection] = []
    for one in chosen:
        result = results.get(one.listed.slug)
        changed = result is not None and result.sha256 != one.listed.sha256
        if result is None or changed or result.status in OWED_STATUSES or result.status in redo:
            owed.append(one)
            if changed or (result is not None and result.status in redo):
                move_aside(folder.run_dir(one.listed))
    folder.write(file)
    return Batch(folder=folder, file=file, chosen=tuple(chosen), owed=tuple(owed))


def run_batch(batch: Batch, context: Context, watcher: Watcher) -> None:
    """Run what is owed, in order; a result line is written as soon as a problem is finished.

    Raises:
        KeyboardInterrupt: the current run can be resumed; everything before it is on file.
        ModelError: the endpoint failed several problems in a row.
    """
    model_errors = 0
    for number, one in enumerate(batch.owed, start=1):
        watcher.on_problem(one.listed, number, len(batch.owed))
        result = _run_one(batch.folder, one, context, watcher)
        batch.folder.append(result)
        watcher.on_result(one.listed, result)
        model_errors = model_errors + 1 if result.status == "model_error" else 0
        if model_errors == MODEL_ERRORS_TO_STOP:
            raise ModelError(f"{model_errors} problems in a row ended with a model error; the last: {result.message}")


def _run_one(folder: BatchFolder, one: Selection, context: Context, watcher: Watcher) -> BatchResult:
    from stitchcuda.graph.solve import solve

    started = time.monotonic()
    if one.problem is None:
        return _ended(one.listed, started, status="problem_error", message=one.error)
    run_dir = folder.run_dir(one.listed)
    resume = has_run(run_dir)
    try:
        if not resume:
            drop_if_never_begun(run_dir)
        run = solve(one.problem, context, run_dir=run_dir, resume=resume, on_event=watcher.on_event)
        return _from_solve(one.listed, started, asyncio.run(run))
    except StitchError as error:
        return _ended(one.listed, started, status=_status_of(error), message=one_line(error))
    except Exception as error:  # noqa: BLE001  # a bug met by one problem must not lose the others; told and kept
        write_text(folder.path / "errors" / f"{one.listed.slug}.txt", traceback.format_exc())
        message = f"{type(error).__name__}: {one_line(error)} (traceback in errors/{one.listed.slug}.txt)"
        return _ended(one.listed, started, status="internal_error", message=message)


def _status_of(error: StitchError) -> str:
    if isinstance(error, ProblemError):
        return "problem_error"
    return "model_error" if isinstance(error, ModelError) else "machine_error"


def _from_solve(listed: Listed, started: float, result: SolveResult) -> BatchResult:
    return _ended(
        listed,
        started,
        status=result.status,
        solved=result.solved,
        speedup=result.speedup if result.status == "passed" else None,
        reasons=result.reasons,
        message=result.evaluation.message if result.evaluation is not None else "",
        stop_reason=result.stop_reason,
        attempts=result.attempts,
        usage=result.usage,
        cost_usd=result.cost_usd,
        cached=result.cached,
    )


def _ended(listed: Listed, started: float, **facts: Any) -> BatchResult:
    return BatchResult(
        slug=listed.slug,
        sha256=listed.sha256,
        seconds=round(time.monotonic() - started, 3),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
    )


def _comparable(context: Context) -> dict[str, Any]:
    """The settings that make two results of a batch comparable: all but where the folders lie."""
    return context.model_dump(mode="json", exclude={"run_dir", "runs_dir"})


def _refuse_other_settings(out: Path, before: BatchFile, settings: dict[str, Any], device: str) -> None:
    changed = [
        f"{name} {before.settings.get(name)!r} -> {value!r}"
        for name, value in settings.items()
        if name != "device" and before.settings.get(name) != value
    ]
    if before.device != device:
        changed.append(f"device {before.device!r} -> {device!r}")
    if changed:
        raise SettingsError(f"{out} is a batch with other settings ({', '.join(changed)}); name another --out")
