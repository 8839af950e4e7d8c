"""Splits C++ text into tokens, so that the rewriter never looks inside a comment, a string or a number.

In: source text. Out: the significant tokens with their places. Left to others: any meaning.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from stitchcuda.tools.emulator.conditions import Conditionals

__all__ = ["Lines", "Token", "scan"]

Kind = Literal["name", "number", "string", "char", "punct", "include"]

_RAW = re.compile(r'(?:u8|[uUL])?R"([^ ()\\\t\v\f\n"]{0,16})\(')
_PATTERN = re.compile(
    r"""
    (?P<space>(?:\s|\\\r?\n)+)
  | (?P<line>//(?:\\\r?\n|[^\n])*)
  | (?P<block>/\*.*?(?:\*/|\Z))
  | (?P<string>(?:u8|[uUL])?"(?:\\\r\n|\\.|[^"\\\n])*(?:"|(?=\n)|\Z))
  | (?P<char>(?:u8|[uUL])?'(?:\\\r\n|\\.|[^'\\\n])*(?:'|(?=\n)|\Z))
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z_]|[0-9A-Za-z_.])*)
  | (?P<name>[^\W\d]\w*)
  | (?P<punct>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r'#[ \t]*include[ \t]*(<[^>\n]*>|"[^"\n]*")')


@dataclass(frozen=True, slots=True)
class Token:
    """A significant piece of text. ``directive`` is 0 outside of preprocessor lines, else the line's own number."""

    kind: Kind
    text: str
    start: int
    end: int
    directive: int = 0


class Lines:
    """Maps an offset to its 1-based line."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def __call__(self, offset: int) -> int:
        return bisect_right(self._starts, offset)


def scan(text: str) -> list[Token]:
    """The tokens of ``text`` without white space, comments and branches of ``#if`` that are surely not taken."""
    tokens: list[Token] = []
    at, directive, line_begins = 0, 0, True
    conditionals, hidden = Conditionals(), False
    while at < len(text):
        if line_begins and text[at] == "#":
            directive = at + 1
            hidden = conditionals.see(text, at)
            include = _INCLUDE.match(text, at)
            if include:
                if not hidden:
                    tokens.append(Token("include", include.group(1), include.start(1), include.end(1), directive))
                at, line_begins = include.end(), False
                continue
        raw = _RAW.match(text, at)
        if raw and not _continues_name(text, at):
            end = text.find(f'){raw.group(1)}"', raw.end())
            end = len(text) if end < 0 else end + len(raw.group(1)) + 2
            if not hidden:
                tokens.append(Token("string", text[at:end], at, end, directive))
            at, line_begins = end, False
            continue
        match = _PATTERN.match(text, at)
        assert match is not None  # the last alternative takes any character
        kind = match.lastgroup
        piece = match.group()
        at = match.end()
        if kind == "space":
            if "\n" in piece.replace("\\\r\n", "").replace("\\\n", ""):
                line_begins, directive, hidden = True, 0, conditionals.skipping
        elif kind not in ("line", "block"):
            line_begins = False
            if not hidden:
                tokens.append(Token(kind, piece, match.start(), at, directive))  # type: ignore[arg-type]
    return tokens


def _continues_name(text: str, at: int) -> bool:
    return at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
