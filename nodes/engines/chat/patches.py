"""Changes to a program in place of a program: unified diffs and search/replace blocks, applied exactly or not at all.

Models give line numbers that do not fit; so a hunk is found by its lines (context and removed ones), which must
stand in the program word for word and in one place only. Nothing is guessed: what does not fit goes back to the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.nodes.engines.chat.answer_text import AnswerError, fenced_blocks, plain_text
from stitchcuda.nodes.engines.chat.extraction import python_problem

__all__ = ["patched_source"]

HUNKS = 200
_HUNK = re.compile(r"^@@(?:\s*-(\d+)(?:,\d+)?\s+\+\d+(?:,\d+)?)?.*$")
_SEARCH, _DIVIDE, _REPLACE = (
    re.compile(rf"^{mark}\s*{word}\s*$")
    for mark, word in (("<{5,9}", r"(?:SEARCH|ORIGINAL)?"), ("={5,9}", ""), (">{5,9}", r"(?:REPLACE|UPDATED)?"))
)


@dataclass(frozen=True)
class _Change:
    """Replace ``old`` by ``new``; ``near`` is the line, counted from 0, that the diff names."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    near: int | None = None


def patched_source(text: str, previous: str) -> str | None:
    """``previous`` with the changes in the answer ``text``; ``None`` when it holds none.

    Raises:
        AnswerError: ``bad_patch`` or what is wrong with the patched program.
    """
    plain = plain_text(text)
    blocks = [block.text for block in fenced_blocks(plain, lambda _: True) if block.closed]
    changes = [change for block in blocks for change in _changes(block)] or list(_changes(plain))
    if not changes:
        return None
    if len(changes) > HUNKS:
        raise AnswerError("bad_patch", f"the answer holds more than {HUNKS} changes; give the whole program")
    lines = previous.replace("\r\n", "\n").rstrip("\n").split("\n")
    shift = 0
    for number, change in enumerate(changes, 1):
        at = _place(lines, change, shift, number)
        lines[at : at + len(change.old)] = change.new
        shift += len(change.new) - len(change.old)
    source = "\n".join(lines) + "\n"
    if source.rstrip("\n") == previous.rstrip("\n"):
        raise AnswerError("bad_patch", "the changes leave the program as it was")
    if (problem := python_problem(source)) is not None:
        raise AnswerError(problem[0], f"with the changes applied {problem[1]}")
    return source


def _place(lines: list[str], change: _Change, shift: int, number: int) -> int:
    """Where the old lines of ``change`` stand."""
    size = len(change.old)
    # White space at line ends is invisible in an answer, and never tells two places apart.
    wanted = [line.rstrip() for line in change.old]
    have = [line.rstrip() for line in lines]
    places = [at for at in range(len(lines) - size + 1) if have[at : at + size] == wanted]
    if len(places) == 1:
        return places[0]
    if not places:
        missing = next((line for line in wanted if line.strip() and line not in have), wanted[0])
        raise AnswerError("bad_patch", f"change {number} does not fit the program: it has no such line: {missing!r}")
    if change.near is not None and change.near + shift in places:
        return change.near + shift
    raise AnswerError("bad_patch", f"change {number} fits in {len(places)} places; give more lines around it")


def _changes(text: str) -> Iterator[_Change]:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if _SEARCH.match(lines[at]) and (found := _search_replace(lines, at)):
            change, at = found
            yield change
        elif (hunk := _HUNK.match(lines[at])) and (hunk_change := _hunk(lines, at + 1, hunk.group(1))):
            yield hunk_change
            at += 1
        else:
            at += 1


def _search_replace(lines: list[str], start: int) -> tuple[_Change, int] | None:
    divide = next((at for at in range(start + 1, len(lines)) if _DIVIDE.match(lines[at])), None)
    if divide is None:
        return None
    end = next((at for at in range(divide + 1, len(lines)) if _REPLACE.match(lines[at])), None)
    if end is None or divide == start + 1:
        return None
    return _Change(tuple(lines[start + 1 : divide]), tuple(lines[divide + 1 : end])), end + 1


def _hunk(lines: list[str], start: int, first: str | None) -> _Change | None:
    """The hunk whose body begins at ``start``; ``None`` without a changed or without an old line."""
    old: list[str] = []
    new: list[str] = []
    changed = False
    for line in lines[start:]:
        if line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- ")):
            changed = True
            (new if line[0] == "+" else old).append(line[1:])
        elif line[:1] == " ":
            old.append(line[1:])
            new.append(line[1:])
        elif line == "":  # an editor's habit of dropping the blank of an empty context line
            old.append("")
            new.append("")
        elif line.startswith("\\"):
            continue
        else:
            break
    while old and new and old[-1] == new[-1] == "":  # the blank line after the hunk is not the program's
        old.pop()
        new.pop()
    if not changed or not old:
        return None
    return _Change(tuple(old), tuple(new), int(first) - 1 if first else None)
