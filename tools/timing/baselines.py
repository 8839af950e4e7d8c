"""Which baselines there are, and what is remembered of the slow ones between evaluations.

``torch.compile`` takes minutes for some problems, so its baselines are measured once per machine and problem, in
turns with eager, and kept as a ratio to eager. A later candidate is timed against eager, and the ratio carries its
speed-up over; the interval is the product of both intervals, which is wider than a direct one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from stitchcuda.core.files import sha256_text, write_text
from stitchcuda.core.records import BaselineTiming, Record, TimingStats

__all__ = ["BASELINES", "COMPILED", "Baseline", "Remembered", "baseline_key", "carried_over", "recall", "remember"]

Baseline = Literal["eager", "eager_tf32", "compile_default", "compile_reduce_overhead"]
BASELINES: tuple[Baseline, ...] = ("eager", "eager_tf32", "compile_default", "compile_reduce_overhead")
COMPILED: tuple[Baseline, ...] = ("compile_default", "compile_reduce_overhead")


class Remembered(Record):
    """One compiled baseline of one problem on one machine; ``error`` when it does not compile there."""

    stats: TimingStats | None = None
    to_eager: float = 0.0
    """Its time over eager's."""
    to_eager_low: float = 0.0
    to_eager_high: float = 0.0
    error: str = ""


def baseline_key(source: str, machine: dict[str, str], protocol: int = 1) -> str:
    """Digest of everything that a remembered baseline depends on."""
    return sha256_text(repr((protocol, source, sorted(machine.items()))))


def recall(folder: Path, key: str, name: str) -> Remembered | None:
    """What was remembered; ``None`` when nothing was, or nothing readable."""
    try:
        return Remembered.model_validate_json((folder / key / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError):
        return None


def remember(folder: Path, key: str, name: str, entry: Remembered) -> None:
    (folder / key).mkdir(parents=True, exist_ok=True)
    write_text(folder / key / f"{name}.json", entry.model_dump_json())


def carried_over(name: str, entry: Remembered, eager: BaselineTiming) -> BaselineTiming | None:
    """The remembered baseline against today's candidate; ``None`` when it never compiled."""
    if entry.stats is None:
        return None
    return BaselineTiming(
        name=name,
        stats=entry.stats,
        speedup=eager.speedup * entry.to_eager,
        speedup_low=eager.speedup_low * entry.to_eager_low,
        speedup_high=eager.speedup_high * entry.to_eager_high,
    )
