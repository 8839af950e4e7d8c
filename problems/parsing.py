"""Static checks of a problem's text: it is Python, defines what a problem must, and its ``REDUCED`` is a literal.

Comes in: bytes or text and a name for messages. Goes out: text or facts; nothing is executed or imported. Whether
the program *works* is established in a worker (``problems.describe``).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping

from stitchcuda.core.errors import ProblemError, one_line

__all__ = ["check_source", "decode_source", "read_reduced"]


def decode_source(data: bytes, where: str) -> str:
    """Text of a Python file, with a byte-order mark dropped and line ends made ``\\n``.

    Raises:
        ProblemError: the file is binary or not UTF-8.
    """
    if b"\0" in data:
        raise ProblemError(f"{where}: this is a binary file, not a Python program; give a KernelBench-format .py file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ProblemError(f"{where}, line {line}: the file is not UTF-8; save it as UTF-8 and try again") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_source(source: str, where: str) -> ast.Module:
    """Parse ``source`` and see that it defines ``Model`` and ``get_inputs`` at its top level.

    Raises:
        ProblemError: one line that says what is missing and what to do.
    """
    if not source.strip():
        raise ProblemError(f"{where}: the file is empty; a problem defines Model, get_inputs and get_init_inputs")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in somebody's docstring is not our message
            tree = ast.parse(source)
    except SyntaxError as error:
        place = f"line {error.lineno}, column {error.offset}" if error.lineno else "unknown line"
        raise ProblemError(
            f"{where}, {place}: not valid Python ({one_line(Exception(error.msg), 80)}); "
            "a problem is a Python file that defines Model, get_inputs and get_init_inputs"
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ProblemError(f"{where}: Python cannot parse this file ({one_line(error, 80)})") from error

    names = _top_level_names(tree)
    if "Model" not in names:
        hint = " (it defines ModelNew, so it looks like a candidate, not a problem)" if "ModelNew" in names else ""
        raise ProblemError(f"{where}: no class Model{hint}; name the reference program's nn.Module Model")
    if "get_inputs" not in names:
        raise ProblemError(f"{where}: no function get_inputs; add one that returns the list of Model.forward's inputs")
    return tree


def read_reduced(tree: ast.Module, where: str) -> Mapping[str, object]:
    """The file's own ``REDUCED = {...}``, or an empty mapping.

    Raises:
        ProblemError: it is there but not a literal dictionary with string keys.
    """
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        if not any(isinstance(target, ast.Name) and target.id == "REDUCED" for target in targets):
            continue
        try:
            sizes = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            sizes = None
        if not isinstance(sizes, dict) or not all(isinstance(key, str) for key in sizes):
            raise ProblemError(
                f'{where}, line {statement.lineno}: REDUCED must be a literal like {{"batch": 2}} '
                "that maps names of module-level constants to numbers"
            )
        return sizes
    return {}


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names bound at the top level, also by an import or inside ``if``/``try``."""
    names: set[str] = set()
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
            if isinstance(node, ast.Try):
                pending.extend(child for handler in node.handlers for child in handler.body)
    return names
