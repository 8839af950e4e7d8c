"""What ``stitchcuda rag`` shows: progress with an estimate on stderr, hits and tables on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stitchcuda.cli.output import add_row, new_table, note, print_json, stdout_console

if TYPE_CHECKING:
    from stitchcuda.rag_index import Hit, IndexStats, Score

__all__ = ["Bar", "show_hits", "show_scores", "show_stats"]

PREVIEW_LINES = 12
PLAIN_EVERY_S = 5.0
LIVE_EVERY_S = 0.1
LEAST_FOR_ESTIMATE_S = 0.5


class Bar:
    """One line per stage, rewritten in place on a terminal, repeated every few seconds elsewhere.

    Nothing is shown of a stage that ends within the first interval: a quick command stays silent.
    """

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._stage = ""
        self._started_s = self._shown_s = 0.0
        self._open = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self.end()
            self._stage, self._started_s, self._shown_s = stage, now, now
        if now - self._shown_s < (LIVE_EVERY_S if self._live else PLAIN_EVERY_S):
            return
        self._shown_s = now
        line = describe(stage, done, total, now - self._started_s)
        if self._live:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
            self._open = True
        else:
            note(line)

    def end(self) -> None:
        """Clear the line; the next words on stderr begin at its start."""
        if self._open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._open = False
        self._stage = ""


def describe(stage: str, done: int, total: int, passed_s: float) -> str:
    """``reading: 40 %, about 12 s left``; only the amount where the total is unknown."""
    if total <= 0:
        return f"{stage}: {done / 2**20:.1f} MiB"
    share = min(1.0, done / total)
    line = f"{stage}: {share:.0%}"
    if share > 0 and passed_s >= LEAST_FOR_ESTIMATE_S:
        line += f", about {max(1, round(passed_s * (1 - share) / share))} s left"
    return line


def show_hits(hits: Sequence[Hit], *, full: bool) -> None:
    """Each hit with its heading path, its ranks, its text and where to read on."""
    from stitchcuda.rag_index import reference_link

    for number, hit in enumerate(hits, start=1):
        lines = hit.text.strip().splitlines()
        shown = lines if full else lines[:PREVIEW_LINES]
        ranks = [("words", hit.lexical_rank), ("likeness", hit.vector_rank)]
        found = ", ".join(f"{name} rank {rank}" for name, rank in ranks if rank)
        version = f", toolkit {hit.toolkit}" if hit.toolkit else ""
        print(f"{number}. {hit.citation}")
        print(f"   {hit.source}{version}; score {hit.score:.4f} ({found})")
        print("\n".join(f"   {line}" for line in shown))
        if len(shown) < len(lines):
            print(f"   … {len(lines) - len(shown)} more lines, shown by --full")
        for reference in hit.references:
            link = reference_link(reference)
            print(f"   see {reference}" + (f" <{link}>" if link else ""))
        if hit.link:
            print(f"   at {hit.link}")
        print()


def show_stats(stats: IndexStats, as_json: bool) -> None:
    """What the index holds."""
    if as_json:
        print_json(stats.model_dump(mode="json"))
        return
    for problem in stats.problems:
        note(problem)
    freshness = ", an older version (see above)" if stats.stale else ""
    print(f"{stats.chunks} passages of {stats.pages} pages, {stats.mode} search ({stats.store} store){freshness}")
    for name, source in stats.sources.items():
        version = f", toolkit {source['toolkit']}" if source["toolkit"] else ""
        print(f"  {name}: {source['chunks']} passages of {source['pages']} pages{version}")
    print(f"in {stats.folder}")


def show_scores(scores: Sequence[Score], *, missed: bool) -> None:
    """The table of ``rag eval``."""
    table = new_table("part", "questions", "search", "recall@1", "recall@5", "MRR")
    names = {"vector": "vectors", "lexical": "BM25", "hybrid": "hybrid"}
    for score in scores:
        numbers = [f"{value:.3f}" for value in (score.recall_at_1, score.recall_at_5, score.mrr)]
        add_row(table, score.part, str(score.questions), names[score.mode], *numbers)
    stdout_console().print(table)
    if missed:
        for score in scores:
            if score.mode == "hybrid":
                for text in score.missed:
                    print(f"missed ({score.part}): {text}")
