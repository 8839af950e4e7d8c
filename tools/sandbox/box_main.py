"""Runs as a script in a bare interpreter: raise the walls that ``box.py`` asks for, then become the compiler."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys


def main(folder: str, setup_text: str, *command: str) -> None:
    sys.path.append(folder)  # the files of this folder by themselves: importing the package would take too long
    import kernel  # type: ignore[import-not-found]
    import landlock  # type: ignore[import-not-found]
    import seccomp  # type: ignore[import-not-found]

    setup = json.loads(setup_text)
    kernel.die_with_parent(os.getppid())
    for what, value in (
        (resource.RLIMIT_AS, setup["memory_bytes"]),
        (resource.RLIMIT_FSIZE, setup["file_bytes"]),
        (resource.RLIMIT_CORE, 1),
    ):
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))
    if "namespaces" not in setup["off"]:
        with contextlib.suppress(OSError):
            kernel.enter_namespaces(("user", "net"))
    kernel.drop_privileges()
    if "landlock" not in setup["off"]:
        landlock.restrict_files(
            read=setup["read"], open_only=setup["open_only"], write=setup["write"], devices=setup["devices"]
        )
    if "seccomp" not in setup["off"]:
        seccomp.refuse_calls(local_sockets=False)
    try:
        os.execvpe(command[0], command, setup["environment"])
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    main(*sys.argv[1:])
