"""``stitchcuda bench``: many problems with one configuration."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stitchcuda.cli import options
from stitchcuda.cli.output import NOT_SOLVED, SOLVED, command, note, print_json
from stitchcuda.core.errors import SettingsError

if TYPE_CHECKING:
    from stitchcuda.bench import Batch, BatchResult, Listed
    from stitchcuda.graph.context import Context

__all__ = ["bench_command"]


@command
def bench_command(
    sources: Annotated[list[Path] | None, typer.Argument(help="Problem files, and folders of them.")] = None,
    kernelbench: options.KernelBench = None,
    huggingface: options.HuggingFace = False,
    levels: Annotated[list[int] | None, typer.Option("--level", help="KernelBench level; repeat.", metavar="L")] = None,
    ids: Annotated[str | None, typer.Option(help="KernelBench ids, for example 1,3,5-9.", metavar="IDS")] = None,
    slice_text: Annotated[
        str | None, typer.Option("--slice", help="START:STOP of what is chosen.", metavar="SLICE")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--filter", help="Only names that contain or match this.", metavar="PATTERN")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most this many problems.", min=1, metavar="N")] = None,
    redo: Annotated[
        list[str] | None, typer.Option(help="Run problems of this status again; repeat.", metavar="STATUS")
    ] = None,
    device: options.Device = None,
    model: options.Model = None,
    planner: options.Planner = None,
    coder: options.Coder = None,
    verifier: options.Verifier = None,
    base_url: options.BaseUrl = None,
    policy: options.PolicyOption = None,
    max_attempts: options.MaxAttempts = None,
    max_replans: options.MaxReplans = None,
    max_seconds: options.MaxSeconds = None,
    max_tokens: options.MaxTokens = None,
    max_cost_usd: options.MaxCost = None,
    seed_embedded: options.SeedEmbedded = False,
    samples: options.Samples = None,
    no_cache: options.NoCache = False,
    reasoning_effort: options.ReasoningEffort = None,
    target_speedup: options.TargetSpeedup = None,
    trials: options.Trials = None,
    seed: options.Seed = None,
    settings: options.SettingsFile = None,
    assignments: options.SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Batch folder; naming an earlier one goes on with it.", metavar="DIR")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Solve many problems, one after the other; ^C saves, and the same command with --out goes on.

    Ends with 0 if every problem was solved, 1 if not, 2 for a wrong setting or no problem, 3 if a model
    or the machine failed for good, 130 if interrupted.
    """
    flags = options.flag_settings(
        assignments,
        device=device,
        model=model,
        planner=planner,
        coder=coder,
        verifier=verifier,
        base_url=base_url,
        policy=policy,
        max_attempts=max_attempts,
        max_replans=max_replans,
        max_seconds=max_seconds,
        max_tokens=max_tokens,
        max_cost_usd=max_cost_usd,
        seed_embedded=seed_embedded or None,
        samples=samples,
        cache_answers=False if no_cache else None,
        reasoning_effort=reasoning_effort,
        target_speedup=target_speedup,
        trials=trials,
        seed=seed,
    )
    from stitchcuda.bench import BatchFolder, prepare_batch, select
    from stitchcuda.cli.settings import resolve_settings
    from stitchcuda.tools.machine import choose_device

    chosen = select(
        sources or [],
        kernelbench=kernelbench,
        huggingface=huggingface,
        levels=levels or [],
        ids=ids,
        slice_text=slice_text,
        pattern=pattern,
        limit=limit,
    )
    context = resolve_settings(flags, settings)
    chosen_device, why_cpu = choose_device(context.device)
    folder = out or context.runs_dir / f"bench-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    if out is not None and out.is_file():
        raise SettingsError(f"--out {out} is a file; name a folder")
    with BatchFolder(folder).exclusive():
        batch = prepare_batch(chosen, context, folder, chosen_device, redo=redo or [])
        done = len(chosen) - len(batch.owed)
        cpu = f" ({why_cpu})" if why_cpu else ""
        note(f"{len(chosen)} problems on {chosen_device}{cpu}, {done} done before, batch folder {folder}")
        try:
            _run(batch, context)
        except KeyboardInterrupt:
            go_on = f"the same command with --out {shlex.quote(str(folder))} goes on"
            raise KeyboardInterrupt(f"interrupted; finished problems are saved: {go_on}") from None
        finally:
            _write_report(batch)
    _show(batch, as_json)


def _run(batch: Batch, context: Context) -> None:
    from stitchcuda.bench import Watcher, run_batch
    from stitchcuda.bench.report import ratio_text
    from stitchcuda.cli.progress import show_progress

    with show_progress() as progress:

        def begin(problem: Listed, number: int, total: int) -> None:
            progress.note(f"problem {number} of {total}: {problem.slug}")

        def end(problem: Listed, result: BatchResult) -> None:
            ratio = f", {ratio_text(result.speedup)}" if result.speedup is not None else ""
            why = "" if result.passed or not result.message else f": {result.message}"
            progress.keep(f"{problem.slug}: {result.status}{ratio} in {result.seconds:.1f} s{why}")

        run_batch(batch, context, Watcher(on_problem=begin, on_event=progress, on_result=end))


def _write_report(batch: Batch) -> Path:
    from stitchcuda.bench import render_report
    from stitchcuda.core.files import write_text

    text = render_report(batch.file, batch.folder.current(batch.file), batch.folder.path.name)
    return write_text(batch.folder.path / "report.md", text)


def _show(batch: Batch, as_json: bool) -> None:
    from stitchcuda.cli.report import batch_json, print_batch

    pairs = batch.folder.current(batch.file)
    if as_json:
        print_json(batch_json(batch.folder, batch.file, pairs))
    else:
        print_batch(pairs)
        print(f"report   {batch.folder.path / 'report.md'}")
    chosen = {one.listed.slug for one in batch.chosen}
    results = [result for problem, result in pairs if problem.slug in chosen]
    raise typer.Exit(SOLVED if all(result is not None and result.solved for result in results) else NOT_SOLVED)
