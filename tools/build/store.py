"""The content-hash store: one digest, one folder, whole or absent.

A folder is filled under a private temporary name and renamed into place while a file lock on its digest is held,
so processes that want the same thing build it once, and a killed one leaves nothing that could be taken for a
result. Each folder carries a manifest with the size and SHA-256 of its files; a folder that does not match is
rebuilt. The least recently used folders go when the store outgrows its limit.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Busy", "Store"]

MANIFEST = "manifest.json"
LIMIT_BYTES = 4 * 1024**3


class Busy(Exception):
    """Other processes hold what is needed, and the time limit or a cancel came first."""


class Store:
    """Folders by digest under ``root``; any number of processes may share it."""

    def __init__(self, root: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self._entries = root / "entries"
        self._locks = root / "locks"
        self._partial = root / "partial"
        self._slots = root / "slots"
        for folder in (self._entries, self._locks, self._partial, self._slots):
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, digest: str) -> Path:
        return self._entries / digest

    def find(self, digest: str) -> Path | None:
        """The folder of ``digest`` if it is there and whole; marks it as used."""
        folder = self.path(digest)
        if not _is_whole(folder):
            return None
        try:
            os.utime(folder / MANIFEST)
        except FileNotFoundError:  # evicted in between
            return None
        return folder

    def get_or_make(
        self,
        digest: str,
        make: Callable[[Path], bool],
        *,
        timeout_s: float,
        cancel: threading.Event | None = None,
    ) -> tuple[Path | None, bool]:
        """The folder of ``digest``, made by ``make(folder)`` if nobody has yet.

        Args:
            make: fills the folder it is given; returns False when the outcome must not be kept.

        Returns:
            The folder (``None`` when ``make`` returned False), and whether it was there already.

        Raises:
            Busy: another process was still building it at the time limit or the cancel.
        """
        if (found := self.find(digest)) is not None:
            return found, True
        with self._locked(digest, timeout_s, cancel):
            if (found := self.find(digest)) is not None:
                return found, True
            for left in self._partial.glob(f"{digest}.*"):  # of a builder that was killed: we hold its lock
                shutil.rmtree(left, ignore_errors=True)
            partial = Path(tempfile.mkdtemp(prefix=f"{digest}.", dir=self._partial))
            try:
                if not make(partial):
                    return None, False
                _write_manifest(partial)
                final = self.path(digest)
                if final.exists():  # torn
                    shutil.rmtree(final)
                partial.rename(final)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        self.evict(keep=digest)
        return self.path(digest), False

    def evict(self, keep: str = "") -> list[str]:
        """Remove the least recently used folders until the store is within its limit; returns their digests."""
        entries: list[tuple[float, int, str]] = []
        for folder in self._entries.iterdir():
            try:
                size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
                entries.append(((folder / MANIFEST).stat().st_mtime, size, folder.name))
            except FileNotFoundError:
                continue
        total = sum(size for _, size, _ in entries)
        removed: list[str] = []
        for _, size, digest in sorted(entries):
            if total <= self.limit_bytes:
                break
            if digest == keep:
                continue
            try:
                with self._locked(digest, 0.0, None):
                    shutil.rmtree(self.path(digest), ignore_errors=True)
            except Busy:
                continue
            total -= size
            removed.append(digest)
        return removed

    @contextmanager
    def _locked(self, digest: str, timeout_s: float, cancel: threading.Event | None) -> Iterator[None]:
        """Hold the digest's lock file; the kernel lets go of it when the process dies."""
        with _first_free([self._locks / f"{digest}.lock"], timeout_s, cancel):
            yield

    @contextmanager
    def slot(self, count: int, *, timeout_s: float, cancel: threading.Event | None = None) -> Iterator[None]:
        """Hold one of ``count`` places for a compiler, shared by every process that uses this store.

        Raises:
            Busy: none came free by the time limit, or the cancel came first.
        """
        with _first_free([self._slots / f"{i}.lock" for i in range(max(1, count))], timeout_s, cancel):
            yield


@contextmanager
def _first_free(files: Sequence[Path], timeout_s: float, cancel: threading.Event | None) -> Iterator[None]:
    """Lock the first of ``files`` that nobody else holds."""
    ends = time.monotonic() + timeout_s
    while True:
        for file in files:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                continue
            try:
                yield
            finally:
                os.close(handle)
            return
        if time.monotonic() >= ends or (cancel is not None and cancel.is_set()):
            raise Busy(files[0].name)
        time.sleep(0.05)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and file.name != MANIFEST)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write_manifest(folder: Path) -> None:
    content = {file.name: [file.stat().st_size, _sha256(file)] for file in _files(folder)}
    with (folder / MANIFEST).open("w", encoding="utf-8") as stream:
        json.dump(content, stream)
        stream.flush()
        os.fsync(stream.fileno())


def _is_whole(folder: Path) -> bool:
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, (size, digest) in content.items():
            file = folder / name
            # Files of hundreds of megabytes (precompiled headers) are judged by their size alone.
            if file.stat().st_size != size or (size < 32 * 1024**2 and _sha256(file) != digest):
                return False
    except (OSError, ValueError):
        return False
    return True
