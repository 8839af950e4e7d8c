"""Which problems a batch is made of: sources, ids, slices, filters.

A file that is no problem does not stop a batch: it is listed with its error, and becomes a ``problem_error``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stitchcuda.bench.records import Listed
from stitchcuda.core.errors import ProblemError, SettingsError, one_line

if TYPE_CHECKING:
    from stitchcuda.problems import Problem

__all__ = ["Selection", "parse_ids", "parse_slice", "select"]


@dataclass(frozen=True)
class Selection:
    """One problem as chosen: loaded, or why it could not be."""

    listed: Listed
    problem: Problem | None
    error: str = ""


def select(
    sources: Sequence[Path],
    *,
    kernelbench: Path | None = None,
    huggingface: bool = False,
    levels: Sequence[int] = (),
    ids: str | None = None,
    slice_text: str | None = None,
    pattern: str | None = None,
    limit: int | None = None,
) -> list[Selection]:
    """The problems that the options name, in order.

    Args:
        sources: files and folders.
        ids: KernelBench ids, for example ``1,3,5-9``.
        slice_text: ``START:STOP[:STEP]`` of what the other options leave, as in Python.
        pattern: a shell pattern that the slug, the name or the file name has to match; without ``*`` or ``?`` a
            part of it.
        limit: how many at most, after everything else.

    Raises:
        SettingsError: no source, sources that do not go together, or a wrong id list or slice.
        ProblemError: a source does not exist, or nothing is left.
    """
    from stitchcuda.problems import load_huggingface, load_kernelbench

    if bool(sources) + (kernelbench is not None) + huggingface != 1:
        raise SettingsError("name the problems: FILES and FOLDERS, or --kernelbench PATH, or --huggingface")
    wanted = parse_ids(ids) if ids else None
    if sources:
        if levels or wanted:
            raise SettingsError("--level and --ids go with --kernelbench or --huggingface, not with files")
        chosen = [selection for source in sources for selection in _from_path(source)]
    elif not levels:
        raise SettingsError("--kernelbench and --huggingface need --level (it may be repeated)")
    else:
        load: Callable[[int], list[Problem]]
        if kernelbench is not None:
            load = lambda level: load_kernelbench(kernelbench, level, wanted)  # noqa: E731  # two names for one call
        else:
            load = lambda level: load_huggingface(level, wanted)  # noqa: E731
        chosen = [_loaded(problem) for level in levels for problem in load(level)]
    chosen = _unique(chosen)
    if pattern:
        glob = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
        chosen = [one for one in chosen if _matches(one.listed, glob)]
    if slice_text:
        chosen = chosen[parse_slice(slice_text)]
    if limit is not None:
        chosen = chosen[:limit]
    if not chosen:
        raise ProblemError("no problem is left: loosen --filter, --slice or --limit")
    return chosen


def parse_ids(text: str) -> list[int]:
    """``"1,3,5-7"`` as ``[1, 3, 5, 6, 7]``.

    Raises:
        SettingsError: it is not a list of numbers and ranges.
    """
    ids: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise SettingsError(f"--ids {text!r} is not a list of ids and ranges like 1,3,5-9")
        ids += range(int(match[1]), int(match[2] or match[1]) + 1)
    return list(dict.fromkeys(ids))


def parse_slice(text: str) -> slice:
    """``"10:20"`` as a slice.

    Raises:
        SettingsError: it is not ``START:STOP`` or ``START:STOP:STEP``.
    """
    match = re.fullmatch(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*(?::\s*(-?\d*)\s*)?", text)
    parts = [None if part in (None, "", "-") else int(part) for part in match.groups()] if match else []
    if match is None or (len(parts) > 2 and parts[2] == 0):
        raise SettingsError(f"--slice {text!r} is not START:STOP or START:STOP:STEP")
    return slice(*parts)


def _from_path(source: Path) -> list[Selection]:
    from stitchcuda.problems import load_problem
    from stitchcuda.problems.loading import problem_files

    files = problem_files(source) if source.is_dir() else [source]
    if not files:
        raise ProblemError(f"{source}: no .py files in this folder; a problem is a file like 1_name.py")
    chosen: list[Selection] = []
    for file in files:
        if not file.exists():
            raise ProblemError(f"{file}: no such file or folder; check the path")
        try:
            chosen.append(_loaded(load_problem(file)))
        except ProblemError as error:
            slug = re.sub(r"[^A-Za-z0-9._-]+", "_", file.stem).strip("._") or "problem"
            listed = Listed(slug=slug, name=file.stem, sha256="", origin=str(file))
            chosen.append(Selection(listed=listed, problem=None, error=one_line(error)))
    return chosen


def _loaded(problem: Problem) -> Selection:
    listed = Listed(
        slug=problem.slug,
        name=problem.name,
        level=problem.level,
        id=problem.id,
        sha256=problem.sha256,
        origin=problem.origin,
    )
    return Selection(listed=listed, problem=problem)


def _unique(chosen: list[Selection]) -> list[Selection]:
    """Give a second problem of the same slug (two folders with equal file names) a number."""
    seen: dict[str, int] = {}
    unique: list[Selection] = []
    for one in chosen:
        slug = one.listed.slug
        seen[slug] = seen.get(slug, 0) + 1
        if seen[slug] > 1:
            listed = one.listed.model_copy(update={"slug": f"{slug}--{seen[slug]}"})
            one = Selection(listed=listed, problem=one.problem, error=one.error)
        unique.append(one)
    return unique


def _matches(listed: Listed, glob: str) -> bool:
    texts = (listed.slug, listed.name, Path(listed.origin).stem)
    return any(fnmatch.fnmatch(text.lower(), glob.lower()) for text in texts)
