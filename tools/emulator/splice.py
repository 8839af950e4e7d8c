"""Edits of a text by offsets, applied at once."""

from __future__ import annotations

__all__ = ["Splices"]


class Splices:
    """Collects replacements; a removed stretch keeps its line ends, so that no line moves."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, int, str]] = []

    def insert(self, offset: int, text: str) -> None:
        self._edits.append((offset, offset, len(self._edits), text))

    def replace(self, start: int, end: int, text: str) -> None:
        removed = self._text[start:end]
        kept = "".join("\\\n" if removed[i - 1 : i] == "\\" else "\n" for i, c in enumerate(removed) if c == "\n")
        self._edits.append((start, end, len(self._edits), text + kept))

    def apply(self) -> str:
        out: list[str] = []
        at = 0
        for start, end, _, text in sorted(self._edits):
            if start < at:  # inside a stretch that is gone already
                continue
            out += (self._text[at:start], text)
            at = end
        return "".join(out) + self._text[at:]
