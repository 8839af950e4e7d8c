"""Find the Python program in a chat answer.

Comes in: the raw text of an answer, with prose, reasoning parts, several fenced blocks, wrong or missing
language tags, foreign line ends. Goes out: one Python source that parses and defines ``ModelNew``, or an
``AnswerError`` whose message tells the model what is wrong. Nothing is executed.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import threading
import warnings
from collections.abc import Iterator
from itertools import islice

from stitchcuda.nodes.engines.chat.answer_text import AnswerError, fenced_blocks, plain_text

__all__ = ["extract_source", "python_problem"]

CLASS_NAME = "ModelNew"
OBJECTS_TRIED = 500
_PYTHON_TAGS = {"python", "py", "python3", "py3"}
_OTHER_TAGS = {"json", "diff", "patch", "bash", "sh", "shell", "text", "txt", "console", "output", "markdown", "md"}
_CODE_START = re.compile(r"^(?:import |from \S+ import |#|\"\"\"|'''|class |@)")


_QUIET = threading.Lock()  # warning filters belong to the process, and answers are read in threads


def _parse(source: str) -> ast.Module:
    """``ast.parse`` without warnings: an invalid escape in a candidate's string is not ours to report."""
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _tree(source: str) -> ast.Module | str:
    """The syntax tree, or why there is none."""
    try:
        return _parse(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__


def _is_whole(block: str) -> bool:
    """Whether a block needs no longer reading: a program that parses, or no candidate at all."""
    return CLASS_NAME not in block or isinstance(_tree(block), ast.Module)


def _bound_names(tree: ast.Module) -> set[str]:
    """Names that the module level binds, also inside top-level ``if``, ``try`` and ``with``."""
    names: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            pending.extend(ast.iter_child_nodes(node))
    return names


def _loaded_names(tree: ast.Module) -> set[str]:
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    stored |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return loaded - stored - set(dir(builtins))


def python_problem(source: str) -> tuple[str, str] | None:
    """Why ``source`` is no candidate, as (code, sentence); ``None`` when it parses and defines ``ModelNew``."""
    tree = _tree(source)
    if isinstance(tree, str):
        return "bad_python", f"the program is not valid Python: {tree}"
    if CLASS_NAME not in _bound_names(tree):
        return "no_model_new", f"the program does not define {CLASS_NAME} at module level"
    return None


def _completed(source: str, earlier: list[str]) -> str:
    """``source`` with the earlier blocks in front when it uses names that only those define."""
    tree = _tree(source)
    if isinstance(tree, str):
        return source
    missing = _loaded_names(tree) - _bound_names(tree)
    helpers = []
    for text in earlier:
        other = _tree(text)
        if isinstance(other, ast.Module) and CLASS_NAME not in _bound_names(other):
            helpers.append((text, _bound_names(other)))
    if not any(missing & names for _, names in helpers):
        return source
    return "\n\n".join([text.strip("\n") for text, _ in helpers] + [source])


def _json_sources(text: str) -> Iterator[str]:
    """Programs that came as a string inside a JSON object."""
    decoder = json.JSONDecoder(strict=False)
    for match in islice(re.finditer(r"\{", text), OBJECTS_TRIED):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        except RecursionError:
            return
        if isinstance(value, dict):
            yield from (item for item in value.values() if isinstance(item, str) and CLASS_NAME in item)
            return


def _unfenced(text: str) -> str:
    """The program in an answer without fences: from its first code line, without prose after it."""
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines) if _CODE_START.match(line)), 0)
    lines = lines[start:]
    while lines:
        try:
            _parse("\n".join(lines))
            break
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
        except (ValueError, RecursionError, MemoryError):
            break
        # Only an unindented line after a blank one can be prose after the program; a cut anywhere else
        # would turn a broken method into a shorter one that parses.
        if not 0 < at < len(lines) or lines[at][:1].isspace() or lines[at - 1].strip():
            break
        lines = lines[:at]
    return "\n".join(lines)


def extract_source(text: str) -> str:
    """The candidate in ``text``.

    Of several programs that define ``ModelNew`` the last one counts (a final version follows drafts and
    quotations), Python-tagged ones before others.

    Raises:
        AnswerError: ``no_code``, ``bad_python`` or ``no_model_new``.
    """
    text = plain_text(text)
    good: list[tuple[bool, str, int]] = []
    problems: list[tuple[str, str]] = []
    earlier: list[str] = []
    fenced_diff = False
    for block in fenced_blocks(text, _is_whole):
        fenced_diff = fenced_diff or block.tag in ("diff", "patch")
        if block.tag in _OTHER_TAGS and CLASS_NAME not in block.text:
            continue
        problem = python_problem(block.text)
        if problem is None:
            good.append((block.tag in _PYTHON_TAGS, block.text, len(earlier)))
        elif block.tag in _PYTHON_TAGS or CLASS_NAME in block.text:
            problems.append(problem)
        if block.tag not in _OTHER_TAGS:
            earlier.append(block.text)
    if not good:
        for source in _json_sources(text):
            problem = python_problem(source)
            if problem is None:
                good.append((True, source, 0))
            else:
                problems.append(problem)
    if not good and not problems:
        source = _unfenced(text)
        problem = python_problem(source)
        if problem is None:
            good.append((True, source, 0))
        elif f"class {CLASS_NAME}" in source:
            problems.append(problem)
    if good:
        _, source, helpers = ([item for item in good if item[0]] or good)[-1]
        return _completed(source, earlier[:helpers]).strip("\n") + "\n"
    if fenced_diff:
        raise AnswerError("no_code", "the answer is a diff; the whole program is needed in one fenced Python block")
    if problems:
        # A program with a mistake says more than a helper block that was never meant to be the program.
        raise AnswerError(*next((p for p in reversed(problems) if p[0] == "bad_python"), problems[-1]))
    raise AnswerError("no_code", "the answer holds no Python program in a fenced block")
