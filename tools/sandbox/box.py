"""A box for one compiler: a candidate's source must not read this machine's files into a message or an object.

Comes in: a command and the folder that it works in. Goes out: a longer command that raises the walls and then becomes
the compiler, so that time limits, output and process groups stay with whoever runs it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from stitchcuda.tools.sandbox.client import kept_environment, walls_off
from stitchcuda.tools.sandbox.paths import device_paths, readable_paths

__all__ = ["boxed"]

_MEMORY_BYTES = 16 << 30
_FILE_BYTES = 4 << 30


def boxed(
    command: Sequence[str],
    *,
    folder: Path,
    open_only: Iterable[Path] = (),
    memory_bytes: int = _MEMORY_BYTES,
    file_bytes: int = _FILE_BYTES,
) -> list[str]:
    """``command``, run with ``folder`` as the only place to write, its ``HOME`` and its ``TMPDIR``.

    Readable are the system's headers, libraries and tools, Python's, this package and the compiler's own
    installation; there is no network, and nothing of the environment but search paths.

    Args:
        open_only: further folders whose files may be read by name, but not listed.
        memory_bytes: address space of each process.
        file_bytes: size of each file.
    """
    program = Path(shutil.which(command[0]) or command[0]).resolve()
    # An installation is usually prefix/bin/program; the system's own directories are readable anyway.
    installation = program.parent.parent if program.parent.name == "bin" else program.parent
    setup = {
        "read": [*readable_paths(), *([str(installation)] if len(installation.parts) > 2 else [])],
        "open_only": [str(path.absolute()) for path in open_only],
        "write": [str(folder.absolute()), "/proc/self"],
        "devices": device_paths(),
        "off": walls_off(),
        "memory_bytes": memory_bytes,
        "file_bytes": file_bytes,
        "environment": kept_environment() | {"HOME": str(folder.absolute()), "TMPDIR": str(folder.absolute())},
    }
    here = Path(__file__).parent
    return [sys.executable, "-I", "-S", str(here / "box_main.py"), str(here), json.dumps(setup), *command]
