"""Words of a technical text: identifiers whole and in parts, numbers, lightly normalised words.

``__shfl_down_sync`` gives ``__shfl_down_sync``, ``shfl``, ``down``, ``sync``; ``cudaErrorIllegalAddress`` gives itself
and its four words; so that an exact name ranks first and a half-remembered one is still found.
"""

from __future__ import annotations

import re

__all__ = ["TOKENS_VERSION", "is_identifier", "names_in", "tokenize"]

TOKENS_VERSION = 1
"""Part of the index's digest: raise it when the result for any text changes."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_STOP_WORDS = (
    "a an and are as at be been but by can do does each for from had has have how i if in into is it its may more most "
    "must no not of on one only or other over so some such than that the their them then there these they this to too "
    "was were what when where which while who why will with you your"
)
_STOP = frozenset(_STOP_WORDS.split())


def is_identifier(word: str) -> bool:
    """Whether ``word`` looks like code rather than prose."""
    return "_" in word or any(char.isdigit() for char in word) or word[1:] != word[1:].lower()


def names_in(text: str) -> list[str]:
    """The unmistakable names of ``text`` as tokens: ``__hfma2_relu``, ``cudaMallocAsync``; not ``GEMM`` or ``fp32``."""
    return [word.lower() for word in _WORD.findall(text) if re.search(r"\w_\w|[a-z][A-Z]", word)]


def tokenize(text: str) -> list[str]:
    """The tokens of ``text`` in order, lower case, stop words left out."""
    tokens: list[str] = []
    for word in _WORD.findall(text):
        lower = word.lower()
        if word[0].isdigit():
            tokens.append(lower)
            continue
        if is_identifier(word):
            tokens.append(lower)
            parts = [part.lower() for part in _PARTS.findall(word)]
            if parts != [lower]:
                tokens.extend(_stem(part) for part in parts if part not in _STOP and len(part) > 1)
        elif lower not in _STOP and len(lower) > 1:
            tokens.append(_stem(lower))
    return tokens


def _stem(word: str) -> str:
    """Drop the endings that most often keep a question from its answer: plurals, -ing, -ed, -ise/-ize."""
    if len(word) <= 3 or not word.isalpha():
        return word
    word = word.replace("ization", "isation")
    for ending, new in (
        ("ies", "y"),
        ("isation", "is"),
        ("izing", "is"),
        ("ising", "is"),
        ("ized", "is"),
        ("ised", "is"),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + new
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-2] + "is" if word.endswith("iz") else word
