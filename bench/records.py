"""What a batch writes: its list of problems, and one result per finished problem."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from stitchcuda.core.records import Record

__all__ = ["FORMAT_VERSION", "OWED_STATUSES", "BatchFile", "BatchResult", "Listed"]

FORMAT_VERSION = 1

OWED_STATUSES = frozenset({"machine_error", "model_error", "internal_error"})
"""Outcomes that say nothing about the problem: going on with a batch runs these again."""


class Listed(Record):
    """One problem of a batch, run or not."""

    slug: str
    name: str
    level: int | None = None
    id: int | None = None
    sha256: str
    """Digest of the source; empty if the file could not be loaded."""
    origin: str


class BatchFile(Record):
    """``batch.json``: what the batch is made of."""

    format_version: int = FORMAT_VERSION
    created: str
    version: str
    """Of StitchCUDA."""
    device: str
    settings: dict[str, Any]
    """``graph.context.Context`` as resolved; no secrets."""
    problems: tuple[Listed, ...]


class BatchResult(Record):
    """One line of ``results.jsonl``; the last one of a slug counts."""

    slug: str
    sha256: str
    status: str
    """A candidate's status, ``no_candidate``, ``unscorable``, or what stopped the run: ``problem_error``,
    ``machine_error``, ``model_error``, ``internal_error``."""
    solved: bool = False
    speedup: float | None = Field(default=None, gt=0)
    """Against eager; ``None`` unless passed and timed on a GPU."""
    reasons: tuple[str, ...] = ()
    message: str = ""
    stop_reason: str = ""
    attempts: int = 0
    seconds: float = 0.0
    usage: dict[str, int] = {}
    cost_usd: float = 0.0
    """Of the chat calls, by the price table of the settings."""
    cached: int = 0
    """Chat answers from the cache; not among the calls of ``usage``."""
    finished: str = ""
    """UTC, ISO 8601."""

    @property
    def passed(self) -> bool:
        return self.status == "passed"
