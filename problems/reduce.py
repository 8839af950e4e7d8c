"""Small sizes for a problem that has none of its own, and the proof that the reference still works with them.

``reduce_sizes`` executes the source, so it is run in an isolated worker. Full sizes are never allocated: candidates
for sizes are measured on fake tensors, and only the result is run for real.

How sizes are chosen. Numbers of the source that are equal belong together and stay equal (a loss that only broadcasts
when batch and features agree). The largest such class is divided by its smallest prime factor, again and again, until
everything fits the budget; small structural numbers (kernel sizes, strides, layers) are thus reached last, if ever.
First only ``get_inputs`` and ``Model`` are tried for each step, which is quick; if ``forward`` then refuses the
result, the search is done again with ``forward`` at each step, also dividing two classes or all at once by the same
factor, which keeps ratios such as width to heads. Last, numbers that changed the program's structure (it then runs
another number of ops, as with fewer layers) get their full value back where that is affordable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from stitchcuda.core.errors import ProblemError, one_line
from stitchcuda.problems.constants import find_sites, flatten_sizes, replace_numbers
from stitchcuda.problems.execution import execute, quiet
from stitchcuda.problems.measuring import Budget, Depth, Extent, measure
from stitchcuda.problems.parsing import check_source, read_reduced

__all__ = ["reduce_sizes"]

Sizes = dict[int, int]
"""Original number → number in its place."""

_LEAST_SHRINKABLE = 8
_LEAST_RESULT = 2
_WORTH_IT = 0.95
"""A step must lower the excess by a twentieth: 1000 classes behind a fixed network of 11 M parameters stay 1000."""
_AFFORDABLE = Budget(inputs=400_000, parameters=100_000_000, activations=40_000_000, flops=10_000_000_000)
"""What the structure of the program is worth: parameters hardly cost time, the rest does on the emulator."""
_QUICK_S = 0.5
_LOOP_OPS = 5_000
"""More ops than this come from a loop over time, whose length is data rather than structure."""
_HARD = Budget(inputs=8_000_000, parameters=200_000_000, activations=400_000_000, flops=200_000_000_000)
"""Past these the reference is not run for real: it would take more than a few seconds or gigabytes on a CPU."""


def reduce_sizes(
    source: str, budget_elements: int = Budget.inputs, search_s: float = 60.0, forward_limit_s: float = 10.0
) -> dict[str, Any]:
    """Choose small sizes for ``source`` and prove them.

    Args:
        source: the problem at full size.
        budget_elements: elements of all inputs together to aim at; parameters and intermediates scale with it.
        search_s: wall-clock limit of the search; the best sizes so far are used when it ends.
        forward_limit_s: longest time that the reduced reference may take on the CPU.

    Returns:
        ``reduced`` (keys as in ``problems.constants``; empty when there is nothing to reduce or no way to),
        ``ok`` (the reference at these sizes was run and is small enough to be run again), ``reason`` (why
        ``reduced`` is empty, or which measure stays above its budget), ``input_elements``, ``parameter_count``,
        ``forward_s``, ``same_ops`` (the program runs as many ops as at full size; ``None`` if not known).

    Raises:
        ProblemError: the text is no problem, or its own ``REDUCED`` does not fit it.
    """
    tree = check_source(source, "problem")
    scale = budget_elements / Budget.inputs
    budget = Budget(*(max(1, int(getattr(Budget, name) * scale)) for name in vars(Budget())))
    if own := read_reduced(tree, "problem"):
        reduced: dict[str, int | float] = flatten_sizes(own)
        return _proved(source, reduced, budget, forward_limit_s)
    search = _Search(source, budget, time.monotonic() + search_s)
    try:
        sizes = search.quick()
    except ProblemError as first:
        try:
            sizes = search.careful()
        except ProblemError as error:
            cause = first if search.refused else error
            return _nothing(f"no smaller sizes work: {one_line(cause, 240)}")
    return _proved(source, search.keyed(search.restored(sizes)), budget, forward_limit_s)


def _nothing(reason: str) -> dict[str, Any]:
    return {
        "reduced": {},
        "ok": False,
        "reason": reason,
        "input_elements": None,
        "parameter_count": None,
        "forward_s": None,
        "same_ops": None,
    }


def _proved(source: str, reduced: dict[str, int | float], budget: Budget, forward_limit_s: float) -> dict[str, Any]:
    """Run the reference for real at ``reduced``, unless it is known to be too large for that."""
    small = replace_numbers(source, reduced)
    extent: Extent | None = None
    try:
        extent = measure(small, "forward")
    except ProblemError:
        # Some programs need real values; what can be measured without them must do.
        try:
            extent = measure(small, "model")
        except ProblemError as error:
            return _nothing(f"at the smallest sizes found, {one_line(error, 240)}")
    if over := extent.over(_HARD):
        return _nothing(f"too large for a CPU even at the smallest sizes found: {_told(extent, over)}")
    try:
        forward_s = _run(small)
    except ProblemError as error:
        return _nothing(f"at the smallest sizes found, {one_line(error, 240)}")
    if forward_s > forward_limit_s:
        return _nothing(f"the reference takes {forward_s:.1f} s on a CPU even at the smallest sizes found")
    over = extent.over(budget)
    notes = ["the full sizes are small enough"] if not reduced and not over else []
    if over:
        notes.append(f"not all within the budget, the rest is fixed in the program: {_told(extent, over)}")
    return {
        "reduced": reduced,
        "ok": True,
        "reason": "; ".join(notes),
        "input_elements": extent.inputs,
        "parameter_count": extent.parameters,
        "forward_s": round(forward_s, 4),
        "same_ops": _ops(source) == extent.ops if 0 < extent.ops <= _LOOP_OPS else None,
    }


def _told(extent: Extent, names: tuple[str, ...]) -> str:
    return ", ".join(f"{getattr(extent, name):.2g} {name}" for name in names)


def _ops(source: str) -> int | None:
    try:
        return measure(source, "forward").ops
    except ProblemError:
        return None


def _run(source: str) -> float:
    """Seconds of one real forward pass on one thread; the better of two if the first was slow on a busy machine."""
    import torch

    with quiet():
        torch.manual_seed(0)
        program = execute(source)
        model, inputs = program.model(program.init_inputs()), program.inputs()
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            best = float("inf")
            for _ in range(2):
                started = time.perf_counter()
                program.forward(model, inputs)
                best = min(best, time.perf_counter() - started)
                if best < _QUICK_S:
                    break
        finally:
            torch.set_num_threads(threads)
        return best


class _Search:
    """Sizes for one source."""

    def __init__(self, source: str, budget: Budget, deadline: float) -> None:
        self.source, self.budget, self.deadline = source, budget, deadline
        self.refused = False
        """Whether ``forward`` fails on fake tensors at full size too, so that it cannot judge smaller ones."""
        self.keys: dict[int, list[str]] = {}
        for site in {site.key: site for site in find_sites(source)}.values():
            if isinstance(site.value, int) and site.value >= _LEAST_SHRINKABLE:
                self.keys.setdefault(site.value, []).append(site.key)

    def keyed(self, sizes: Sizes) -> dict[str, int | float]:
        """The changed numbers under their keys, in the order of the source."""
        changed = {key: sizes[value] for value, keys in self.keys.items() for key in keys if sizes[value] != value}
        order = [site.key for site in find_sites(self.source)]
        return dict(sorted(changed.items(), key=lambda item: order.index(item[0])))

    def quick(self) -> Sizes:
        """Shrink by looking at inputs and parameters only, then see whether ``forward`` agrees.

        Raises:
            ProblemError: it does not.
        """
        sizes = self._shrink({value: value for value in self.keys}, "inputs", self._single)
        sizes = self._shrink(sizes, "model", self._single)
        try:
            self._measure(sizes, "forward")
        except ProblemError:
            if all(number == value for value, number in sizes.items()) or self._fails_at_full_size():
                self.refused = True
                return sizes  # only the real run can tell
            raise
        return self._shrink(sizes, "forward", self._single)

    def restored(self, sizes: Sizes) -> Sizes:
        """Full values again for the numbers that change how many ops are run, where that stays affordable."""
        full = {value: value for value in self.keys}
        if self.refused or sizes == full:
            return sizes
        try:
            here = self._measure(sizes, "forward").ops
            if here > _LOOP_OPS:
                return sizes
            wanted = self._measure(full, "forward").ops
        except ProblemError:
            return sizes
        for value in sorted(full):
            if here == wanted or time.monotonic() > self.deadline:
                break
            proposal = sizes | {value: value}
            if proposal == sizes:
                continue
            try:
                extent = self._measure(proposal, "forward")
            except ProblemError:
                continue
            if abs(extent.ops - wanted) < abs(here - wanted) and not extent.over(_AFFORDABLE):
                sizes, here = proposal, extent.ops
        return sizes

    def careful(self) -> Sizes:
        """Shrink with ``forward`` at each step, and with steps that keep ratios.

        Raises:
            ProblemError: no step is possible.
        """
        return self._shrink({value: value for value in self.keys}, "forward", self._coupled)

    def _fails_at_full_size(self) -> bool:
        try:
            self._measure({value: value for value in self.keys}, "forward")
        except ProblemError:
            return True
        return False

    def _measure(self, sizes: Sizes, depth: Depth) -> Extent:
        return measure(replace_numbers(self.source, self.keyed(sizes)), depth)

    def _shrink(self, sizes: Sizes, depth: Depth, steps: Callable[[Sizes], Iterator[Sizes]]) -> Sizes:
        """Take the first step that works and helps, again and again, until nothing is over the budget or none does."""
        extent = self._measure(sizes, depth)
        while extent.over(self.budget):
            if time.monotonic() > self.deadline:
                return sizes
            for proposal in steps(sizes):
                try:
                    smaller = self._measure(proposal, depth)
                except ProblemError:
                    continue
                if not smaller.over(self.budget) or (
                    smaller.excess(self.budget) < _WORTH_IT * extent.excess(self.budget)
                ):
                    sizes, extent = proposal, smaller
                    break
            else:
                return sizes
        return sizes

    @staticmethod
    def _single(sizes: Sizes) -> Iterator[Sizes]:
        """One class divided by its smallest prime factor, the largest number first."""
        for value in sorted(sizes, key=lambda value: (-sizes[value], value)):
            if (number := _divided(sizes[value])) >= _LEAST_RESULT:
                yield sizes | {value: number}

    @classmethod
    def _coupled(cls, sizes: Sizes) -> Iterator[Sizes]:
        """Single steps, then two classes by the same factor, then all that share it, then halves of odd numbers."""
        yield from cls._single(sizes)
        ordered = sorted(sizes, key=lambda value: -sizes[value])
        for factor in (2, 3, 5, 7):
            fit = [value for value in ordered if sizes[value] % factor == 0 and sizes[value] // factor >= _LEAST_RESULT]
            for count in (2, 3, len(fit)):
                if count <= len(fit):
                    for group in combinations(fit, count):
                        yield sizes | {value: sizes[value] // factor for value in group}


def _divided(number: int) -> int:
    """``number`` by its smallest prime factor; about half of it where that factor is larger than 16."""
    factor = next((prime for prime in (2, 3, 5, 7, 11, 13) if number % prime == 0), None)
    return number // factor if factor and number > factor else number // 2
