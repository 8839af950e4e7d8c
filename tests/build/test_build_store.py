"""Processes share one store: built once, whole or absent, and never larger than its limit for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stitchcuda.tools.build.store import Busy, Store

WORKER = """
import sys, time
from pathlib import Path
from stitchcuda.tools.build.store import Store
root, digest, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def make(folder):
    (folder / "half.txt").write_text("half")
    with open(root / "made.log", "a") as log:
        log.write(digest + "\\n")
    time.sleep(seconds)
    (folder / "whole.txt").write_text(digest)
    return True
folder, was_there = Store(root).get_or_make(digest, make, timeout_s=60)
assert (folder / "whole.txt").read_text() == digest
print(was_there)
"""


def start(root: Path, digest: str, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(root), digest, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_until_made(root: Path, count: int) -> None:
    log = root / "made.log"
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        if log.exists() and len(log.read_text().splitlines()) >= count:
            return
        time.sleep(0.02)
    pytest.fail("the worker never started to build")


def test_processes_build_each_digest_once(tmp_path: Path) -> None:
    workers = [start(tmp_path, digest, 0.3) for digest in ("aa", "aa", "bb", "aa")]
    outputs = [worker.communicate(timeout=60)[0].strip() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    assert sorted((tmp_path / "made.log").read_text().split()) == ["aa", "bb"]
    assert sorted(outputs) == ["False", "False", "True", "True"]


def test_a_killed_builder_leaves_nothing_and_the_next_one_builds(tmp_path: Path) -> None:
    victim = start(tmp_path, "aa", 60)
    wait_until_made(tmp_path, 1)
    waiter = start(tmp_path, "aa", 0)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    assert waiter.communicate(timeout=60)[0].strip() == "False"
    store = Store(tmp_path)
    assert sorted(file.name for file in store.path("aa").iterdir()) == ["half.txt", "manifest.json", "whole.txt"]
    assert list((tmp_path / "partial").iterdir()) == []


def put(store: Store, digest: str, size: int = 10) -> Path:
    def make(folder: Path) -> bool:
        (folder / "data").write_bytes(digest[:1].encode() * size)
        return True

    folder, _ = store.get_or_make(digest, make, timeout_s=5)
    assert folder is not None
    return folder


@pytest.mark.parametrize("damage", ["shorter", "other", "gone", "no manifest"])
def test_a_torn_folder_is_rebuilt(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    data = put(store, "aa") / "data"
    if damage == "shorter":
        data.write_bytes(b"a")
    elif damage == "other":
        data.write_bytes(b"b" * 10)
    elif damage == "gone":
        data.unlink()
    else:
        (data.parent / "manifest.json").write_text("{")
    assert store.find("aa") is None
    assert (put(store, "aa") / "data").read_bytes() == b"a" * 10


def test_an_outcome_that_must_not_be_kept_is_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    calls: list[Path] = []

    def make(folder: Path) -> bool:
        calls.append(folder)
        return False

    assert store.get_or_make("aa", make, timeout_s=5) == (None, False)
    assert store.get_or_make("aa", make, timeout_s=5) == (None, False)
    assert len(calls) == 2
    assert not any(folder.exists() for folder in calls)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=3500)
    for age, digest in enumerate(("aa", "bb", "cc")):
        folder = put(store, digest, 1000)
        os.utime(folder / "manifest.json", (1000 + age, 1000 + age))
    assert store.find("aa") is not None  # used just now
    put(store, "dd", 1000)
    assert store.find("bb") is None
    assert [store.find(digest) is not None for digest in ("aa", "cc", "dd")] == [True, True, True]


def test_waiting_ends_at_the_limit_and_on_cancel(tmp_path: Path) -> None:
    owner = start(tmp_path, "aa", 30)
    try:
        wait_until_made(tmp_path, 1)
        store = Store(tmp_path)
        with pytest.raises(Busy):
            store.get_or_make("aa", lambda _: True, timeout_s=0.1)
        cancel = threading.Event()
        cancel.set()
        with pytest.raises(Busy):
            store.get_or_make("aa", lambda _: True, timeout_s=30, cancel=cancel)
    finally:
        owner.kill()
        owner.communicate()


def test_places_for_compilers_are_limited(tmp_path: Path) -> None:
    store, other = Store(tmp_path), Store(tmp_path)
    with store.slot(2, timeout_s=1), other.slot(2, timeout_s=1), pytest.raises(Busy), other.slot(2, timeout_s=0.1):
        pytest.fail("a third compiler was let in")
    with store.slot(1, timeout_s=0.1):
        pass
