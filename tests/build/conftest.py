"""One build cache for the whole session, shared by xdist's workers: the store is made for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitchcuda.tools.build import Builder

RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture(scope="session")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    return shared / "build-cache"


@pytest.fixture(scope="session")
def builder(build_cache: Path) -> Builder:
    return Builder(build_cache, timeout_s=240)


@pytest.fixture(scope="session")
def recorded() -> dict[str, str]:
    """Real output of compilers, by file name without suffix."""
    return {file.stem: file.read_text(encoding="utf-8") for file in RECORDED.glob("*.txt")}
