"""Which walls this kernel, as this user, lets us build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stitchcuda.tools.sandbox.client import walls_off

__all__ = ["sandbox_features", "unprotected"]


def sandbox_features() -> dict[str, bool]:
    """Try each protection in a short-lived process and say whether it works.

    ``private_folder``, ``limits``, ``clean_environment``: always there. ``user_namespace``: processes are counted, so
    that a fork bomb is bounded. ``pid_namespace``: everything a worker starts ends with it, and it reaches no other
    process. ``network_cut``. ``mount_namespace`` with ``hidden_proc`` (other processes cannot be seen) and
    ``disk_limit`` (the private folder is a disk of limited size). ``landlock``: files outside of the private folder
    cannot be written, and only programs and libraries be read; ``signals_cut`` comes with newer versions.
    ``seccomp``: system calls that nobody needs are refused.

    A wall that ``STITCHCUDA_SANDBOX_OFF`` turns off counts as missing.

    Raises:
        SettingsError: that variable names no wall.
    """
    off = walls_off()
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(Path(__file__).parent), json.dumps(off)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    nothing: dict[str, Any] = {"names": [], "hidden": False, "disk": False, "landlock": 0, "seccomp": False}
    found = json.loads(done.stdout) if done.returncode == 0 and done.stdout else nothing
    names: list[str] = found["names"]
    return {
        "private_folder": True,
        "limits": True,
        "clean_environment": True,
        "user_namespace": "user" in names,
        "pid_namespace": "pid" in names,
        "network_cut": "net" in names,
        "mount_namespace": "mount" in names,
        "hidden_proc": bool(found["hidden"]),
        "disk_limit": bool(found["disk"]),
        "landlock": found["landlock"] > 0,
        "signals_cut": found["landlock"] >= 6,
        "seccomp": bool(found["seccomp"]),
    }


_WITHOUT = {
    "user_namespace": "a fork bomb is bounded by the time limit only",
    "pid_namespace": "a worker sees the processes of its user",
    "network_cut": "a worker shares the machine's network",
    "disk_limit": "a worker can fill the disk that holds temporary files",
    "landlock": "a worker can read, and where it may also write, its user's files",
    "signals_cut": "a worker may signal processes of its user that it can see",
    "seccomp": "a worker may make any system call of the kernel",
}


def unprotected(features: dict[str, bool]) -> tuple[str, ...]:
    """What stays open with these features, one line each: for ``doctor`` and for logs."""
    lines = [text for name, text in _WITHOUT.items() if not features[name]]
    if features["pid_namespace"] and features["hidden_proc"] and not features["signals_cut"]:
        lines.remove(_WITHOUT["signals_cut"])  # it sees none
    if features["seccomp"] and not features["network_cut"]:
        lines.remove(_WITHOUT["network_cut"])  # no new socket, so no network
    return tuple(lines)


# Runs in a process of its own because walls cannot be taken down; loads the files of this folder alone, by path.
_PROBE = """
import json, os, sys, runpy
kernel, landlock, seccomp = (runpy.run_path(f"{sys.argv[1]}/{name}.py") for name in ("kernel", "landlock", "seccomp"))
off = json.loads(sys.argv[2])

def inside(names):
    said = {"names": names, "hidden": False, "disk": False, "landlock": 0, "seccomp": False}
    if "mount" in names and "pid" in names:
        try:
            kernel["hide_other_processes"]()
            said["hidden"] = True
        except OSError:
            pass
        try:
            if "disk" not in off:
                kernel["mount_private_disk"]("/tmp", 1 << 20)
                said["disk"] = True
        except OSError:
            pass
    kernel["drop_privileges"]()
    try:
        if "landlock" not in off and landlock["restrict_files"](read=["/"], write=[]):
            said["landlock"] = landlock["landlock_version"]()
    except OSError:
        pass
    try:
        said["seccomp"] = "seccomp" not in off and seccomp["refuse_calls"](local_sockets=False)
    except OSError:
        pass
    return said

for names in [()] if "namespaces" in off else kernel["NAMESPACE_SETS"]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kernel["enter_namespaces"](names)
            child = os.fork()
            if child == 0:
                os.write(write, json.dumps(inside(names)).encode())
                os._exit(0)
            os.waitpid(child, 0)
        except OSError:
            os._exit(1)
        os._exit(0)
    code = os.waitpid(pid, 0)[1]
    os.close(write)
    said = os.read(read, 4096)
    os.close(read)
    if code == 0 and said:
        print(said.decode())
        break
"""
