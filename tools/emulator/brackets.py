"""Walking over balanced brackets in a list of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stitchcuda.tools.emulator.scanner import Token

__all__ = ["angle_open", "close_of", "open_of"]

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_OPENERS = {closer: opener for opener, closer in _PAIRS.items()}


def close_of(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the bracket that closes the one at ``index``; ``None`` if the text ends first."""
    return _partner(tokens, range(index, len(tokens)), _PAIRS, _OPENERS)


def open_of(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the bracket that the one at ``index`` closes."""
    return _partner(tokens, range(index, -1, -1), _OPENERS, _PAIRS)


def _partner(
    tokens: Sequence[Token], way: range, entering: Mapping[str, str], leaving: Mapping[str, str]
) -> int | None:
    """Walk until the first bracket on the way has met its partner; each of ``entering`` names the one it waits for."""
    stack: list[str] = []
    for at in way:
        if tokens[at].kind != "punct":
            continue
        text = tokens[at].text
        if text in entering:
            stack.append(entering[text])
        elif text in leaving:
            if stack[-1] != text:
                return None
            stack.pop()
            if not stack:
                return at
    return None


def angle_open(tokens: Sequence[Token], index: int) -> int | None:
    """The index of the ``<`` that the ``>`` at ``index`` closes, as template arguments."""
    depth = 0
    at = index
    while at >= 0:
        token = tokens[at]
        if token.kind == "punct":
            if token.text == ">":
                depth += 1
            elif token.text == "<":
                depth -= 1
                if depth == 0:
                    return at
            elif token.text in _OPENERS:
                opened = open_of(tokens, at)
                if opened is None:
                    return None
                at = opened
            elif token.text in _PAIRS or token.text == ";":
                return None
        at -= 1
    return None
