"""``stitchcuda trace list|show|diff|grep``: look at run trees. Thin: the work is in ``traces``."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stitchcuda.cli.options import AsJson
from stitchcuda.cli.output import NOT_SOLVED, add_row, command, new_table, note, print_json, stdout_console
from stitchcuda.core.errors import SettingsError

if TYPE_CHECKING:
    from stitchcuda.traces.folders import FolderSummary
    from stitchcuda.traces.index import RunRow, TraceIndex

__all__ = ["RunDir", "app"]

app = typer.Typer(help="Inspect run trees: what each step was given, what it found, how long it took.")
RunDir = Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN_DIR")]
Limit = Annotated[int, typer.Option(help="At most this many lines; 0 for all.", min=0, metavar="N")]
Everything = Annotated[bool, typer.Option("--everything", help="Also the framework's own steps.")]
SortKey = Literal["path", "started", "status", "problem", "seconds", "tokens", "cost_usd", "speedup", "attempts"]


@app.command(name="list")
@command
def list_command(
    root: Annotated[Path, typer.Argument(help="A folder with run folders, or a run folder.", metavar="DIR")] = Path(
        "runs"
    ),
    status: Annotated[list[str] | None, typer.Option(help="Only this status; repeat.", metavar="STATUS")] = None,
    problem: Annotated[str | None, typer.Option(help="Only problems that contain this.", metavar="TEXT")] = None,
    min_speedup: Annotated[float | None, typer.Option(help="Only at least this ratio.", metavar="X")] = None,
    max_speedup: Annotated[float | None, typer.Option(help="Only at most this ratio.", metavar="X")] = None,
    min_seconds: Annotated[float | None, typer.Option(help="Only runs that took this long.", metavar="S")] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Only runs that took this many tokens.", metavar="N")] = None,
    min_cost: Annotated[float | None, typer.Option(help="Only runs that cost this much.", metavar="USD")] = None,
    sort: Annotated[SortKey, typer.Option(help="Order; the largest number or the newest first.")] = "path",
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """List run folders: status, ratio, attempts, time, tokens, cost where prices are known.

    Status is a candidate's, or unfinished. Ends with 1 if nothing fits.
    """
    from stitchcuda.traces.folders import find_run_folders, summarise

    def fits(one: FolderSummary) -> bool:
        ratio, seconds = one.speedup, one.seconds
        return (
            (not status or one.status in status)
            and (problem is None or problem.lower() in f"{one.level}_{one.id}_{one.problem}".lower())
            and (min_speedup is None or (ratio is not None and ratio >= min_speedup))
            and (max_speedup is None or (ratio is not None and ratio <= max_speedup))
            and (min_seconds is None or (seconds is not None and seconds >= min_seconds))
            and (min_tokens is None or one.tokens >= min_tokens)
            and (min_cost is None or (one.cost_usd is not None and one.cost_usd >= min_cost))
        )

    found = [one for one in map(summarise, find_run_folders(root)) if fits(one)]
    if sort in ("path", "status", "problem"):
        found.sort(key=lambda one: str(getattr(one, sort)))
    else:
        known = [one for one in found if getattr(one, sort) is not None]
        unknown = [one for one in found if getattr(one, sort) is None]
        found = sorted(known, key=lambda one: getattr(one, sort), reverse=True) + unknown
    shown = found[:limit] if limit else found
    if as_json:
        runs = [{**one.model_dump(mode="json"), "tokens": one.tokens} for one in shown]
        print_json({"folder": str(root), "count": len(found), "runs": runs})
    else:
        _print_folders(root, shown)
        _left_out(len(found) - len(shown))
    if not found:
        note(f"no run folder in {root} fits")
        raise typer.Exit(NOT_SOLVED)


def _print_folders(root: Path, folders: list[FolderSummary]) -> None:
    from stitchcuda.traces.draw import cost_text

    columns = ("problem", "status", "speed-up", "attempts", "seconds", "tokens", "cost", "stopped", "started", "folder")
    table = new_table(*columns)
    for one in folders:
        path = Path(one.path)
        add_row(
            table,
            one.problem,
            one.status,
            f"{one.speedup:.2f}x" if one.speedup is not None else "–",
            str(one.attempts) if one.attempts is not None else "",
            f"{one.seconds:.1f}" if one.seconds is not None else "",
            str(one.tokens) if one.tokens else "–",
            cost_text(one.cost_usd) if one.cost_usd is not None else "–",
            one.stop_reason,
            f"{one.started:%Y-%m-%d %H:%M}" if one.started else "",
            str(path.relative_to(root) if path.is_relative_to(root) and path != root else path),
        )
    stdout_console().print(table)


@app.command(name="show")
@command
def show_command(
    run_dir: RunDir,
    run: Annotated[
        str | None, typer.Option("--run", help="One run in full: its number, or (part of) its id.", metavar="ID")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only runs whose name contains this.", metavar="TEXT")] = None,
    kind: Annotated[str | None, typer.Option(help="Only chain, llm, tool or retriever runs.", metavar="KIND")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only success, error or unfinished runs.", metavar="STATUS")
    ] = None,
    slowest: Annotated[int | None, typer.Option(help="The N slowest runs.", min=1, metavar="N")] = None,
    depth: Annotated[int | None, typer.Option(help="Levels of the tree.", min=0, metavar="N")] = None,
    everything: Everything = False,
    limit: Limit = 500,
    as_json: AsJson = False,
) -> None:
    """Draw a run's tree with durations and the important value of each step, or one step in full (--run).

    With --name, --kind, --status or --slowest: a flat list. Ends with 1 if nothing fits.
    """
    from stitchcuda.traces.draw import Placed, is_plumbing, place, tree_line
    from stitchcuda.traces.index import TraceIndex

    with TraceIndex(run_dir) as index:
        if run is not None:
            _show_one(index, run, as_json)
            return
        rows = index.rows()
    if name is None and kind is None and status is None and slowest is None:
        drawn = place(rows, everything=everything, max_depth=depth)
        placed = list(islice(drawn, limit) if limit else drawn)
        if depth is None:
            count = sum(everything or not is_plumbing(row) for row in rows)
        else:
            count = len(placed) + sum(1 for _ in drawn)
    else:

        def fits(row: RunRow) -> bool:
            return (
                (everything or not is_plumbing(row))
                and (name is None or name in row.name)
                and (kind is None or row.run_type == kind)
                and (status is None or row.status == status)
            )

        chosen = sorted(filter(fits, rows), key=lambda row: row.number)
        if slowest is not None:
            chosen = sorted(chosen, key=lambda row: row.duration_s or 0.0, reverse=True)[:slowest]
        placed = [Placed(row, 0, "", 0) for row in (chosen[:limit] if limit else chosen)]
        count = len(chosen)
    if as_json:
        runs = [{**one.row.as_json(), "depth": one.depth} for one in placed]
        print_json({"run_dir": str(run_dir), "count": count, "in_trace": len(rows), "runs": runs})
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(tree_line(one)[:width] for one in placed))
        _left_out(count - len(placed))
    if not placed:
        note(f"no run in {run_dir} fits")
        raise typer.Exit(NOT_SOLVED)


def _show_one(index: TraceIndex, wanted: str, as_json: bool) -> None:
    from stitchcuda.traces.blobs import read_blobs
    from stitchcuda.traces.draw import full_text

    row = index.find(wanted)
    record = index.record(row)
    if record is None:
        raise SettingsError(
            f"{index.trace}: run {wanted} cannot be read; the file changed while it was read, try again"
        )
    if as_json:
        fields: dict[str, Any] = read_blobs(record.model_dump(mode="json"), index.run_dir)
        print_json({**row.as_json(), **fields})
    else:
        print(full_text(index, row, record))


@app.command(name="diff")
@command
def diff_command(
    run_dir: RunDir,
    a: Annotated[int | None, typer.Argument(help="An attempt; the last but one if not given.", metavar="[A]")] = None,
    b: Annotated[int | None, typer.Argument(help="Another; the last if not given.", metavar="[B]")] = None,
    only: Annotated[Literal["code", "plan", "verdict"] | None, typer.Option(help="Only this part.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two attempts: code, plan, verdict.

    Ends with 1 if nothing differs.
    """
    from stitchcuda.traces.attempts import diff_attempts, read_attempts
    from stitchcuda.traces.index import TraceIndex

    with TraceIndex(run_dir) as index:
        if b is None:
            ids = [attempt.candidate_id for attempt in read_attempts(index)]
            if len(ids) < 2:
                raise SettingsError(f"{run_dir} has {len(ids)} attempt{'s' * (len(ids) != 1)}; a diff needs two")
            a, b = (ids[-2], ids[-1]) if a is None else (a, ids[-1])
        assert a is not None
        found = diff_attempts(index, a, b)
    parts = {"code": found.code, "plan": found.plan, "verdict": found.verdict}
    if only is not None:
        parts = {only: parts[only]}
    if as_json:
        print_json({"a": a, "b": b, **parts})
    else:
        for title, text in parts.items():
            print(f"== {title}: {'the same' if not text else f'attempt {a} → {b}'}")
            if text:
                print(text)
    if not any(parts.values()):
        raise typer.Exit(NOT_SOLVED)


@app.command(name="grep")
@command
def grep_command(
    pattern: Annotated[str, typer.Argument(help="A regular expression.", metavar="PATTERN")],
    root: Annotated[Path, typer.Argument(help="A run folder, or a folder of them.", metavar="DIR")],
    fixed: Annotated[bool, typer.Option("-F", "--fixed", help="PATTERN is plain text.")] = False,
    ignore_case: Annotated[bool, typer.Option("-i", "--ignore-case", help="Upper or lower case alike.")] = False,
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """Search prompts, answers, sources, reports and errors. Each text is told once, where it first stands.

    Ends with 1 if nothing is found.
    """
    from stitchcuda.traces.draw import grep
    from stitchcuda.traces.folders import find_run_folders
    from stitchcuda.traces.index import TRACE_NAME, TraceIndex

    matches = _matcher(pattern, fixed, ignore_case)
    hits: list[dict[str, Any]] = []
    more = False
    for folder in find_run_folders(root):
        if more or not (folder / TRACE_NAME).is_file():
            continue
        with TraceIndex(folder) as index:
            for row, path, line in grep(index, matches):
                if limit and len(hits) >= limit:
                    more = True
                    break
                hit = {"run_dir": str(folder), "number": row.number, "name": row.name, "place": path, "line": line}
                hits.append(hit)
                if not as_json:
                    where = "" if folder == root else f"{folder.relative_to(root)} "
                    print(f"{where}#{row.number} {row.name} {path}: {line[:300]}")
    if as_json:
        print_json({"pattern": pattern, "complete": not more, "hits": hits})
    elif more:
        note(f"only the first {limit}; --limit 0 for all")
    if not hits:
        raise typer.Exit(NOT_SOLVED)


def _matcher(pattern: str, fixed: bool, ignore_case: bool) -> Callable[[str], bool]:
    try:
        expression = re.compile(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise SettingsError(f"{pattern!r} is no regular expression: {error}; -F takes it as plain text") from error
    return lambda line: expression.search(line) is not None


def _left_out(count: int) -> None:
    if count > 0:
        note(f"… {count} more; --limit 0 for all")
