"""Numbers that follow the problem's sizes: one expression that is right at full and at reduced size.

Comes in: two traces of one program. Goes out: for a number that differs between them, a Python expression of
tensor shapes that has the right value in both, or ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isclose, sqrt
from typing import NamedTuple

from stitchcuda.codegen.program import Program
from stitchcuda.codegen.trace import Arg

__all__ = ["Pair", "find_expression", "structure_conflict"]


@dataclass(frozen=True)
class Pair:
    """A shape expression and its value in both traces."""

    text: str
    full: int | float
    reduced: int | float


class Sizes(NamedTuple):
    """A pair whose values are whole numbers."""

    text: str
    full: int
    reduced: int


def find_expression(full: int | float, reduced: int | float, known: Sequence[Pair]) -> str | None:
    """The simplest expression over ``known`` with the value ``full`` in one trace and ``reduced`` in the other."""
    for pair in known:
        if (pair.full, pair.reduced) == (full, reduced) and type(pair.full) is type(full):
            return pair.text
    pairs = [
        Sizes(pair.text, pair.full, pair.reduced)
        for pair in dict.fromkeys(known)
        if isinstance(pair.full, int) and isinstance(pair.reduced, int)
    ]
    if isinstance(full, float) or isinstance(reduced, float):
        return _find_float(float(full), float(reduced), pairs)
    for first, second in _ordered_pairs(pairs):
        if (first.full * second.full, first.reduced * second.reduced) == (full, reduced):
            return f"{first.text} * {second.text}"
        if _divides(first, second) and (first.full // second.full, first.reduced // second.reduced) == (full, reduced):
            return f"{first.text} // {second.text}"
    # A constant factor or offset explains almost anything, so it comes after relations of sizes alone.
    for one in pairs:
        if text := _scaled(full, reduced, one):
            return text
    for first, second in _ordered_pairs(pairs):
        product = Sizes(f"{first.text} * {second.text}", first.full * second.full, first.reduced * second.reduced)
        for third in pairs:
            if (product.full * third.full, product.reduced * third.reduced) == (full, reduced):
                return f"{product.text} * {third.text}"
            if _divides(product, third) and (product.full // third.full, product.reduced // third.reduced) == (
                full,
                reduced,
            ):
                return f"{product.text} // {third.text}"
    return None


def _scaled(full: int, reduced: int, pair: Sizes) -> str | None:
    """``n * k``, ``n // k``, ``n + k`` and ``n - k`` with one constant ``k`` for both sizes."""
    if not pair.full or not pair.reduced or pair.full == pair.reduced:
        return None
    if full % pair.full == 0 and full // pair.full > 0 and reduced == pair.reduced * (full // pair.full):
        return f"{full // pair.full} * {pair.text}"
    if full and pair.full % full == 0:
        divisor = pair.full // full
        if pair.reduced % divisor == 0 and pair.reduced // divisor == reduced:
            return f"{pair.text} // {divisor}"
    offset = full - pair.full
    if pair.reduced + offset == reduced:
        return f"{pair.text} {'+' if offset > 0 else '-'} {abs(offset)}"
    return None


def _divides(first: Sizes, second: Sizes) -> bool:
    return bool(second.full and second.reduced) and not (first.full % second.full or first.reduced % second.reduced)


def _ordered_pairs(pairs: Sequence[Sizes]) -> Iterable[tuple[Sizes, Sizes]]:
    for index, first in enumerate(pairs):
        for second in pairs[index:]:
            yield first, second
        for second in pairs[:index]:
            yield first, second


def _find_float(full: float, reduced: float, pairs: Sequence[Sizes]) -> str | None:
    """Scale factors of attention and of means: ``n``, ``n ** 0.5``, and their reciprocals."""

    def same(value: float, other: float) -> bool:
        return isclose(value, other, rel_tol=1e-12)

    forms = (
        ("float({})", lambda n: float(n)),
        ("1.0 / {}", lambda n: 1.0 / n),
        ("{} ** 0.5", lambda n: sqrt(n)),
        ("{} ** -0.5", lambda n: 1.0 / sqrt(n)),
        ("{} ** 0.25", lambda n: sqrt(sqrt(n))),
        ("{} ** -0.25", lambda n: 1.0 / sqrt(sqrt(n))),
    )
    products = [
        Sizes(f"({first.text} * {second.text})", first.full * second.full, first.reduced * second.reduced)
        for first, second in _ordered_pairs(pairs)
    ]
    for pair in [*pairs, *products]:
        if pair.full > 0 and pair.reduced > 0:
            for text, value in forms:
                if same(value(pair.full), full) and same(value(pair.reduced), reduced):
                    return text.format(pair.text)
    return None


def structure_conflict(full: Program, reduced: Program) -> str:
    """Empty when the two programs have the same nodes and differ in numbers only, else where they part."""
    if len(full.nodes) != len(reduced.nodes):
        return f"{len(full.nodes)} operations at full size, {len(reduced.nodes)} at reduced size"
    for first, second in zip(full.nodes, reduced.nodes, strict=True):
        if (first.name, first.target, first.kind) != (second.name, second.target, second.kind):
            return f"{first.name} ({first.target}) at full size is {second.name} ({second.target}) at reduced size"
        if not _alike(first.args, second.args) or set(first.kwargs) != set(second.kwargs):
            return f"{first.name} has other kinds of arguments at the two sizes"
        for key, value in first.kwargs.items():
            if not _alike(value, second.kwargs[key]):
                return f"{first.name} has another {key} at the two sizes"
        if [spec and len(spec.shape) for spec in first.outputs] != [
            spec and len(spec.shape) for spec in second.outputs
        ]:
            return f"{first.name} has another number of dimensions at the two sizes"
    return "" if full.result == reduced.result else "the results have another structure at the two sizes"


def _alike(first: Arg, second: Arg) -> bool:
    """Equal but for numbers."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(_alike(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return True
    return first == second
