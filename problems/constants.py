"""The numbers at module level of a problem file, and the replacement of some of them in its text.

Comes in: Python source. Goes out: ``Site`` objects (one number each, with its place in the text), or
the source with some numbers exchanged and every other byte as it was. Nothing is executed.

A number is addressed by a key:

=====================  ==========================================================================
``batch``              the whole value of ``batch = 64`` or ``batch: int = 32 * 2``
``shape[1]``           one element of a tuple or list, ``shape = (64, 128)``
``get_inputs:224``     every literal 224 in the body of ``get_inputs`` (or ``get_init_inputs``)
=====================  ==========================================================================
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from stitchcuda.core.errors import ProblemError

__all__ = ["Number", "Site", "find_sites", "flatten_sizes", "replace_numbers"]

Number = int | float

_FUNCTIONS = ("get_inputs", "get_init_inputs")
_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.LShift: lambda a, b: int(a) << min(int(b), 64),
}
_LARGEST_EXPONENT = 64
_NEWLINE = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True)
class Site:
    """One number in the text. A ``derived`` one follows other constants (``n = 2 * m``) and has no value of its own."""

    key: str
    value: Number | None
    start: int
    stop: int
    """Byte offsets of the value in the UTF-8 text."""
    line: int

    @property
    def derived(self) -> bool:
        return self.value is None


def find_sites(source: str) -> tuple[Site, ...]:
    """Every number of ``source`` that has a key, in the order of the text.

    Raises:
        SyntaxError: the source is no Python.
    """
    data = source.encode()
    starts = [0, *(match.end() for match in _NEWLINE.finditer(data))]

    def site(key: str, node: ast.expr) -> Site:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Site(
            key=key,
            value=_evaluate(node),
            start=starts[node.lineno - 1] + node.col_offset,
            stop=starts[node.end_lineno - 1] + node.end_col_offset,
            line=node.lineno,
        )

    return tuple(site(key, node) for key, node in _keyed_nodes(ast.parse(source)))


def replace_numbers(source: str, numbers: Mapping[str, Number]) -> str:
    """``source`` with the keyed numbers exchanged; formatting and comments elsewhere stay byte for byte.

    Raises:
        ProblemError: a key names nothing in the source, or two names of one value (``height = width = 64``)
            are given different numbers.
    """
    chosen: dict[tuple[int, int], tuple[str, Number]] = {}
    found: set[str] = set()
    for site in find_sites(source):
        if site.key not in numbers:
            continue
        found.add(site.key)
        span, number = (site.start, site.stop), numbers[site.key]
        key, other = chosen.setdefault(span, (site.key, number))
        if other != number:
            raise ProblemError(
                f"reduced sizes: {key!r} and {site.key!r} share the value on line {site.line}, "
                f"so they cannot become {other} and {number}; give both the same number"
            )
    if missing := sorted(set(numbers) - found):
        raise ProblemError(
            f"reduced sizes: the problem has no module-level number {missing[0]!r}; "
            "name constants that are assigned at the top level of the file"
        )
    data = source.encode()
    for (start, stop), (_, number) in sorted(chosen.items(), reverse=True):
        data = data[:start] + repr(number).encode() + data[stop:]
    return data.decode()


def flatten_sizes(sizes: Mapping[str, object]) -> dict[str, Number]:
    """``{"shape": (2, 3)}`` as ``{"shape[0]": 2, "shape[1]": 3}``; numbers stay.

    Raises:
        ProblemError: a value is neither a number nor a sequence of numbers.
    """
    flat: dict[str, Number] = {}
    for key, value in sizes.items():
        elements = {f"{key}[{i}]": v for i, v in enumerate(value)} if isinstance(value, tuple | list) else {key: value}
        for name, number in elements.items():
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ProblemError(f"reduced sizes: {name!r} is {number!r}; only numbers can be exchanged")
            flat[name] = number
    return flat


def _keyed_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _assigned(target, statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            yield from _assigned(statement.target, statement.value)
        elif isinstance(statement, ast.FunctionDef) and statement.name in _FUNCTIONS:
            for part in statement.body:
                for node in ast.walk(part):
                    if isinstance(node, ast.Constant) and _is_number(node.value):
                        yield f"{statement.name}:{node.value!r}", node


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        if target.id == "REDUCED":
            return
        if isinstance(value, ast.Tuple | ast.List):
            for index, element in enumerate(value.elts):
                if _is_numeric(element):
                    yield f"{target.id}[{index}]", element
        elif _is_numeric(value):
            yield target.id, value
    elif (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(target.elts) == len(value.elts)
        and not any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    ):
        for one_target, one_value in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one_target, one_value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numeric(node: ast.expr) -> bool:
    """Numbers, names and arithmetic on them; a call or a string is no size."""
    if isinstance(node, ast.Constant):
        return _is_number(node.value)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and _is_numeric(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_numeric(node.left) and _is_numeric(node.right)
    return isinstance(node, ast.Name)


def _evaluate(node: ast.expr) -> Number | None:
    """The value of arithmetic on literals; ``None`` where a name takes part or the arithmetic is undefined."""
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        return node.value
    if isinstance(node, ast.UnaryOp):
        value = _evaluate(node.operand)
        return None if value is None else (-value if isinstance(node.op, ast.USub) else value)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left), _evaluate(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Pow):
            return left**right if 0 <= right <= _LARGEST_EXPONENT else None
        apply = _OPERATORS.get(type(node.op))
        try:
            return apply(left, right) if apply else None
        except (ZeroDivisionError, OverflowError, ValueError):
            return None
    return None
