"""What a policy says about the operators that a candidate had PyTorch compute. Pure; in the parent.

The measure of work is elements read and written. The reference's log is the yardstick: what of its work PyTorch still
does in the candidate was not replaced by own kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stitchcuda.core.records import Policy
from stitchcuda.tools.checks.op_kinds import HOST_READ, LOG_OFF, families_of, kind_of

__all__ = ["Coverage", "judge_operators", "read_log"]

Log = Sequence[tuple[str, int]]

# Folding parameters into one another for each call is honest and small, but not tiny at reduced sizes.
_OWN_KERNELS_MAY_LEAVE = 0.1
# Less than this replaced is a fig leaf: a kernel for show beside a library that does it all. The smallest honest first
# step among the examples replaces 0.6 %.
_LEAST_REPLACED = 0.002
_WORTH_COUNTING = 0.02
_FEW_ELEMENTS = 64
"""That a call may read to decide what to launch."""


@dataclass(frozen=True)
class Coverage:
    """How much of the reference's work own kernels took over."""

    replaced: float | None
    """Share in [0, 1]; ``None`` when the reference's own work could not be logged."""
    library: tuple[str, ...]
    """Operators of cuBLAS and cuDNN that the candidate used."""
    objection: str = ""
    """Why the policy does not allow this; empty when it does."""


def read_log(answer: Any) -> list[tuple[str, int]] | None:
    """A worker's log, which is foreign data; ``None`` for anything that is no log."""
    if not isinstance(answer, list):
        return None
    entries = [entry for entry in answer if isinstance(entry, list) and len(entry) == 2]
    if len(entries) != len(answer) or not all(isinstance(n, str) and isinstance(e, int) and e >= 0 for n, e in entries):
        return None
    return [(name[:80], elements) for name, elements in entries]


def judge_operators(reference: Log, candidate: Log, policy: Policy) -> Coverage:
    """Compare the two logs.

    Under ``own-kernels`` PyTorch may compute next to nothing. Under ``libraries`` it may, as matrix products and
    convolutions, and other operators may be left to it while a candidate grows; but own kernels must have replaced
    something of the reference's work.
    """
    library = tuple(dict.fromkeys(name.removeprefix("aten::") for name, _ in candidate if kind_of(name) == "library"))
    whole, left = _work(reference), _work(candidate)
    if whole == 0:
        return Coverage(None, library)
    replaced = max(0.0, 1 - left / whole)
    if policy == "any":
        return Coverage(replaced, library)
    if any(name == LOG_OFF for name, _ in candidate):
        return Coverage(None, library, "the log of PyTorch's operators was switched off")
    read = sum(elements for name, elements in candidate if name == HOST_READ)
    if read > _FEW_ELEMENTS:
        return Coverage(None, library, f"{read} elements were read by the host (numpy, lists): computed there?")
    if policy == "own-kernels" and left > _OWN_KERNELS_MAY_LEAVE * whole:
        told = f"PyTorch computes {left / whole:.0%} of the reference's work itself ({_largest(candidate)})"
        return Coverage(replaced, library, told)
    compute, compute_left = _work(reference, "compute"), _work(candidate, "compute")
    gain = max(replaced, 1 - compute_left / compute if compute else 0.0)
    if gain < _LEAST_REPLACED and not _vanished(reference, candidate):
        told = f"own kernels run, but PyTorch still does all of the reference's work ({_largest(candidate)})"
        return Coverage(replaced, library, told)
    return Coverage(replaced, library)


def _vanished(reference: Log, candidate: Log) -> set[str]:
    """Kinds of work that only the reference has PyTorch do: own kernels do them, whatever else PyTorch does more of."""
    there = {family for name, _ in candidate for family in families_of(name)}
    whole = _work(reference)
    worth = [name for name, elements in reference if elements >= _WORTH_COUNTING * whole]
    return {name for name in worth if not families_of(name) & there}


def _work(log: Log, kind: str | None = None) -> int:
    return sum(elements for name, elements in log if kind is None or kind_of(name) == kind)


def _largest(log: Log) -> str:
    work: Counter[str] = Counter()
    for name, elements in log:
        work[name.removeprefix("aten::")] += elements
    return ", ".join(name for name, _ in work.most_common(3))
