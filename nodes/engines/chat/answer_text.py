"""The anatomy of a chat answer: reasoning parts, fenced blocks, prose, an answer in two parts.

Comes in: raw text of any length and disorder. Goes out: its parts, in time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

__all__ = ["AnswerError", "Block", "fenced_blocks", "join_continuation", "plain_text", "prose_summary"]

SUMMARY_LIMIT_CHARS = 400
ENDS_TRIED = 8
READINGS_TRIED = 200
"""Longer readings of blocks in one answer; a real one needs none or a few."""
ANSWER_LIMIT_CHARS = 1_000_000
"""A program is a thousandth of this; a model that repeats itself until its limit is not worth reading."""

_THINK_END = re.compile(r"^[ \t]*</(?:think|thinking|thought|reasoning)>", re.MULTILINE | re.IGNORECASE)
_THINK_OPEN = re.compile(r"^[ \t]*<(think|thinking|thought|reasoning)>", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)[^`]*$")


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

    Raises:
        AnswerError: ``too_long``.
    """
    if len(text) > ANSWER_LIMIT_CHARS:
        raise AnswerError("too_long", f"the answer has {len(text)} characters")
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff").replace("\u200b", "")
    lowered = text.lower()
    kept, at = "", 0
    while opening := _THINK_OPEN.search(text, at):
        closing = f"</{opening.group(1).lower()}>"
        end = lowered.find(closing, opening.end())
        if end < 0:
            break
        kept += text[at : opening.start()]
        at = end + len(closing)
    text = kept + text[at:]
    if ends := list(_THINK_END.finditer(text)):
        text = text[ends[-1].end() :]
    if opening := _THINK_OPEN.search(text):
        text = text[: opening.start()]
    return text


def fenced_blocks(text: str, is_whole: Callable[[str], bool]) -> Iterator[Block]:
    """Fenced blocks in order; a block is yielded once for each place where it may end.

    A program may hold a fence of its own (in a docstring), so that the first closing fence need not be the
    true one: while ``is_whole`` denies a reading, longer ones are offered too.
    """
    extra_readings = READINGS_TRIED
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        index += 1
        if opening is None:
            continue
        indent, fence, tag = opening.groups()
        used_up = 0
        for end, last, after in islice(_ends(lines, index, fence), ENDS_TRIED if extra_readings > 0 else 1):
            block = "\n".join([*(line.removeprefix(indent) for line in lines[index:end]), *last])
            yield Block(tag.lower(), block, closed=True)
            used_up = used_up or after
            extra_readings -= used_up != after
            if is_whole(block):
                used_up = after
                break
        if not used_up:
            yield Block(tag.lower(), "\n".join(line.removeprefix(indent) for line in lines[index:]), closed=False)
        index = used_up or len(lines)


def _ends(lines: list[str], start: int, fence: str) -> Iterator[tuple[int, list[str], int]]:
    """Where a block that starts at line ``start`` may end: end of its whole lines, a last part line, next line to read.

    A closing fence, one glued to the last line of the program, or the opening of the next block.
    """
    mark = re.escape(fence[0])
    closing = re.compile(rf"^[ \t]*{mark}{{{len(fence)},}}[ \t]*$")
    glued = re.compile(rf"^([^{mark}]*[^{mark}\s])[ \t]*{mark}{{{len(fence)},}}[ \t]*$")
    for at in range(start, len(lines)):
        if closing.match(lines[at]):
            yield at, [], at + 1
        elif match := glued.match(lines[at]):
            yield at, [match.group(1)], at + 1
        elif at > start and (opening := _FENCE.match(lines[at])) and opening.group(2) == fence:
            yield at, [], at


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
