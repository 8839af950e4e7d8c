"""Isolated calls: results, failures, limits, and what foreign code cannot see or leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from stitchcuda.tools import IsolatedError, run_isolated, sandbox_features
from stitchcuda.tools.sandbox import client

TARGETS = "isolated_targets"


def _processes_with(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _gone(marker: str, timeout_s: float = 6.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not _processes_with(marker):
            return True
        time.sleep(0.05)
    return False


def test_a_result_comes_back_from_another_process():
    answer = run_isolated(f"{TARGETS}:add", {"a": 2, "b": 3}, 60)
    assert answer["sum"] == 5
    assert answer["pid"] != os.getpid()


def test_an_exception_keeps_its_kind_and_message():
    with pytest.raises(IsolatedError) as caught:
        run_isolated(f"{TARGETS}:fail", {"text": "no Model in this file"}, 60)
    assert caught.value.kind == "ProblemError"
    assert caught.value.message == "no Model in this file"


def test_a_crash_and_a_hang_are_told_apart():
    with pytest.raises(IsolatedError, match="SIGSEGV") as crashed:
        run_isolated(f"{TARGETS}:crash", {}, 60)
    assert crashed.value.kind == "WorkerGone"
    started = time.monotonic()
    with pytest.raises(IsolatedError) as hung:
        run_isolated(f"{TARGETS}:sleep", {"seconds": 300}, 0.5)
    assert hung.value.kind == "TimeoutError"
    assert time.monotonic() - started < 5


def test_a_worker_sees_no_keys_no_files_no_descriptors_no_network(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen = run_isolated(f"{TARGETS}:surroundings", {}, 60)
    assert "OPENAI_API_KEY" not in seen["environment"]
    assert seen["files"] == []
    assert seen["descriptors"] == [0, 1, 2, 3]
    if sandbox_features()["network_cut"]:
        assert seen["interfaces"] == ["lo"]


def test_the_server_never_touches_cuda():
    assert run_isolated(f"{TARGETS}:cuda_seen", {}, 60) is False


def test_what_a_worker_started_ends_with_it():
    marker = f"orphan-{os.getpid()}"
    run_isolated(f"{TARGETS}:leave_a_child", {"marker": marker}, 60)
    assert _gone(marker)


def test_a_dead_server_is_replaced():
    run_isolated(f"{TARGETS}:add", {"a": 1, "b": 1}, 60)
    server = client._server
    assert server is not None
    server.process.kill()
    server.process.wait()
    assert run_isolated(f"{TARGETS}:add", {"a": 1, "b": 1}, 60)["sum"] == 2
    assert not server.root.exists()


def test_a_killed_parent_leaves_no_process_and_no_folder():
    marker = f"deserted-{os.getpid()}"
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from stitchcuda.tools.sandbox import client
        client.warm_up()
        with client._lock:
            client._server.wait_ready()
        print(client._server.process.pid, client._server.root, flush=True)
        from stitchcuda.tools import run_isolated
        import threading
        threading.Thread(target=lambda: print("child", flush=True)).start()
        worker = client.spawn_worker("isolated_targets:linger", client.Limits())
        worker.request({{"marker": {marker!r}}}, timeout_s=60)
        print("lingers", flush=True)
        import time
        time.sleep(300)
    """)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server_pid, root = parent.stdout.readline().split()
    while "lingers" not in parent.stdout.readline():
        assert parent.poll() is None
    assert _processes_with(marker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert _gone(marker)
    deadline = time.monotonic() + 6
    while Path(f"/proc/{server_pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{server_pid}").exists()
    assert not Path(root).exists()


def test_features_are_all_named():
    features = sandbox_features()
    assert {"user_namespace", "pid_namespace", "network_cut", "hidden_proc", "landlock", "seccomp"} <= set(features)
    assert all(isinstance(value, bool) for value in features.values())
