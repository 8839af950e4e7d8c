"""Our own CUDA notes (one topic a page) and ``sources.toml``, the official documents that they refer to. Data only."""

from __future__ import annotations

from pathlib import Path

__all__ = ["NOTES_DIR", "SOURCES_FILE"]

NOTES_DIR = Path(__file__).resolve().parent
SOURCES_FILE = NOTES_DIR / "sources.toml"
