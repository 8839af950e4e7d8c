"""The problem: one reference program as text, with where it came from and its small sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field

from stitchcuda.core.files import sha256_text
from stitchcuda.core.records import Record
from stitchcuda.problems.constants import flatten_sizes, replace_numbers

__all__ = ["Problem"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Problem(Record):
    """One reference program in KernelBench's format: ``Model``, ``get_inputs``, ``get_init_inputs``."""

    level: int | None = None
    id: int | None = None
    name: str
    source: str
    origin: str
    """Where the text was read, for a person: a path, or a data set and its split."""
    reduced: dict[str, int | float] = Field(default_factory=dict)
    """Small sizes for the ``cpu`` device, keyed as ``problems.constants`` says; empty: none known."""

    @property
    def sha256(self) -> str:
        """Digest of the full-size source."""
        return sha256_text(self.source)

    @property
    def slug(self) -> str:
        """A folder name: ``<level>_<id>_<name>`` as far as they are known."""
        name = _UNSAFE.sub("_", self.name).strip("._") or "problem"
        numbers = [str(number) for number in (self.level, self.id) if number is not None]
        return "_".join([*numbers, name])

    def at(self, sizes: Literal["full", "reduced"]) -> str:
        """The source at ``sizes``. ``full`` is the text as it was read; ``reduced`` exchanges the keyed numbers only.

        Without known reduced sizes both are the same text.

        Raises:
            ProblemError: ``reduced`` names a number that the source does not have.
        """
        return self.source if sizes == "full" else replace_numbers(self.source, self.reduced)

    def with_reduced(self, sizes: Mapping[str, object]) -> Self:
        """A copy with these small sizes; sequences may be given whole (``{"shape": (2, 3)}``).

        Raises:
            ProblemError: a key does not fit the source.
        """
        flat = flatten_sizes(sizes)
        replace_numbers(self.source, flat)
        return self.model_copy(update={"reduced": flat})
