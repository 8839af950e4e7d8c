"""How many tokens a text has, estimated without any tokenizer: those are downloads, and each model has its own.

Calibrated afterwards: the figures that an endpoint reports give the ratio for its tokenizer (``EndpointProfile``).
"""

from __future__ import annotations

import re

__all__ = ["estimate_tokens"]

_PIECE = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[^\sA-Za-z0-9]")
_WORD_CHARS = 6
"""Longest run of letters that common byte-pair vocabularies usually keep in one token."""
_DIGITS = 3


def estimate_tokens(text: str) -> int:
    """Tokens in ``text``: words by length, three digits each, every sign and every line break one."""
    total = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece[0].isspace():
            total += piece.count("\n") + (1 if len(piece) > 1 else 0)
        elif piece[0].isascii() and piece[0].isalpha():
            total += -(-len(piece) // _WORD_CHARS)
        elif piece[0].isascii() and piece[0].isdigit():
            total += -(-len(piece) // _DIGITS)
        else:
            total += 1 if piece.isascii() else 2
    return total
