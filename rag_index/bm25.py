"""BM25 over token lists (Robertson, Zaragoza 2009, "The Probabilistic Relevance Framework"; k1 = 1.5, b = 0.75)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Bm25"]

K1 = 1.5
B = 0.75


class Bm25:
    """Scores every document of a fixed list against a query."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        lengths = np.array([len(document) for document in documents], dtype=np.float32)
        self._size = len(documents)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean()) if len(lengths) else 1.0))
        postings: dict[str, list[tuple[int, int]]] = {}
        for index, document in enumerate(documents):
            for token, count in Counter(document).items():
                postings.setdefault(token, []).append((index, count))
        self._weights: dict[str, tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]] = {}
        for token, rows in postings.items():
            where = np.array([row[0] for row in rows], dtype=np.int32)
            counts = np.array([row[1] for row in rows], dtype=np.float32)
            # The form with 1 + … stays positive for a token that is in more than half of the documents.
            idf = math.log(1 + (self._size - len(rows) + 0.5) / (len(rows) + 0.5))
            self._weights[token] = (where, (idf * counts * (K1 + 1) / (counts + norm[where])).astype(np.float32))

    def scores(self, query: Sequence[str]) -> npt.NDArray[np.float32]:
        """``float32[documents]``; zero where no token of the query occurs."""
        scores = np.zeros(self._size, dtype=np.float32)
        for token, times in Counter(query).items():
            if token in self._weights:
                where, weights = self._weights[token]
                # A word repeated in a long error text should not drown the others.
                scores[where] += weights * (1 + math.log(times))
        return scores
