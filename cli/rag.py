"""``stitchcuda rag``: the documentation index. Thin: the work is in ``rag_index``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stitchcuda.cli.options import AsJson
from stitchcuda.cli.output import MACHINE_FAILED, NOT_SOLVED, command, note, print_json
from stitchcuda.cli.rag_output import Bar, show_hits, show_scores, show_stats

if TYPE_CHECKING:
    from stitchcuda.rag_index import DocsIndex

__all__ = ["app"]

app = typer.Typer(help="Build and search the index of CUDA documentation.", no_args_is_help=True)


@app.command(name="build")
@command
def build_command(
    headers: Annotated[
        bool | None,
        typer.Option("--headers/--no-headers", help="Index the installed toolkit's headers.", show_default="if found"),
    ] = None,
    include: Annotated[
        Path | None, typer.Option(help="Include folder of the toolkit, instead of the one found.", metavar="DIR")
    ] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(help="Also index a folder of Markdown, HTML and PDF; remembered.", metavar="DIR"),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Forget an added folder.", metavar="NAME")] = None,
    as_json: AsJson = False,
) -> None:
    """Build the index, or bring it up to date; does nothing when nothing has changed.

    Covers our notes, what `rag fetch` has fetched, the toolkit's headers, and the folders given by --add.
    """
    from stitchcuda.core.environment import Environment
    from stitchcuda.rag_index import change_choice

    environment = Environment()
    lines = change_choice(
        environment.cache_dir / "docs",
        headers=headers,
        include=include,
        cuda_home=environment.cuda_home,
        add=add or (),
        remove=remove or (),
    )
    for line in lines:
        note(line)
    with _open() as index:
        show_stats(index.stats(), as_json)


@app.command(name="stats")
@command
def stats_command(as_json: AsJson = False) -> None:
    """Show what the index holds and how it serves."""
    with _open() as index:
        show_stats(index.stats(), as_json)


@app.command(name="query")
@command
def query_command(
    text: Annotated[str, typer.Argument(help="A question, an error message, an identifier.")],
    count: Annotated[int, typer.Option("-k", help="At most this many passages.", min=1, metavar="N")] = 5,
    source: Annotated[list[str] | None, typer.Option(help="Only from this source.", metavar="NAME")] = None,
    architecture: Annotated[
        list[str] | None, typer.Option("--arch", help="Leave out what only holds for others.", metavar="SM")
    ] = None,
    toolkit: Annotated[
        list[str] | None, typer.Option(help="Leave out other toolkit versions.", metavar="VERSION")
    ] = None,
    mode: Annotated[
        Literal["hybrid", "lexical", "vector"], typer.Option(help="Both rankings, or one alone.")
    ] = "hybrid",
    full: Annotated[bool, typer.Option("--full", help="Show passages whole, not only their first lines.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search the index. Ends with 1 if nothing fits."""
    filters = {"source": source, "architecture": architecture, "toolkit": toolkit}
    where = {name: values for name, values in filters.items() if values}
    with _open() as index:
        hits = index.query(text, k=count, where=where, mode=mode)
        problems = index.stats().problems
    for problem in problems:
        note(problem)
    if as_json:
        print_json({"query": text, "filters": where, "hits": [hit.model_dump(mode="json") for hit in hits]})
    else:
        show_hits(hits, full=full)
    if not hits:
        note("nothing in the index fits")
        raise typer.Exit(NOT_SOLVED)


@app.command(name="fetch")
@command
def fetch_command(
    keys: Annotated[list[str] | None, typer.Argument(help="Keys of sources.toml; all when left out.")] = None,
    sources: Annotated[Path | None, typer.Option(help="Another list of documents.", metavar="FILE")] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask for newer versions of fetched documents.")] = False,
    most_mib: Annotated[float, typer.Option("--max-mib", help="Limit of one document.", metavar="MIB")] = 64.0,
    as_json: AsJson = False,
) -> None:
    """Fetch the official documents into the cache; `rag build` then indexes them. Ends with 3 if one fails.

    They stay on this machine: they are their publishers' property. Stopped or broken downloads go on where they ended.
    """
    from stitchcuda.core.environment import Environment
    from stitchcuda.nvidia_docs import SOURCES_FILE
    from stitchcuda.rag_index import FetchResult, fetch_documents, read_documents

    documents = read_documents(sources or SOURCES_FILE)
    bar = Bar()

    def report(result: FetchResult) -> None:
        bar.end()
        size = f"{result.size_bytes / 1024:.0f} KiB"
        note(result.problem if result.status == "failed" else f"{result.status}: {result.key}, {size}, {result.url}")

    results = fetch_documents(
        Environment().cache_dir / "docs",
        documents,
        only=keys or (),
        refresh=refresh,
        most_bytes=int(most_mib * 2**20),
        report=report,
        tick=lambda url, done, total: bar(f"fetching {url}", done, total),
    )
    counts = {status: sum(r.status == status for r in results) for status in ("fetched", "kept", "failed")}
    if as_json:
        print_json({"counts": counts, "results": [result.model_dump(mode="json") for result in results]})
    else:
        print(f"{counts['fetched']} fetched, {counts['kept']} kept, {counts['failed']} failed")
    if counts["failed"]:
        raise typer.Exit(MACHINE_FAILED)


@app.command(name="eval")
@command
def eval_command(
    questions: Annotated[Path | None, typer.Option(help="Another question set.", metavar="FILE")] = None,
    missed: Annotated[bool, typer.Option("--missed", help="List the questions that the hybrid search misses.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the search on the question set: vectors alone, BM25 alone, both together.

    Settings are chosen on the part `tune`; `report` is kept apart.
    """
    from stitchcuda.rag_index import QUESTIONS_FILE, evaluate, read_questions

    bar = Bar()
    with _open() as index:
        scores = evaluate(index, read_questions(questions or QUESTIONS_FILE), lambda a, b: bar("asking", a, b))
        bar.end()
        stats = index.stats()
    if as_json:
        rows = [score.model_dump(mode="json") for score in scores]
        print_json({"scores": rows, "sources": stats.sources, "embedding": stats.embedding})
    else:
        show_scores(scores, missed=missed)


def _open() -> DocsIndex:
    from stitchcuda.core.environment import Environment
    from stitchcuda.rag_index import DocsIndex

    environment = Environment()
    bar = Bar()
    try:
        return DocsIndex.open(environment.cache_dir / "docs", chroma_url=environment.chroma_url, progress=bar)
    finally:
        bar.end()
