"""``stitchcuda report``: a run, a batch, or two batches compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stitchcuda.cli import options
from stitchcuda.cli.output import add_row, command, new_table, print_json, stdout_console
from stitchcuda.core.errors import SettingsError, boundary

if TYPE_CHECKING:
    from stitchcuda.bench import BatchFile, BatchFolder, BatchResult, Comparison, Listed

    Pairs = Sequence[tuple[Listed, BatchResult | None]]

__all__ = ["batch_json", "print_batch", "report_command"]


@command
def report_command(
    first: Annotated[Path, typer.Argument(help="A run folder or a batch folder.", metavar="A")],
    second: Annotated[Path | None, typer.Argument(help="A batch to compare with A.", metavar="[B]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the Markdown; in A (or B) if not given.", metavar="FILE")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a run or a batch, or compare two batches, and write report.md (comparison.md for two)."""
    from stitchcuda.bench import BatchFolder

    if second is not None:
        _report_comparison(BatchFolder(first), BatchFolder(second), out, as_json)
    elif (first / "batch.json").exists():
        _report_batch(BatchFolder(first), out, as_json)
    elif (first / "run.json").exists():
        _report_run(first, as_json)
    else:
        raise SettingsError(f"{first} is neither a run folder (run.json) nor a batch folder (batch.json)")


def batch_json(folder: BatchFolder, batch: BatchFile, pairs: Pairs) -> dict[str, Any]:
    """A batch as one JSON object."""
    from stitchcuda.bench import score

    return {
        "batch": str(folder.path),
        "device": batch.device,
        "settings": batch.settings,
        "scores": score([result for _, result in pairs]).model_dump(mode="json"),
        "problems": [
            {
                **problem.model_dump(mode="json"),
                "run_dir": str(folder.run_dir(problem)),
                "result": result.model_dump(mode="json") if result else None,
            }
            for problem, result in pairs
        ],
    }


def print_batch(pairs: Pairs) -> None:
    """The batch as tables on stdout."""
    from stitchcuda.bench import score
    from stitchcuda.bench.report import ratio_text, share_text

    scores = score([result for _, result in pairs])
    table = new_table("problem", "status", "speed-up", "attempts", "seconds", "what")
    for problem, result in pairs:
        if result is None:
            add_row(table, problem.slug, "owed", "–", "", "", "")
            continue
        what = " ".join((*result.reasons, result.message)).strip()
        row = (result.status, ratio_text(result.speedup), str(result.attempts), f"{result.seconds:.1f}", what)
        add_row(table, problem.slug, *row)
    stdout_console().print(table)
    counts = ", ".join(f"{count} {status}" for status, count in scores.counts.items())
    print(f"\n{scores.problems} problems: {counts}")
    if scores.passed and not scores.timed:
        print("nothing was timed: only a GPU is timed, so there is no speed-up to score")
        return
    print("  ".join(f"fast_{p} {share_text(value)}" for p, value in scores.fast_p.items()))
    print(
        f"geometric mean {ratio_text(scores.geomean_passed)} over {scores.timed} passed and timed, "
        f"{ratio_text(scores.geomean_all)} over {scores.timed + scores.failed} with failures as 1.0x"
    )


def _report_batch(folder: BatchFolder, out: Path | None, as_json: bool) -> None:
    from stitchcuda.bench import render_report

    batch = folder.read()
    pairs = folder.current(batch)
    path = _write(out or folder.path / "report.md", render_report(batch, pairs, folder.path.resolve().name))
    if as_json:
        print_json({**batch_json(folder, batch, pairs), "report": str(path)})
    else:
        print_batch(pairs)
        print(f"report   {path}")


def _report_comparison(a: BatchFolder, b: BatchFolder, out: Path | None, as_json: bool) -> None:
    from stitchcuda.bench import compare, render_comparison

    comparison = compare(a.current(a.read()), b.current(b.read()))
    text = render_comparison(comparison, str(a.path), str(b.path))
    path = _write(out or b.path / "comparison.md", text)
    if as_json:
        print_json({"a": str(a.path), "b": str(b.path), "report": str(path), **comparison.model_dump(mode="json")})
    else:
        _print_comparison(comparison)
        print(f"report   {path}")


def _print_comparison(comparison: Comparison) -> None:
    from stitchcuda.bench.report import ratio_text, share_text

    table = new_table("problem", "A", "B", "A speed-up", "B speed-up", "B / A", "change")
    for one in comparison.problems:
        ratios = [ratio_text(value) for value in (one.speedup_a, one.speedup_b, one.ratio)]
        add_row(table, one.slug, one.status_a, one.status_b, *ratios, one.change)
    stdout_console().print(table)
    a, b = comparison.scores_a, comparison.scores_b
    print(f"\n{a.problems} shared problems: {comparison.gained} gained, {comparison.lost} lost")
    print("  ".join(f"fast_{p} {share_text(a.fast_p[p])} -> {share_text(b.fast_p[p])}" for p in a.fast_p))
    print(f"B is {ratio_text(comparison.geomean_ratio)} as fast as A where both passed (geometric mean)")


def _report_run(folder: Path, as_json: bool) -> None:
    from stitchcuda.cli.run_view import attempt_table, plan_lines, read_run

    run = read_run(folder)
    if as_json:
        print_json(run.model_dump(mode="json"))
        return
    console = stdout_console()
    print(f"{run.problem}: {_run_verdict(run.result)}")
    for line in plan_lines(run):
        print(line)
    console.print(attempt_table(run))
    print(f"best     {run.best or 'none'}")
    print(f"report   {run.report or 'not written yet: the run is not finished'}")


def _run_verdict(result: dict[str, Any] | None) -> str:
    if result is None:
        return "not finished"
    speedup = result.get("speedup")
    return str(result.get("status")) + (f", {speedup:.2f}x" if isinstance(speedup, float) else "")


def _write(path: Path, text: str) -> Path:
    from stitchcuda.core.files import write_text

    with boundary(SettingsError, f"cannot write {path}", OSError):
        return write_text(path, text)
