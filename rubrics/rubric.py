"""The rubric: dimensions with five described levels, from ``rubric.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from stitchcuda.core.errors import SettingsError, one_line
from stitchcuda.core.files import sha256_text
from stitchcuda.core.records import Record

__all__ = ["LEVELS", "RUBRIC_FILE", "Dimension", "Rubric", "Skill", "load_rubric"]

Skill = Literal["scratch", "feedback"]
LEVELS = 5
RUBRIC_FILE = Path(__file__).resolve().parent / "rubric.toml"

Description = Annotated[str, Field(min_length=10)]


class Dimension(Record):
    """One question with five levels."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    question: Description
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    skills: Annotated[tuple[Skill, ...], Field(min_length=1)]
    levels: Annotated[tuple[Description, ...], Field(min_length=LEVELS, max_length=LEVELS)]
    """What level 1, 2, … 5 means."""


class Rubric(Record):
    """All dimensions. ``digest`` tells samples apart that were judged by different texts."""

    version: int
    dimension: Annotated[tuple[Dimension, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_dimension_per_name_and_skill(self) -> Self:
        seen: set[tuple[str, str]] = set()
        for dimension in self.dimension:
            for skill in dimension.skills:
                if (dimension.name, skill) in seen:
                    raise ValueError(f"two dimensions {dimension.name!r} apply to {skill!r}")
                seen.add((dimension.name, skill))
        return self

    @property
    def digest(self) -> str:
        return sha256_text(self.model_dump_json())[:16]

    def dimensions(self, skill: Skill) -> tuple[Dimension, ...]:
        """The dimensions that ``skill`` is judged on, in the file's order."""
        return tuple(dimension for dimension in self.dimension if skill in dimension.skills)


def load_rubric(path: Path | None = None) -> Rubric:
    """The rubric in ``path``; the package's own when left out.

    Raises:
        SettingsError: The file is missing, no TOML, or no valid rubric.
    """
    path = path or RUBRIC_FILE
    try:
        return Rubric.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "rubric"
        raise SettingsError(f"the rubric {path} is not valid: {where}: {first['msg']}") from error
    except (OSError, ValueError) as error:
        raise SettingsError(f"the rubric {path} cannot be read: {one_line(error)}") from error
