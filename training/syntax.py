"""Programs compared by their syntax trees: comments, layout, docstrings and (for problems) constants do not count."""

from __future__ import annotations

import ast

from stitchcuda.core.files import sha256_text
from stitchcuda.rubrics.evidence import strip_comments

__all__ = ["normalised_digest", "shingles"]

SHINGLE = 5
"""Nodes per shingle: long enough that common idioms (``self.x = nn.Linear(…)``) do not make programs alike."""


def normalised_digest(source: str) -> str:
    """A digest that is equal for sources that differ in comments, docstrings and layout only."""
    return sha256_text(strip_comments(source))[:16]


def shingles(source: str) -> frozenset[str]:
    """Runs of five nodes of the syntax tree, constants and own names anonymised; attribute names stay.

    Sizes, batch numbers and variable names are what near-duplicates of a problem differ in.
    """
    try:
        tree = ast.parse(strip_comments(source))
    except (SyntaxError, ValueError, RecursionError):
        words = source.split()
        return frozenset(" ".join(words[start : start + SHINGLE]) for start in range(max(1, len(words) - SHINGLE + 1)))
    nodes = [_label(node) for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    return frozenset(" ".join(nodes[start : start + SHINGLE]) for start in range(max(1, len(nodes) - SHINGLE + 1)))


def _label(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    return type(node).__name__
