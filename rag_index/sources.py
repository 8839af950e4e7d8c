"""Where pages come from, and what changed since the last look.

A source is a folder of pages (Markdown, HTML, PDF), one page, or the include folder of a toolkit. Digests of files are
remembered by size and time, so that looking at thousands of unchanged files takes milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stitchcuda.nvidia_docs import NOTES_DIR

__all__ = ["Format", "Page", "Source", "notes_source", "read_pages", "toolkit_source"]

Format = Literal["markdown", "html", "pdf", "header"]
FORMATS: dict[str, Format] = {
    ".md": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".h": "header",
    ".hpp": "header",
    ".cuh": "header",
}
NOT_PAGES = {"LICENSE.md", "README.md"}
HEADER_FOLDERS = (
    ("", ("*.h",)),
    ("cooperative_groups", ("*.h",)),
    ("crt", ("mma.h", "sm_*.h", "device_functions.h", "math_functions.h")),
    *((f"{root}cub/{part}", ("*.cuh",)) for root in ("cccl/", "") for part in ("block", "device", "warp", "thread")),
    *((f"{root}thrust", ("*.h",)) for root in ("cccl/", "")),
    *((f"{root}cuda/std", ("atomic", "barrier")) for root in ("cccl/", "")),
)
"""The documented part of a toolkit's include folder; what lies deeper is for the library's own use."""
SKIPPED_HEADERS = re.compile(r"cupti|nvperf|vdpau|egl|gl_interop|cudagl|nvtx|texture|surface|^nvml|^npp|^nvjpeg", re.I)
"""Interfaces that no candidate calls (profiler internals, graphics, image codecs)."""
RACY_S = 2.0
"""A file younger than this is read even if its time and size are known: it may be written within one clock tick."""


@dataclass(frozen=True)
class Source:
    """A folder of pages, one page, or the include folder of a toolkit."""

    name: str
    path: Path
    kind: Literal["pages", "headers"] = "pages"
    toolkit: str = ""
    """Version of the toolkit that the pages describe; empty when they are not about one version."""
    urls: dict[str, str] = field(default_factory=dict, hash=False)
    """Where a page, by its path inside the source, was fetched from."""


@dataclass(frozen=True)
class Page:
    """One page as it lies on disk."""

    source: str
    name: str
    path: Path
    format: Format
    size_bytes: int
    digest: str
    """Hex SHA-256 of the page, its place and what else goes into its chunks."""
    url: str = ""
    toolkit: str = ""


def notes_source() -> Source:
    """Our own notes."""
    return Source("notes", NOTES_DIR)


def toolkit_source(include: Path) -> Source:
    """The headers of an installed toolkit; its version is read from ``cuda.h``."""
    try:
        text = (include / "cuda.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"#define\s+CUDA_VERSION\s+(\d+)", text)
    number = int(found[1]) if found else 0
    return Source("headers", include, "headers", toolkit=f"{number // 1000}.{number % 1000 // 10}" if number else "")


def read_pages(sources: Sequence[Source], memory: Path | None = None) -> tuple[list[Page], list[str]]:
    """All pages in a fixed order, and a line for each that could not be read.

    Args:
        sources: Where to look.
        memory: File in which digests are remembered by path, size and time; may be absent.
    """
    known = _remembered(memory)
    seen: dict[str, tuple[int, int, str]] = {}
    pages: list[Page] = []
    problems: list[str] = []
    for source in sources:
        root = source.path if source.path.is_dir() else source.path.parent
        for file, kind in _files(source):
            try:
                status = file.stat()
                key = str(file)
                entry = known.get(key)
                if entry is None or entry[:2] != (status.st_size, status.st_mtime_ns):
                    entry = (status.st_size, status.st_mtime_ns, hashlib.sha256(file.read_bytes()).hexdigest())
            except OSError as error:
                problems.append(f"{file}: {error.strerror}")
                continue
            if time.time() - status.st_mtime > RACY_S:
                seen[key] = entry
            name = file.relative_to(root).as_posix()
            url = source.urls.get(name, "")
            place = "\x1f".join((source.name, name, source.toolkit, url, entry[2]))
            digest = hashlib.sha256(place.encode()).hexdigest()
            pages.append(Page(source.name, name, file, kind, status.st_size, digest, url, source.toolkit))
    if memory is not None and seen != known:
        try:
            # Not ``write_text``: its fsync would wait for the store that a build has just written, and a lost or torn
            # file only means that digests are taken anew.
            memory.parent.mkdir(parents=True, exist_ok=True)
            temporary = memory.with_name(f".{memory.name}.{os.getpid()}.tmp")
            temporary.write_text(json.dumps(seen), encoding="utf-8")
            temporary.replace(memory)
        except OSError:
            pass  # a read-only cache: digests are taken anew each time
    return pages, problems


def _remembered(memory: Path | None) -> dict[str, tuple[int, int, str]]:
    if memory is None:
        return {}
    try:
        return {path: (size, mtime, digest) for path, (size, mtime, digest) in json.loads(memory.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _files(source: Source) -> Iterator[tuple[Path, Format]]:
    if source.kind == "headers":
        for folder, patterns in HEADER_FOLDERS:
            found = {path for pattern in patterns for path in (source.path / folder).glob(pattern)}
            yield from ((path, "header") for path in sorted(found) if not SKIPPED_HEADERS.search(path.name))
        return
    if not source.path.is_dir():
        yield source.path, FORMATS.get(source.path.suffix.lower(), "markdown")
        return
    found = set()
    for folder, folders, names in os.walk(source.path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found |= {Path(folder) / name for name in names if Path(name).suffix.lower() in FORMATS}
    for path in sorted(found):
        if path.name not in NOT_PAGES:
            yield path, FORMATS[path.suffix.lower()]
