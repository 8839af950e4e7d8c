"""``stitchcuda solve``: one problem through the graph."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stitchcuda.cli import options
from stitchcuda.cli.output import MACHINE_FAILED, NOT_SOLVED, SOLVED, command, note, print_json
from stitchcuda.core.errors import SettingsError

if TYPE_CHECKING:
    from stitchcuda.graph.context import Context
    from stitchcuda.graph.solve import SolveResult
    from stitchcuda.problems import Problem

__all__ = ["solve_command"]

PLAN_REVIEW = "plan_review"
"""Stop reason of a run that waits for a person; the next ``--resume`` takes the plan as it then is."""


@command
def solve_command(
    problem: Annotated[Path | None, typer.Argument(help="A problem file in KernelBench's format.")] = None,
    kernelbench: options.KernelBench = None,
    huggingface: options.HuggingFace = False,
    level: options.Level = None,
    number: Annotated[int | None, typer.Option("--id", help="KernelBench problem id.", metavar="N")] = None,
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
    out: Annotated[Path | None, typer.Option(help="Run folder; a new one under runs/ if not given.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.", metavar="DIR")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also show the plan and what each attempt did.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Solve one problem: PROBLEM, or --kernelbench PATH --level L --id N.

    Ends with 0 if solved, 1 if nothing better than the reference was found, 2 for a wrong setting or
    problem, 3 if the machine lacks something or a model failed, 130 if interrupted.
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
    from stitchcuda.cli.problem_choice import choose_problem

    if resume is not None:
        if kernelbench or huggingface or level is not None or number is not None or out is not None:
            raise SettingsError("--resume names the run folder and its problem; leave out --out and the problem")
        chosen, context = _resumed(resume, problem, flags, settings)
        run_dir = resume
    else:
        chosen = choose_problem(problem, kernelbench=kernelbench, huggingface=huggingface, level=level, number=number)
        context = _fresh_context(flags, settings)
        run_dir = _fresh_run_dir(out, context, chosen)
    result = _run(chosen, context, run_dir, resume=resume is not None)
    if as_json:
        print_json(result.model_dump(mode="json"))
    else:
        if explain:
            _explain(Path(result.run_dir))
        _print_verdict(result)
    if result.status == "machine_error" and not result.solved:
        note(f"the machine failed; once it is mended, go on with: {resume_command(Path(result.run_dir))}")
        raise typer.Exit(MACHINE_FAILED)
    raise typer.Exit(SOLVED if result.solved else NOT_SOLVED)


def _fresh_context(flags: dict[str, Any], settings: Path | None) -> Context:
    from stitchcuda.cli.settings import resolve_settings

    return resolve_settings(flags, settings)


def _fresh_run_dir(out: Path | None, context: Context, problem: Problem) -> Path:
    from stitchcuda.nodes.run_folder import new_run_dir

    if out is None:
        return new_run_dir(context.runs_dir, problem.slug)
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out} is a file; name a folder")
    if (out / "run.json").exists():
        raise SettingsError(f"{out} holds a run: go on with it by --resume {shlex.quote(str(out))}, or name another")
    if out.is_dir() and any(out.iterdir()):
        raise SettingsError(f"--out {out} is not empty; name a new folder")
    return out


def _resumed(
    folder: Path, problem: Path | None, flags: dict[str, Any], settings: Path | None
) -> tuple[Problem, Context]:
    from stitchcuda.cli.settings import resolve_settings
    from stitchcuda.nodes.run_folder import RunFolder
    from stitchcuda.problems import load_problem

    run = RunFolder(folder)
    stored = run.read_settings()
    chosen = run.read_problem()
    if problem is not None and load_problem(problem).sha256 != chosen.sha256:
        raise SettingsError(f"{problem} is not the problem of the run in {folder}; leave it out, or start a new run")
    return chosen, resolve_settings(flags, settings, resumed=stored)


def _run(problem: Problem, context: Context, run_dir: Path, *, resume: bool) -> SolveResult:
    import asyncio

    from stitchcuda.bench.run_dirs import drop_if_never_begun
    from stitchcuda.cli.progress import show_progress
    from stitchcuda.graph.solve import solve
    from stitchcuda.tools.machine import choose_device

    device, why_cpu = choose_device(context.device)
    is_new = not run_dir.exists() or not any(run_dir.iterdir())
    note(f"{problem.name} on {device}" + (f" ({why_cpu})" if why_cpu else "") + f", run folder {run_dir}")
    try:
        with show_progress() as progress:
            return asyncio.run(solve(problem, context, run_dir=run_dir, resume=resume, on_event=progress))
    except KeyboardInterrupt:
        if not (run_dir / "run.json").exists():
            raise KeyboardInterrupt("interrupted before anything was saved") from None
        raise KeyboardInterrupt(f"interrupted; go on with: {resume_command(run_dir)}") from None
    finally:
        if is_new:
            drop_if_never_begun(run_dir)


def resume_command(run_dir: Path) -> str:
    """What to type to go on with a run."""
    return f"stitchcuda solve --resume {shlex.quote(str(run_dir))}"


def _explain(run_dir: Path) -> None:
    from stitchcuda.cli.output import stdout_console
    from stitchcuda.cli.run_view import attempt_table, plan_lines, read_run

    run = read_run(run_dir)
    console = stdout_console()
    for line in plan_lines(run):
        console.print(line, markup=False, soft_wrap=True)
    console.print(attempt_table(run))


def _print_verdict(result: SolveResult) -> None:
    """A few plain lines; paths stay whole on any terminal, so that they can be copied."""
    what = result.status
    if result.speedup is not None:
        what += f", {result.speedup:.2f}x the speed of PyTorch eager on {result.device}"
    elif result.status == "passed":
        what += f" on {result.device} (checked for correctness; the cpu device is not timed)"
    if result.reasons and result.status != "passed":
        what += f" ({', '.join(result.reasons)})"
    from stitchcuda.nodes.engines.protocols import Usage
    from stitchcuda.nodes.report import STOP_REASONS

    print(f"{result.problem}: {what}")
    if result.stop_reason == PLAN_REVIEW:
        print(f"waiting  for review: edit the last file in {Path(result.run_dir) / 'plans'} or leave it as it is")
        print(f"then     {resume_command(Path(result.run_dir))}")
        return
    plural = "" if result.attempts == 1 else "s"
    why = STOP_REASONS.get(result.stop_reason, result.stop_reason)
    print(f"stopped  after {result.attempts} attempt{plural}: {why}")
    usage = Usage(**result.usage, cost_usd=result.cost_usd, cached=result.cached)
    if usage.calls or usage.cached:
        print(f"models   {usage.told()}")
    print(f"best     {result.candidate or 'none: no candidate passed'}")
    print(f"report   {result.report or 'none'}")
