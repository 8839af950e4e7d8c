"""The house's layout: one import root, one relative link per room, nothing heavy behind the door."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOT = REPOSITORY / "src" / "stitchcuda"
NOT_ROOMS = {"src", "tests", "benchmarks", "examples", "docs", "scripts", "build", "dist", "runs"}


def rooms() -> list[str]:
    return sorted(
        path.name
        for path in REPOSITORY.iterdir()
        if path.is_dir() and path.name not in NOT_ROOMS and (path / "__init__.py").exists()
    )


def test_every_room_has_a_link() -> None:
    assert {path.name for path in ROOT.iterdir() if path.is_symlink()} == set(rooms())


@pytest.mark.parametrize("room", rooms())
def test_links_are_relative_and_resolve(room: str) -> None:
    link = ROOT / room
    assert not link.readlink().is_absolute()
    assert link.resolve() == (REPOSITORY / room).resolve()


def test_doors_are_light() -> None:
    """Importing any room's door must not import torch, langgraph or a chat client."""
    names = ", ".join(f"stitchcuda.{room}" for room in rooms())
    code = (
        f"import sys, {names}\n"
        "print(sorted({'torch', 'langgraph', 'langchain_openai', 'chromadb', 'openai'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "page",
    [path.relative_to(REPOSITORY).as_posix() for path in (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"))],
)
def test_links_between_our_pages_lead_somewhere(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    broken = [
        target
        for target in targets
        if target and "://" not in target and not ((REPOSITORY / page).parent / target).exists()
    ]
    assert broken == []
