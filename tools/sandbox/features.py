"""Which walls this kernel, as this user, lets us build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["sandbox_features"]


def sandbox_features() -> dict[str, bool]:
    """Try each protection in a short-lived process and say whether it works.

    Keys: ``private_folder``, ``limits``, ``clean_environment`` (always there), ``user_namespace``,
    ``pid_namespace`` (everything a worker starts ends with it), ``network_cut``, ``mount_namespace``,
    ``hidden_proc`` (other processes cannot be seen), ``landlock`` and ``seccomp`` (not used yet).
    """
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(Path(__file__).with_name("kernel.py"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    found: dict[str, Any] = (
        json.loads(done.stdout) if done.returncode == 0 and done.stdout else {"names": [], "hidden": False}
    )
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
        "landlock": False,
        "seccomp": False,
    }


# Runs in a process of its own because unsharing cannot be undone; loads kernel.py alone, by path.
_PROBE = """
import json, os, sys, runpy
kernel = runpy.run_path(sys.argv[1])
for names in kernel["NAMESPACE_SETS"]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kernel["enter_namespaces"](names)
            child = os.fork()
            if child == 0:
                hidden = False
                try:
                    if "mount" in names and "pid" in names:
                        kernel["hide_other_processes"]()
                        hidden = True
                except OSError:
                    pass
                os.write(write, json.dumps({"names": names, "hidden": hidden}).encode())
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
