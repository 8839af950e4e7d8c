"""Compare two batches: what each solves, and how much faster where both do. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.bench.records import BatchResult, Listed
from stitchcuda.bench.scores import Scores, geometric_mean, score
from stitchcuda.core.records import Record

__all__ = ["ComparedProblem", "Comparison", "compare"]

Pairs = Sequence[tuple[Listed, BatchResult | None]]


class ComparedProblem(Record):
    slug: str
    status_a: str
    status_b: str
    speedup_a: float | None
    speedup_b: float | None

    @property
    def ratio(self) -> float | None:
        """How many times as fast B's candidate is as A's; ``None`` unless both passed and were timed."""
        return self.speedup_b / self.speedup_a if self.speedup_a and self.speedup_b else None

    @property
    def change(self) -> str:
        """``gained``, ``lost``, or ``same``, as far as passing goes."""
        a, b = self.status_a == "passed", self.status_b == "passed"
        return "same" if a == b else ("gained" if b else "lost")


class Comparison(Record):
    """B against A over the problems that are in both with the same source."""

    scores_a: Scores
    scores_b: Scores
    """Both over the shared problems only."""
    problems: tuple[ComparedProblem, ...]
    gained: int
    lost: int
    geomean_ratio: float | None
    """Of B's speed-up to A's, over problems that both passed."""
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed: tuple[str, ...]
    """In both under one name, but with different source text; left out of everything else."""


def compare(a: Pairs, b: Pairs) -> Comparison:
    """Compare the problems that two batches share, by slug and source."""
    in_a = {problem.slug: (problem, result) for problem, result in a}
    in_b = {problem.slug: (problem, result) for problem, result in b}
    both = [slug for slug in in_a if slug in in_b]
    changed = tuple(slug for slug in both if in_a[slug][0].sha256 != in_b[slug][0].sha256)
    shared = [slug for slug in both if slug not in changed]
    problems = tuple(_compared(slug, in_a[slug][1], in_b[slug][1]) for slug in shared)
    return Comparison(
        scores_a=score([in_a[slug][1] for slug in shared]),
        scores_b=score([in_b[slug][1] for slug in shared]),
        problems=problems,
        gained=sum(problem.change == "gained" for problem in problems),
        lost=sum(problem.change == "lost" for problem in problems),
        geomean_ratio=geometric_mean(problem.ratio for problem in problems if problem.ratio is not None),
        only_a=tuple(slug for slug in in_a if slug not in in_b),
        only_b=tuple(slug for slug in in_b if slug not in in_a),
        changed=changed,
    )


def _compared(slug: str, a: BatchResult | None, b: BatchResult | None) -> ComparedProblem:
    return ComparedProblem(
        slug=slug,
        status_a=a.status if a else "owed",
        status_b=b.status if b else "owed",
        speedup_a=a.speedup if a else None,
        speedup_b=b.speedup if b else None,
    )
