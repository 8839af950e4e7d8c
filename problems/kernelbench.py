"""Problems from a KernelBench checkout or from its Hugging Face data set.

Both give the same ``Problem`` for the same level and id. The checkout is read as files; the data set needs the
``datasets`` package and, unless it lies in its cache, the network.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import ProblemError, SettingsError, ToolchainError, one_line
from stitchcuda.problems.loading import load_problem, problem_files, problem_from_text, split_stem
from stitchcuda.problems.problem import Problem

__all__ = ["DATA_SET", "load_huggingface", "load_kernelbench"]

DATA_SET = "ScalingIntelligence/KernelBench"
_SHOWN_RANGES = 6


def load_kernelbench(checkout: Path, level: int, ids: Collection[int] | None = None) -> list[Problem]:
    """Problems of one level of a checkout, by id.

    Args:
        checkout: the repository's folder, or directly the folder that holds ``level1/``, ``level2/``, …
        level: number of the level folder.
        ids: which ones, in this order; all when ``None``.

    Raises:
        ProblemError: no such checkout, level or id, or a file that is no problem.
    """
    checkout = Path(checkout)
    if not checkout.is_dir():
        raise ProblemError(f"{checkout}: no such folder; give the path of a KernelBench checkout")
    root = next((folder for folder in (checkout / "KernelBench", checkout) if _levels(folder)), None)
    if root is None:
        raise ProblemError(
            f"{checkout}: no level folders here; a KernelBench checkout has KernelBench/level1, KernelBench/level2, …"
        )
    levels = _levels(root)
    if level not in levels:
        raise ProblemError(f"{root}: there is no level {level}; it has levels {_ranges(levels)}")
    folder = root / f"level{level}"
    files = {number: file for file in problem_files(folder) if (number := split_stem(file.stem)[0]) is not None}
    return [load_problem(files[number], level=level) for number in _chosen(files, ids, str(folder))]


def load_huggingface(level: int, ids: Collection[int] | None = None) -> list[Problem]:
    """Problems of one level of the data set ``ScalingIntelligence/KernelBench``, by id.

    Raises:
        ToolchainError: the ``datasets`` package is absent, or the data set cannot be fetched and is not in its cache.
        SettingsError: the data set has no such level.
        ProblemError: it has no such id, or its text is no problem.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise ToolchainError(
            "loading from Hugging Face needs the 'datasets' package; install it with pip install 'stitchcuda[train]', "
            "or give a checkout with --kernelbench PATH"
        ) from error

    split = f"level_{level}"
    where = f"{DATA_SET}:{split}"
    try:
        rows: Iterable[dict[str, Any]] = datasets.load_dataset(DATA_SET, split=split)
    except ValueError as error:
        # What `datasets` raises for a split that is not there; its message lists those that are.
        raise SettingsError(f"{where}: {one_line(error, 160)}; levels are 1 to 4") from error
    except (OSError, RuntimeError) as error:
        # Seen with datasets 4 and 5: no name server, a refused connection and offline mode all become ConnectionError.
        raise ToolchainError(
            f"{where}: cannot be fetched ({one_line(error, 160)}); check the network, or give a checkout with "
            "--kernelbench PATH"
        ) from error

    try:
        sources = {int(row["problem_id"]): (str(row["name"]), str(row["code"])) for row in rows}
    except KeyError as error:
        raise ProblemError(f"{where}: the data set has no column {error}; its format has changed") from error
    return [
        problem_from_text(code, f"{where}/{number}", stem=_stem(number, name), level=level)
        for number in _chosen(sources, ids, where)
        for name, code in [sources[number]]
    ]


def _stem(number: int, name: str) -> str:
    return name if split_stem(name)[0] == number else f"{number}_{name}"


def _levels(root: Path) -> list[int]:
    """Numbers of the ``levelN`` folders below ``root``."""
    if not root.is_dir():
        return []
    names = (entry.name.removeprefix("level") for entry in root.iterdir() if entry.name.startswith("level"))
    return sorted(int(name) for name in names if name.isdecimal() and (root / f"level{name}").is_dir())


def _chosen(known: Collection[int], ids: Collection[int] | None, where: str) -> list[int]:
    if not known:
        raise ProblemError(f"{where}: no problems here; files are named like 12_Name.py")
    if ids is None:
        return sorted(known)
    for number in ids:
        if number not in known:
            raise ProblemError(f"{where}: there is no problem {number}; ids are {_ranges(known)}")
    return list(ids)


def _ranges(numbers: Collection[int]) -> str:
    """``1-3, 7``: ascending numbers with runs drawn together, shortened after a few."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:_SHOWN_RANGES]]
    return ", ".join(shown) + (f", … {runs[-1][1]}" if len(runs) > _SHOWN_RANGES else "")
