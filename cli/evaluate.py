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
    from stitchcuda.tools.timing.baselines import Baseline

__all__ = ["eval_command"]

REDUCE_TIMEOUT_S = 300.0


@command
def eval_command(
    problem: Annotated[Path, typer.Argument(help="The reference: a problem file in KernelBench's format.")],
    candidate: Annotated[Path, typer.Argument(help="The candidate: a Python file that defines ModelNew.")],
    device: options.Device = None,
    policy: options.PolicyOption = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="What to compare with on a GPU: eager, eager_tf32, compile_default, compile_reduce_overhead; may be "
            "repeated, the first one names the speed-up.",
            show_default="eager and eager_tf32",
            metavar="NAME",
        ),
    ] = None,
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
    evaluation = _evaluate(loaded, _read_candidate(candidate), context, _baselines(baseline))
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
        from stitchcuda.cli.verdict import verdict_lines

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


def _baselines(names: list[str] | None) -> tuple[Baseline, ...]:
    from stitchcuda.tools.timing.baselines import BASELINES

    chosen: list[Baseline] = []
    for name in names or ("eager", "eager_tf32"):
        known = next((baseline for baseline in BASELINES if baseline == name), None)
        if known is None:
            raise SettingsError(f"unknown baseline {name!r}: use {', '.join(BASELINES)}")
        if known not in chosen:
            chosen.append(known)
    return tuple(chosen)


def _evaluate(problem: Problem, source: str, context: Context, baselines: tuple[Baseline, ...]) -> Evaluation:
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
        baselines=baselines,
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
