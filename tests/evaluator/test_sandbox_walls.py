"""Each wall is tested by an attempt to get over it, and by what must still work behind it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitchcuda.tools import IsolatedError, run_isolated, sandbox_features
from stitchcuda.tools.sandbox import client
from stitchcuda.tools.sandbox import features as features_module
from stitchcuda.tools.sandbox.tree import descendants

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the attempts make x86_64's system calls")
TARGETS = "sandbox_attempts"
HERE = Path(__file__).parent

NEEDS = {
    "internet socket": "seccomp",
    "connect to loopback": "seccomp",
    "connect to a local socket": "seccomp",
    "read a secret": "landlock",
    "list the secret's folder": "landlock",
    "read accounts": "landlock",
    "read password hashes": "landlock",
    "list the home": "landlock",
    "write outside": "landlock",
    "write to the shared memory folder": "landlock",
    "remove outside": "landlock",
    "hard link to the secret": "landlock",
    "symbolic link to the secret": "landlock",
    "read through a child": "landlock",
    "the parent's environment": "landlock",
    "the parent's memory": "landlock",
    "the guard's descriptors": "landlock",
    "signal the parent": "pid_namespace",
    "end the guard": "signals_cut",
    "trace": "seccomp",
    "mount": "seccomp",
    "new namespace": "seccomp",
    "clone into a namespace": "seccomp",
    "clone3": "seccomp",
    "keys": "seccomp",
    "bpf": "seccomp",
    "performance events": "seccomp",
    "io_uring": "seccomp",
    "userfaultfd": "seccomp",
    "open by handle": "seccomp",
    "copy another process's memory": "seccomp",
    "raise a limit": "limits",
}


@pytest.fixture(scope="module")
def features() -> dict[str, bool]:
    return sandbox_features()


@pytest.fixture(scope="module")
def attempted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """All attempts in one worker, against a real secret, a real listener and this very process."""
    folder = tmp_path_factory.mktemp("private")
    secret = folder / "secret"
    secret.write_text("a key")
    with socket.socket(socket.AF_UNIX) as local, socket.socket() as listener:
        local.bind(str(folder / "socket"))
        local.listen()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        arguments = {"secret": str(secret), "outside": str(folder), "parent": os.getpid()}
        arguments |= {"unix_socket": str(folder / "socket"), "port": listener.getsockname()[1]}
        yield run_isolated(f"{TARGETS}:try_all", arguments, 60)
    assert secret.read_text() == "a key"
    assert not (folder / "left").exists()
    assert not Path("/dev/shm/left-by-a-worker").exists()


@pytest.mark.parametrize(("attempt", "wall"), NEEDS.items(), ids=NEEDS)
def test_the_attempt_is_refused(attempted, features, attempt, wall):
    if not features[wall]:
        pytest.skip(f"this machine has no {wall}")
    assert attempted[attempt].startswith("refused"), attempted[attempt]


def test_no_attempt_goes_unjudged(attempted):
    assert set(attempted) == set(NEEDS)


def test_what_candidates_need_still_works():
    needs = run_isolated(f"{TARGETS}:everyday_needs", {}, 60)
    assert needs.pop("name") == "worker"
    assert all(needs.values()), needs


def _value(entry: str, limits: client.Limits, **fields: object) -> int:
    worker = client.spawn_worker(f"{TARGETS}:{entry}", limits)
    try:
        reply, _ = worker.request(fields, timeout_s=60)
        return int(reply["value"])
    finally:
        worker.close()


def test_a_fork_bomb_is_bounded_and_ends_with_its_worker(features):
    if not features["pid_namespace"]:
        pytest.skip("without a pid namespace only the time limit ends a fork bomb")
    run_isolated(f"{TARGETS}:descriptor_flood", {}, 60)  # the fork server is there
    before = len(descendants(os.getpid()))
    started = time.monotonic()
    # Either the kernel refuses the next process (it never does for root), or the guard ends the worker.
    try:
        assert _value("fork_bomb_entry", client.Limits(processes=40)) <= 40
    except client.WorkerGone as gone:
        assert "too many processes" in str(gone)  # noqa: PT017
    assert time.monotonic() - started < 20
    assert len(descendants(os.getpid())) == before


def test_memory_beyond_the_limit_is_refused():
    taken = _value("memory_hog_entry", client.Limits(as_bytes=16 << 30))
    assert 1 <= taken < 16


def test_descriptors_beyond_the_limit_are_refused():
    assert 100 < run_isolated(f"{TARGETS}:descriptor_flood", {}, 60) <= 4096


def test_many_files_cannot_fill_the_disk(features):
    if not features["disk_limit"]:
        pytest.skip("no private disk without a mount namespace")
    written = _value("disk_flood_entry", client.Limits(disk_bytes=8 << 20), block_bytes=1 << 16)
    assert 4 << 20 <= written <= 8 << 20


def test_one_file_cannot_fill_the_disk():
    limits = client.Limits(file_bytes=1 << 20, disk_bytes=1 << 30)
    worker = client.spawn_worker(f"{TARGETS}:disk_flood_entry", limits)
    try:
        # Past the limit the kernel sends SIGXFSZ; Python ignores it and sees an error.
        assert worker.request({"block_bytes": 1 << 18}, timeout_s=60)[0]["value"] == 1 << 20
    finally:
        worker.close()


def test_a_crash_leaves_no_core():
    cores = set(Path.cwd().glob("core*")) | set(Path("/tmp").glob("core*"))
    with pytest.raises(IsolatedError, match="SIGABRT"):
        run_isolated(f"{TARGETS}:dump_core", {}, 60)
    assert set(Path.cwd().glob("core*")) | set(Path("/tmp").glob("core*")) == cores


def test_a_folder_can_be_open_without_a_listing(tmp_path, features):
    if not features["landlock"]:
        pytest.skip("this machine has no landlock")
    (tmp_path / "known").write_text("contents")
    worker = client.spawn_worker("sandbox_targets:read_and_list", client.Limits(open_only=(tmp_path,)))
    try:
        reply, _ = worker.request({"folder": str(tmp_path)}, timeout_s=60)
    finally:
        worker.close()
    assert reply["read"] == "contents"
    assert reply["list"] == "EACCES"
    assert reply["write"] == "EACCES"


_AS_ORDINARY_USER = """
import json, os, runpy, sys
rooms, tests, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
kernel, landlock, seccomp = (runpy.run_path(f"{rooms}/{name}.py") for name in ("kernel", "landlock", "seccomp"))
attempts = runpy.run_path(f"{tests}/sandbox_attempts.py")
os.chdir(arguments["outside"])
os.mkdir("mine")
for names in kernel["NAMESPACE_SETS"]:
    try:
        kernel["enter_namespaces"](names)
        break
    except OSError:
        continue
if os.fork() == 0:
    if os.fork() != 0:  # the guard
        os.wait()
        os._exit(0)
    kernel["drop_privileges"]()
    os.chdir("mine")
    here = os.getcwd()
    landlock["restrict_files"](read=["/usr", "/lib", "/lib64", "/bin", "/proc"], write=[here], devices=["/dev/null"])
    seccomp["refuse_calls"](local_sockets=False)
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    print(json.dumps(attempts["try_all"](**arguments)), flush=True)
    os._exit(0)
os.wait()
"""
_SYSTEM_PYTHON = Path("/usr/bin/python3")


def test_the_walls_stand_for_an_ordinary_user_too(features):
    """By the system's Python and without torch, because ours may lie where only root can read."""
    if os.getuid() != 0:
        pytest.skip("this is an ordinary user already: the other tests cover it")
    rooms = Path(features_module.__file__).resolve().parent
    if not _SYSTEM_PYTHON.exists() or not _readable_by_others(rooms) or not _readable_by_others(HERE):
        pytest.skip("no interpreter, or no source, that an ordinary user may read")
    with tempfile.TemporaryDirectory() as folder:
        shutil.chown(folder, 65534, 65534)
        secret = Path(folder, "secret")
        secret.write_text("a key")
        shutil.chown(secret, 65534, 65534)  # its own file: only the walls protect it
        with socket.socket(socket.AF_UNIX) as local:
            local.bind(f"{folder}/socket")
            local.listen()
            Path(folder, "socket").chmod(0o777)
            arguments = {"secret": str(secret), "outside": folder, "parent": os.getpid()}
            arguments |= {"unix_socket": f"{folder}/socket", "port": 1}
            done = subprocess.run(
                [str(_SYSTEM_PYTHON), "-I", "-S", "-c", _AS_ORDINARY_USER, rooms, HERE, json.dumps(arguments)],
                user=65534,
                group=65534,
                extra_groups=[],
                env={},
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert secret.read_text() == "a key"
    assert set(found) == set(NEEDS)
    worked = [name for name, said in found.items() if features[NEEDS[name]] and not said.startswith("refused")]
    assert worked == []


def _readable_by_others(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


@pytest.mark.parametrize("wall", ["landlock", "seccomp"])
def test_one_wall_can_be_turned_off_and_it_is_said(monkeypatch, features, wall):
    if not features[wall]:
        pytest.skip(f"this machine has no {wall}")
    monkeypatch.setenv("STITCHCUDA_SANDBOX_OFF", wall)
    assert sandbox_features() == {**features, wall: False, **({"signals_cut": False} if wall == "landlock" else {})}
    assert client.walls_off() == (wall,)


def test_a_misspelt_wall_is_an_error(monkeypatch):
    from stitchcuda.core.errors import SettingsError

    monkeypatch.setenv("STITCHCUDA_SANDBOX_OFF", "firewall")
    with pytest.raises(SettingsError, match="firewall"):
        client.walls_off()
