"""Names of the laws that inputs are drawn from (``inputs.py`` has what they do). Pure."""

from __future__ import annotations

__all__ = ["MAGNITUDES", "TIES"]

MAGNITUDES = ("scaled_3", "negated", "scaled_0.01", "shifted")
TIES = ("sparse", "integers", "edge")
"""These give equal values, between which an index (``argmax``) may choose freely."""
