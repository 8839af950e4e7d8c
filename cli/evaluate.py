"""``stitchcuda eval``: the whole verdict on one candidate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stitchcuda.cli import options
from stitchcuda.cli.output import MACHINE_FAILED, NOT_SOLVED, SOLVED, command, note, print_json
from stitchcuda.core.errors import SettingsError

if TYPE_CHECKING:
    from stitchcuda.core.records import Evaluation
    from stitchcuda.graph.context import Context
    from stitchcuda.problems import Problem

__all__ = ["eval_command"]

REDUCE_TIMEOUT_S = 300.0


@command
def eval_command(
    problem: Annotated[Path, typer.Argument(help="The reference: a problem file in KernelBench's format.")],
    candidate: Annotated[Path, typer.Argument(help="The candidate: a Python file that defines ModelNew.")],
    device: options.Device = None,
    policy: options.PolicyOption = None,
    trials: options.Trials = None,
    seed: options.Seed = None,
    settings: options.SettingsFile = None,
    assignments: options.SetOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Build, screen, check, time and profile one candidate against its reference.

    Ends with 0 if it passed, 1 if not, 2 for a wrong setting or problem, 3 if the machine is at fault.
    """
    from stitchcuda.cli.settings import resolve_settings
    from stitchcuda.problems import load_problem

    flags = options.flag_settings(assignments, device=device, policy=policy, trials=trials, seed=seed)
    context = resolve_settings(flags, settings)
    loaded = load_problem(problem)
    evaluation = _evaluate(loaded, _read_candidate(candidate), context)
    if as_json:
        print_json(
            {
                "status": evaluation.status.value,
                "reasons": list(evaluation.reasons),
                "speedup": evaluation.speedup,
                "candidate": str(candidate),
                "problem": loaded.name,
                "device": evaluation.device,
                "evaluation": evaluation.model_dump(mode="json"),
            }
        )
    else:
        for line in verdict_lines(evaluation):
            print(line)
    if evaluation.status.value == "machine_error":
        raise typer.Exit(MACHINE_FAILED)
    raise typer.Exit(SOLVED if evaluation.passed else NOT_SOLVED)


def _read_candidate(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"candidate {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"candidate {path} is not UTF-8 text: {error}") from error


def _evaluate(problem: Problem, source: str, context: Context) -> Evaluation:
    from stitchcuda.core.environment import Environment
    from stitchcuda.tools import Evaluator, EvaluatorSettings
    from stitchcuda.tools.machine import choose_device

    device, why_cpu = choose_device(context.device)
    note(f"evaluating on {device}" + (f" ({why_cpu})" if why_cpu else ""))
    from stitchcuda.nodes.sizes import sizes_for

    sizes, problem = sizes_for(device, problem)
    settings = EvaluatorSettings(
        device=device,
        policy=context.policy,
        trials=context.trials,
        seed=context.seed,
        build_timeout_s=context.build_timeout_s,
        call_timeout_s=context.call_timeout_s,
        timing_budget_s=context.timing_budget_s,
        cross_compile=context.cross_compile,
        cache_dir=Environment().cache_dir / "builds",
    )
    evaluator = Evaluator(problem.at(sizes), settings, sizes=sizes)
    # In a thread, because only a call from outside can kill what a stage has started.
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            verdict: Evaluation = pool.submit(evaluator.evaluate, source).result()
            return verdict
        except KeyboardInterrupt:
            evaluator.cancel()
            raise KeyboardInterrupt("interrupted; nothing of the evaluation is kept") from None
        finally:
            evaluator.close()


def verdict_lines(evaluation: Evaluation) -> list[str]:
    """The verdict for a person: one line for the whole, one for each stage that ran."""
    head = evaluation.status.value
    if evaluation.speedup is not None:
        head += f", {evaluation.speedup:.2f}x the speed of PyTorch eager"
    if evaluation.reasons:
        head += f" ({', '.join(evaluation.reasons)})"
    lines = [head + (f": {evaluation.message}" if evaluation.message else "")]
    if evaluation.build is not None:
        built = len(evaluation.build.extensions)
        cached = sum(extension.cached for extension in evaluation.build.extensions)
        state = "ok" if evaluation.build.ok else "failed"
        lines.append(f"  build   {state}: {built} extension(s), {cached} from the store")
        for extension in (*evaluation.build.extensions, *evaluation.build.cross_compiled):
            for diagnostic in extension.diagnostics:
                if diagnostic.severity == "error":
                    file = diagnostic.file or "candidate"
                    where = f"{file}:{diagnostic.line}: " if diagnostic.line is not None else ""
                    lines.append(f"          {extension.target}: {where}{diagnostic.message}")
    if evaluation.screen is not None:
        lines += [f"  screen  {found.severity} {found.rule}: {found.message}" for found in evaluation.screen.findings]
    if (check := evaluation.check) is not None:
        worst = max(
            (output.max_abs_error for output in check.outputs if output.max_abs_error is not None), default=None
        )
        error = f", largest error {worst:.3g}" if worst is not None else ""
        launches = "" if check.own_kernel_launches is None else f", {check.own_kernel_launches} own launches per call"
        lines.append(f"  check   {check.status.value}: {check.trials} trial(s){error}{launches}")
    if (timing := evaluation.timing) is not None:
        for baseline in timing.baselines:
            interval = f"{baseline.speedup_low:.2f} to {baseline.speedup_high:.2f}"
            lines.append(
                f"  time    {timing.candidate.median_ms:.4g} ms against {baseline.stats.median_ms:.4g} ms "
                f"{baseline.name}: {baseline.speedup:.2f}x ({interval})"
            )
    elif evaluation.passed:
        lines.append(f"  time    not on {evaluation.device}: only a GPU is timed")
    lines.append(f"  on {evaluation.device}, {evaluation.sizes} sizes, policy {evaluation.policy}")
    return lines
