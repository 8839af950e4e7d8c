"""Which walls a GPU's driver bears is tried, in order, and remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stitchcuda.tools.sandbox.gpu_walls import bearable_walls
from stitchcuda.tools.sandbox.worker import WorkerGone


class Driver:
    """Pretends to be the workers of a machine whose driver fails behind some walls."""

    def __init__(self, *bears_not: str, dies: bool = False, broken: bool = False) -> None:
        self.bears_not = set(bears_not)
        self.dies = dies
        self.broken = broken
        self.tried: list[tuple[str, ...]] = []
        self.closed = 0

    def spawn(self, off: tuple[str, ...]) -> Any:
        self.tried.append(off)
        return self

    def request(self, _header: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        assert timeout_s > 0
        if not self.broken and self.bears_not <= set(self.tried[-1]):
            return {"works": True}, []
        if self.dies:
            raise WorkerGone("was killed by SIGSYS", "signal")
        return {"works": False, "error": "RuntimeError: No CUDA GPUs are available"}, []

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize(
    ("bears_not", "off", "tries"),
    [
        ((), (), 1),
        (("seccomp",), ("seccomp",), 2),
        (("landlock",), ("landlock",), 3),
        (("landlock", "seccomp"), ("landlock", "seccomp"), 4),
    ],
)
def test_no_more_is_left_off_than_needed(
    tmp_path: Path, bears_not: tuple[str, ...], off: tuple[str, ...], tries: int, dies: bool
) -> None:
    driver = Driver(*bears_not, dies=dies)
    store = tmp_path / "walls.json"
    assert bearable_walls(driver.spawn, (), store) == off
    assert len(driver.tried) == driver.closed == tries
    again = Driver(broken=True)
    assert bearable_walls(again.spawn, (), store) == off
    assert again.tried == []


def test_what_the_user_left_off_stays_off_and_is_another_question(tmp_path: Path) -> None:
    store = tmp_path / "walls.json"
    assert bearable_walls(Driver().spawn, (), store) == ()
    driver = Driver("seccomp")
    assert bearable_walls(driver.spawn, ("disk",), store) == ("disk", "seccomp")
    assert driver.tried == [("disk",), ("disk", "seccomp")]


def test_a_spoiled_store_is_tried_again(tmp_path: Path) -> None:
    store = tmp_path / "walls.json"
    store.write_text("{torn")
    assert bearable_walls(Driver().spawn, (), store) == ()
    assert bearable_walls(Driver(broken=True).spawn, (), store) == ()


def test_a_gpu_that_works_nowhere_is_left_to_the_real_worker_to_report(tmp_path: Path) -> None:
    driver = Driver(broken=True)
    assert bearable_walls(driver.spawn, (), tmp_path / "walls.json") == ("landlock", "seccomp")
    assert not (tmp_path / "walls.json").exists()
    assert driver.closed == 4
