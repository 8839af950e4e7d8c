"""BM25 over token lists (Robertson, Zaragoza 2009, "The Probabilistic Relevance Framework"; k1 = 1.5, b = 0.75).

Weights are computed once and lie in four arrays that load in milliseconds, sorted by token like an inverted file.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from stitchcuda.core.files import write_text

__all__ = ["Bm25"]

K1 = 1.5
B = 0.75


class Bm25:
    """Scores every document of a fixed list against a query."""

    def __init__(
        self,
        size: int,
        tokens: Sequence[str],
        starts: npt.NDArray[np.int64],
        where: npt.NDArray[np.int32],
        weights: npt.NDArray[np.float32],
    ) -> None:
        self._size = size
        self._tokens = {token: position for position, token in enumerate(tokens)}
        self._starts = starts
        self._where = where
        self._weights = weights

    @classmethod
    def of(cls, documents: Iterable[Sequence[str]]) -> Self:
        """The weights of ``documents``."""
        vocabulary: dict[str, int] = {}
        token_of, document_of, count_of, lengths_of = array("i"), array("i"), array("i"), array("i")
        for index, document in enumerate(documents):
            lengths_of.append(len(document))
            for token, count in Counter(document).items():
                token_of.append(vocabulary.setdefault(token, len(vocabulary)))
                document_of.append(index)
                count_of.append(count)
        lengths = np.array(lengths_of, dtype=np.float32)
        size = len(lengths)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean()) if size else 1.0))
        tokens = np.array(token_of, dtype=np.int32)
        order = np.argsort(tokens, kind="stable")
        where = np.array(document_of, dtype=np.int32)[order]
        counts = np.array(count_of, dtype=np.float32)[order]
        frequencies = np.bincount(tokens, minlength=len(vocabulary))
        # The form with 1 + … stays positive for a token that is in more than half of the documents.
        idf = np.log(1 + (size - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32)
        weights = (idf[tokens[order]] * counts * (K1 + 1) / (counts + norm[where])).astype(np.float32)
        return cls(size, list(vocabulary), np.concatenate(([0], np.cumsum(frequencies))), where, weights)

    def scores(self, query: Sequence[str]) -> npt.NDArray[np.float32]:
        """``float32[documents]``; zero where no token of the query occurs."""
        scores = np.zeros(self._size, dtype=np.float32)
        for token, times in Counter(query).items():
            position = self._tokens.get(token)
            if position is not None:
                part = slice(self._starts[position], self._starts[position + 1])
                # A word repeated in a long error text should not drown the others.
                scores[self._where[part]] += self._weights[part] * (1 + math.log(times))
        return scores

    def save(self, folder: Path) -> None:
        """Write ``lexical.npz`` and ``lexical.txt`` into ``folder``."""
        write_text(folder / "lexical.txt", "\n".join(self._tokens))
        np.savez(folder / "lexical.npz", size=self._size, starts=self._starts, where=self._where, weights=self._weights)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """What ``save`` wrote.

        Raises:
            OSError: It is missing.
            ValueError, KeyError: It is damaged.
        """
        text = (folder / "lexical.txt").read_text(encoding="utf-8")
        tokens = text.split("\n") if text else []
        with np.load(folder / "lexical.npz") as arrays:
            starts = arrays["starts"]
            if len(starts) != len(tokens) + 1:
                raise ValueError("the lexical index is damaged")
            return cls(int(arrays["size"]), tokens, starts, arrays["where"], arrays["weights"])
