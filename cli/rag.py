"""``stitchcuda rag``: the documentation index. Thin: the work is in ``rag_index``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from stitchcuda.cli.options import AsJson
from stitchcuda.cli.output import NOT_SOLVED, command, note, print_json

if TYPE_CHECKING:
    from stitchcuda.rag_index import DocsIndex, IndexStats

__all__ = ["app"]

PREVIEW_LINES = 12

app = typer.Typer(help="Build and search the index of CUDA documentation.", no_args_is_help=True)


@app.command(name="build")
@command
def build_command(as_json: AsJson = False) -> None:
    """Build the index, or bring it up to date; does nothing when nothing has changed."""
    with _open() as index:
        _show_stats(index.stats(), as_json)


@app.command(name="stats")
@command
def stats_command(as_json: AsJson = False) -> None:
    """Show what the index holds and how it serves."""
    with _open() as index:
        _show_stats(index.stats(), as_json)


@app.command(name="query")
@command
def query_command(
    text: Annotated[str, typer.Argument(help="A question, an error message, an identifier.")],
    count: Annotated[int, typer.Option("-k", help="At most this many passages.", min=1, metavar="N")] = 5,
    full: Annotated[bool, typer.Option("--full", help="Show passages whole, not only their first lines.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the index. Ends with 1 if nothing fits."""
    with _open() as index:
        hits = index.query(text, k=count)
        problems = index.stats().problems
    for problem in problems:
        note(problem)
    if as_json:
        print_json({"query": text, "hits": [hit.model_dump(mode="json") for hit in hits]})
    else:
        for number, hit in enumerate(hits, start=1):
            lines = hit.text.strip().splitlines()
            shown = lines if full else lines[:PREVIEW_LINES]
            print(f"{number}. {hit.citation}")
            print("\n".join(f"   {line}" for line in shown))
            if len(shown) < len(lines):
                print(f"   … {len(lines) - len(shown)} more lines, shown by --full")
            for reference in hit.references:
                print(f"   see {reference}")
            print()
        if not hits:
            note("nothing in the index fits")
    if not hits:
        raise typer.Exit(NOT_SOLVED)


def _open() -> DocsIndex:
    from stitchcuda.core.environment import Environment
    from stitchcuda.rag_index import DocsIndex

    return DocsIndex.open(Environment().cache_dir / "docs", progress=_progress())


def _progress(every: int = 10) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        if done == total or done % every == 0:
            note(f"indexing: {done} of {total} pages")

    return show


def _show_stats(stats: IndexStats, as_json: bool) -> None:
    if as_json:
        print_json(stats.model_dump(mode="json"))
        return
    for problem in stats.problems:
        note(problem)
    freshness = ", an older version (see above)" if stats.stale else ""
    print(f"{stats.chunks} passages of {stats.pages} pages, {stats.mode} search{freshness}")
    print(f"in {stats.folder}")
