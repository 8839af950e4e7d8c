"""How well the index finds the right passage: a question set, and recall and rank of each way of searching.

The questions are our own; ``part`` keeps a third of them apart: settings are chosen on ``tune``, and ``report`` only
says what they are worth on questions that nobody looked at.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from stitchcuda.core.errors import RetrievalError, one_line
from stitchcuda.core.records import Record
from stitchcuda.rag_index.index import DocsIndex
from stitchcuda.rag_index.search import Hit, Mode

__all__ = ["QUESTIONS_FILE", "Question", "Score", "evaluate", "read_questions"]

QUESTIONS_FILE = Path(__file__).resolve().parent / "questions.toml"
DEPTH = 20
"""Ranks beyond it count as not found."""
MODES: tuple[Mode, ...] = ("vector", "lexical", "hybrid")
PARTS = ("tune", "report")


class Question(Record):
    """A question and the passages that answer it."""

    text: str
    answers: tuple[str, ...]
    """Pages or sections, as ``page`` or ``page › heading``; any one of them is right."""
    kind: Literal["error", "bottleneck", "api", "how-to"]
    part: Literal["tune", "report"]
    source: str = "notes"
    """Where the answers are; a question is left out when the index has no such source."""


class Score(Record):
    """One row of the table."""

    mode: Mode
    part: str
    questions: int
    recall_at_1: float
    recall_at_5: float
    mrr: float
    """Mean of 1 / rank of the first right passage, 0 beyond rank 20."""
    missed: tuple[str, ...]
    """The questions without a right passage among the first five."""


def read_questions(path: Path = QUESTIONS_FILE) -> list[Question]:
    """The question set.

    Raises:
        RetrievalError: The file is missing or not of the right form.
    """
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
        return [Question.model_validate(row) for row in rows]
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise RetrievalError(f"{path} cannot be used: {one_line(error)}") from error


def evaluate(
    index: DocsIndex, questions: Sequence[Question], progress: Callable[[int, int], None] | None = None
) -> list[Score]:
    """The table: each way of searching over each part of the questions that the index has sources for.

    Raises:
        RetrievalError: The index has no vector store, or there is no question for its sources.
    """
    sources = index.stats().sources
    asked = [question for question in questions if question.source in sources]
    if not asked:
        raise RetrievalError("none of the questions is about a source of this index")
    ranks: dict[tuple[Mode, str], list[tuple[Question, int]]] = {}
    for number, question in enumerate(asked, start=1):
        for mode in MODES:
            hits = index.query(question.text, k=DEPTH, mode=mode)
            ranks.setdefault((mode, question.part), []).append((question, _rank(hits, question)))
        if progress is not None:
            progress(number, len(asked))
    return [_score(mode, part, ranks[mode, part]) for part in PARTS for mode in MODES if (mode, part) in ranks]


def _rank(hits: Sequence[Hit], question: Question) -> int:
    """Rank of the first right hit, from 1; 0 when there is none."""
    for rank, hit in enumerate(hits, start=1):
        if hit.source == question.source and any(_answers(hit, answer) for answer in question.answers):
            return rank
    return 0


def _answers(hit: Hit, answer: str) -> bool:
    page, _, heading = answer.partition(" › ")
    return hit.page == page and (not heading or heading in hit.headings)


def _score(mode: Mode, part: str, rows: Sequence[tuple[Question, int]]) -> Score:
    ranks = [rank for _, rank in rows]
    return Score(
        mode=mode,
        part=part,
        questions=len(rows),
        recall_at_1=round(sum(rank == 1 for rank in ranks) / len(rows), 4),
        recall_at_5=round(sum(0 < rank <= 5 for rank in ranks) / len(rows), 4),
        mrr=round(sum(1 / rank for rank in ranks if rank) / len(rows), 4),
        missed=tuple(question.text for question, rank in rows if not 0 < rank <= 5),
    )
