"""Problems from files and folders. Only text is read: neither torch nor the problem is imported."""

from __future__ import annotations

import re
from pathlib import Path

from stitchcuda.core.errors import ProblemError
from stitchcuda.problems.parsing import check_source, decode_source, read_reduced
from stitchcuda.problems.problem import Problem

__all__ = ["load_folder", "load_problem", "problem_files", "problem_from_text", "split_stem"]

_STEM = re.compile(r"(\d+)[_-]+(.+)")
_LARGEST_FILE_BYTES = 4_000_000


def load_problem(path: Path, *, level: int | None = None) -> Problem:
    """The problem in one KernelBench-format file; ``12_Name.py`` gives it the id 12.

    Raises:
        ProblemError: the file cannot be read or is no problem.
    """
    path = Path(path)
    where = str(path)
    if path.is_dir():
        raise ProblemError(
            f"{where}: this is a folder; give one .py file in it, or use the batch command for all of them"
        )
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise ProblemError(
                f"{where}: larger than {_LARGEST_FILE_BYTES // 1_000_000} MB; a problem is a short program"
            )
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ProblemError(f"{where}: no such file; check the path, or try one of the files in examples/") from error
    except OSError as error:
        raise ProblemError(f"{where}: cannot be read ({error.strerror or error})") from error
    return problem_from_text(decode_source(data, where), where, stem=path.stem, level=level)


def load_folder(path: Path) -> list[Problem]:
    """Every problem in the ``.py`` files of one folder, by id and name; files that begin with ``_`` or ``.`` are not.

    Raises:
        ProblemError: there is no such folder or nothing in it, or one of its files is no problem.
    """
    path = Path(path)
    files = problem_files(path)
    if not files:
        raise ProblemError(f"{path}: no .py files in this folder; a problem is a file like 1_name.py")
    return [load_problem(file) for file in files]


def problem_files(folder: Path) -> list[Path]:
    """The ``.py`` files of ``folder`` in the order of their ids, then names.

    Raises:
        ProblemError: ``folder`` is not a readable folder.
    """
    if not folder.exists():
        raise ProblemError(f"{folder}: no such folder; check the path")
    if not folder.is_dir():
        raise ProblemError(f"{folder}: this is a file, not a folder; load it as a single problem")
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".py" and entry.is_file())
    except OSError as error:
        raise ProblemError(f"{folder}: cannot be read ({error.strerror or error})") from error

    def order(file: Path) -> tuple[float, str]:
        number, _ = split_stem(file.stem)
        return (float("inf") if number is None else number, file.name)

    return sorted((folder / name for name in names if not name.startswith(("_", "."))), key=order)


def split_stem(stem: str) -> tuple[int | None, str]:
    """``"12_Gemm_ReLU_"`` as ``(12, "Gemm_ReLU")``; without a leading number the id is ``None``."""
    match = _STEM.fullmatch(stem)
    number, name = (int(match[1]), match[2]) if match else (None, stem)
    return number, name.strip("_") or stem


def problem_from_text(source: str, where: str, *, stem: str, level: int | None = None) -> Problem:
    """A checked problem from its text.

    Args:
        source: the program.
        where: origin, for the record and for messages.
        stem: file name without its ending, for id and name.
        level: level of the benchmark that it belongs to, if any.

    Raises:
        ProblemError: the text is no problem, or its ``REDUCED`` does not fit it.
    """
    tree = check_source(source, where)
    number, name = split_stem(stem)
    problem = Problem(level=level, id=number, name=name, source=source, origin=where)
    sizes = read_reduced(tree, where)
    if not sizes:
        return problem
    try:
        return problem.with_reduced(sizes)
    except ProblemError as error:
        raise ProblemError(f"{where}: {error}") from error
