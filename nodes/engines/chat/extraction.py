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
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["AnswerError", "extract_source", "join_continuation", "plain_text", "prose_summary", "python_problem"]

CLASS_NAME = "ModelNew"
SUMMARY_LIMIT_CHARS = 400

_PYTHON_TAGS = {"python", "py", "python3", "py3"}
_OTHER_TAGS = {"json", "diff", "patch", "bash", "sh", "shell", "text", "txt", "console", "output", "markdown", "md"}
_THINK = re.compile(r"^[ \t]*<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_THINK_END = re.compile(r"^[ \t]*</(?:think|thinking|thought|reasoning)>", re.MULTILINE | re.IGNORECASE)
_THINK_OPEN = re.compile(r"^[ \t]*<(?:think|thinking|thought|reasoning)>", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$")
_CODE_START = re.compile(r"^(?:import |from \S+ import |#|\"\"\"|'''|class |@)")


class AnswerError(Exception):
    """An answer that cannot be used; ``code`` names the reason, the message is written for the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Block:
    """One fenced block: ``tag`` in lower case, ``closed`` unless it ran into the end of the text."""

    tag: str
    text: str
    closed: bool


def plain_text(text: str) -> str:
    """``text`` with Unix line ends, without byte-order mark and without reasoning parts.

    Reasoning tags count at the start of a line only, so that a string inside a program is left alone. A
    closing tag without an opening one ends reasoning whose start the chat template swallowed; an opening one
    without a closing one is reasoning that never ended.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff").replace("\u200b", "")
    text = _THINK.sub("", text)
    if ends := list(_THINK_END.finditer(text)):
        text = text[ends[-1].end() :]
    if opening := _THINK_OPEN.search(text):
        text = text[: opening.start()]
    return text


def _blocks(text: str) -> Iterator[Block]:
    """Fenced blocks in order; a block is yielded once for each place where it may end.

    A program may hold a fence of its own (in a docstring), so that the first closing fence need not be the
    true one: later ones are offered too, after the shorter reading.
    """
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        index += 1
        if opening is None:
            continue
        indent, fence, tag = opening.groups()
        body = [line[len(indent) :] if line.startswith(indent) else line.lstrip() for line in lines[index:]]
        ends = list(_ends(body, fence))
        used_up = ends[0][2] if ends else len(body)
        for count, last, after in ends:
            text = "\n".join([*body[:count], *last])
            yield Block(tag.lower(), text, closed=True)
            if CLASS_NAME not in text or _parses(text):
                used_up = after
                break
        if not ends:
            yield Block(tag.lower(), "\n".join(body), closed=False)
        index += used_up


def _ends(body: list[str], fence: str) -> Iterator[tuple[int, list[str], int]]:
    """Where a block that starts with ``body`` may end: whole lines of it, a last part line, lines used up.

    A closing fence, one glued to the last line of the program, or the opening of the next block.
    """
    closing = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    glued = re.compile(rf"^([^{fence[0]}]*[^{fence[0]}\s])[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    for at, line in enumerate(body):
        if closing.match(line):
            yield at, [], at + 1
        elif match := glued.match(line):
            yield at, [match.group(1)], at + 1
        elif (opening := _FENCE.match(line)) and opening.group(2) == fence:
            yield at, [], at


def _tree(source: str) -> ast.Module | str:
    """The syntax tree, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in a candidate's string is not our warning
        try:
            return ast.parse(source)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return str(error) or type(error).__name__


def _parses(source: str) -> bool:
    return isinstance(_tree(source), ast.Module)


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
    for match in re.finditer(r"\{", text):
        try:
            value, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield from (item for item in value.values() if isinstance(item, str) and CLASS_NAME in item)
            return


def _unfenced(text: str) -> str:
    """The program in an answer without fences: from its first code line, without prose after it."""
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines) if _CODE_START.match(line)), 0)
    lines = lines[start:]
    while lines:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ast.parse("\n".join(lines))
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
    good: list[tuple[bool, str]] = []
    problems: list[tuple[str, str]] = []
    earlier: list[str] = []
    fenced_diff = False
    for block in _blocks(text):
        fenced_diff = fenced_diff or block.tag in ("diff", "patch")
        if block.tag in _OTHER_TAGS and CLASS_NAME not in block.text:
            continue
        problem = python_problem(block.text)
        if problem is None:
            good.append((block.tag in _PYTHON_TAGS, _completed(block.text, earlier)))
        elif block.tag in _PYTHON_TAGS or CLASS_NAME in block.text:
            problems.append(problem)
        if block.tag not in _OTHER_TAGS:
            earlier.append(block.text)
    if not good:
        for source in _json_sources(text):
            problem = python_problem(source)
            if problem is None:
                good.append((True, source))
            else:
                problems.append(problem)
    if not good and not problems:
        source = _unfenced(text)
        problem = python_problem(source)
        if problem is None:
            good.append((True, source))
        elif f"class {CLASS_NAME}" in source:
            problems.append(problem)
    if good:
        tagged = [source for is_python, source in good if is_python]
        return (tagged or [source for _, source in good])[-1].strip("\n") + "\n"
    if fenced_diff:
        raise AnswerError("no_code", "the answer is a diff; the whole program is needed in one fenced Python block")
    if problems:
        # A program with a mistake says more than a helper block that was never meant to be the program.
        raise AnswerError(*next((p for p in reversed(problems) if p[0] == "bad_python"), problems[-1]))
    raise AnswerError("no_code", "the answer holds no Python program in a fenced block")


def join_continuation(first: str, second: str) -> str:
    """``first``, cut off by a token limit, and its continuation ``second`` as one text.

    A fence that the continuation opens anew inside an open block is dropped, and so is what it repeats.
    """
    first, second = first.replace("\r\n", "\n"), plain_text(second)
    if sum(1 for line in first.split("\n") if _FENCE.match(line)) % 2 == 1:
        lines = second.lstrip("\n").split("\n")
        if _FENCE.match(lines[0]) and lines[0].strip(" \t`~") != "":
            second = "\n".join(lines[1:])
    for size in range(min(len(first), len(second), 2000), 11, -1):
        if first.endswith(second[:size]):
            return first + second[size:]
    last_line = first.rsplit("\n", 1)[-1]
    if len(last_line.strip()) >= 3 and second.startswith(last_line):
        return first + second[len(last_line) :]
    return first + second


def prose_summary(text: str) -> str:
    """What the answer says about its program: the ``Summary:`` line, else the first sentence of prose."""
    outside, fence = [], ""
    for line in plain_text(text).split("\n"):
        match = _FENCE.match(line)
        if fence:
            fence = "" if match and match.group(2).startswith(fence) and not match.group(3) else fence
        elif match:
            fence = match.group(2)
        else:
            outside.append(line)
    for line in outside:
        if found := re.match(r"^[\s*#>_-]*summary[*_]*\s*[:\-]\s*[*_]*\s*(.+)$", line, re.IGNORECASE):
            return found.group(1).strip()[:SUMMARY_LIMIT_CHARS]
    prose = " ".join(" ".join(outside).split())
    sentence = re.match(r"(.+?[.!?])(?:\s|$)", prose)
    return (sentence.group(1) if sentence else prose)[:SUMMARY_LIMIT_CHARS]
