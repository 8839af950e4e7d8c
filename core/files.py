"""Files that are whole or absent: atomic writes, append-only JSON lines, digests; folders that one process holds.

Comes in: text, bytes or JSON-able values. Goes out: a file that a reader sees either in its old
or in its new form, also when the writer is killed in between.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stitchcuda.core.errors import SettingsError

__all__ = ["append_jsonl", "hold_folder", "read_jsonl", "sha256_text", "write_json", "write_text"]


def sha256_text(text: str) -> str:
    """Hex SHA-256 of ``text`` in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_text(path: Path, text: str) -> Path:
    """Write ``text`` beside ``path`` and rename it into place; creates the parent folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, value: Any) -> Path:
    """Write ``value`` as indented JSON, atomically."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False) + "\n")


def append_jsonl(path: Path, value: Any) -> None:
    """Append one JSON line with a single ``write``; a torn line of an earlier kill is closed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    with path.open("ab+") as stream:
        if stream.tell() > 0:
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                line = b"\n" + line
        stream.write(line)


def read_jsonl(path: Path) -> Iterator[Any]:
    """Yield the whole lines of a JSON-lines file; a torn line is skipped, its item is owed again."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


@contextmanager
def hold_folder(folder: Path, *, what: str, busy: str, lock_name: str = ".lock") -> Iterator[None]:
    """Make ``folder`` if need be, and be the only process that works in it; the lock ends with the process.

    Args:
        what: the folder's kind, for the message when it cannot be written, for example ``run folder``.
        busy: the message when another process holds it.

    Raises:
        SettingsError: another process holds it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / lock_name).open("a+")
    except OSError as error:
        raise SettingsError(f"cannot write to the {what} {folder}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(busy) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
