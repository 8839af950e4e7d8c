"""Split by problem, never by row, and keep near-duplicates on the same side.

Published sets leaked: rows of one problem, or of its renamed and resized twins, lay on both sides. Here problems whose
syntax trees are alike form a group, and a whole group goes to one side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from stitchcuda.core.records import Record
from stitchcuda.training.rows import Row
from stitchcuda.training.syntax import shingles

__all__ = ["Split", "problem_similarity", "split_by_problem"]

NEAR_DUPLICATE = 0.7
"""Jaccard similarity of shingles from which two problems are twins. The examples of this project reach 0.39 among each
other; one of them with other sizes has 1.0 to itself, with renamed attributes 0.8."""


class Split(Record):
    """Which side each problem is on."""

    side: dict[str, Literal["train", "heldout"]]
    """By problem digest."""
    groups: tuple[tuple[str, ...], ...]
    """Digests of problems that must stay together."""
    closest_across: float
    """Largest similarity of two problems on different sides; the leak report's figure."""


def problem_similarity(first: str, second: str) -> float:
    """Jaccard similarity of two references, 0 to 1."""
    return _jaccard(shingles(first), shingles(second))


def split_by_problem(rows: Iterable[Row], *, heldout_share: float = 0.2, seed: int = 0) -> Split:
    """Assign the problems of ``rows`` to a side, groups of near-duplicates as a whole.

    The side follows from a group's smallest digest and ``seed`` alone: new problems move only groups that they join.

    Args:
        rows: Kept rows, rejected ones, or both.
        heldout_share: Share of groups that is held out, 0 to 1; met on average, not exactly.
        seed: Another seed is another split.
    """
    if not 0 <= heldout_share <= 1:
        raise ValueError(f"heldout_share is {heldout_share}, not between 0 and 1")
    sets = {row.problem_sha256: shingles(row.reference) for row in rows}
    groups = _groups(sets)
    side: dict[str, Literal["train", "heldout"]] = {}
    for group in groups:
        drawn = int.from_bytes(hashlib.sha256(f"{seed}:{group[0]}".encode()).digest()[:8], "big") / 2**64
        for digest in group:
            side[digest] = "heldout" if drawn < heldout_share else "train"
    across = [
        _jaccard(sets[first], sets[second])
        for first in sets
        for second in sets
        if side[first] == "train" and side[second] == "heldout"
    ]
    return Split(side=side, groups=tuple(groups), closest_across=max(across, default=0.0))


def _groups(sets: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Connected components of "alike"; quadratic, which is fine for a few thousand problems."""
    parent = {digest: digest for digest in sets}

    def root(digest: str) -> str:
        while parent[digest] != digest:
            digest = parent[digest]
        return digest

    digests: Sequence[str] = sorted(sets)
    for index, first in enumerate(digests):
        for second in digests[index + 1 :]:
            if _jaccard(sets[first], sets[second]) >= NEAR_DUPLICATE:
                low, high = sorted((root(first), root(second)))
                parent[high] = low
    members: dict[str, list[str]] = {}
    for digest in digests:
        members.setdefault(root(digest), []).append(digest)
    return [tuple(group) for group in members.values()]


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = len(first | second)
    return len(first & second) / union if union else 1.0
