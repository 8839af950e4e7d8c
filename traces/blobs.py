"""Large strings by reference: written once, named by content, and brought back on reading.

A reference is ``{"ref": "blobs/<first 16 hex digits of SHA-256>.txt", "bytes": n}`` with a path relative to the
run folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stitchcuda.core.files import sha256_text, write_text

__all__ = ["INLINE_LIMIT_BYTES", "BlobStore", "HeldBlobs", "read_blobs"]

INLINE_LIMIT_BYTES = 4096
"""A string above this goes to a file; one candidate source is typically 5 to 30 kB and recurs in every state."""


class BlobStore:
    """The ``blobs/`` folder of one run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._written: set[str] = set()

    def put(self, text: str) -> str | dict[str, Any]:
        """``text`` itself when small, else a reference to the file that holds it."""
        if len(text) * 4 <= INLINE_LIMIT_BYTES:
            return text
        # A lone surrogate (a compiler's odd bytes, decoded) has no UTF-8 form; its escape does.
        data = text.encode("utf-8", errors="backslashreplace")
        if len(data) <= INLINE_LIMIT_BYTES:
            return text
        text = data.decode()
        name = f"blobs/{sha256_text(text)[:16]}.txt"
        if name not in self._written:
            self._keep(name, text)
            self._written.add(name)
        return {"ref": name, "bytes": len(data)}

    def _keep(self, name: str, text: str) -> None:
        path = self._run_dir / name
        if not path.exists():
            write_text(path, text)


class HeldBlobs(BlobStore):
    """Large texts of a run whose folder is not known yet."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.texts: list[str] = []

    def _keep(self, name: str, text: str) -> None:  # noqa: ARG002 - the name follows from the text
        self.texts.append(text)


def read_blobs(value: Any, run_dir: Path) -> Any:
    """``value`` with every reference replaced by its text; a missing file leaves the reference as it is."""
    if isinstance(value, dict):
        if value.keys() == {"ref", "bytes"}:
            name = str(value["ref"])
            path = run_dir / name
            # A trace may come from elsewhere: a reference must not lead out of the blobs folder.
            inside = path.parent == run_dir / "blobs" and path.is_file()
            return path.read_bytes().decode() if inside else value
        return {key: read_blobs(item, run_dir) for key, item in value.items()}
    if isinstance(value, list):
        return [read_blobs(item, run_dir) for item in value]
    return value
