"""Executing one Python source as a module, in a worker: the same way for references and candidates."""

from __future__ import annotations

import sys
import traceback
import types
from pathlib import Path

__all__ = ["describe_error", "execute"]


def execute(source: str, folder: Path, name: str) -> types.ModuleType:
    """Write ``source`` to ``folder/<name>.py`` and run it as the module ``name``; whatever it raises passes through.

    A real file, so that tracebacks, ``inspect.getsource`` and relative files work.
    """
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def describe_error(error: BaseException, file_name: str) -> dict[str, object]:
    """Kind, one-line message and the last line of ``file_name`` that took part."""
    line = None
    if isinstance(error, SyntaxError) and str(error.filename or "").endswith(file_name):
        line = error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.endswith(file_name):
            line = frame.lineno
    try:
        message = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  # foreign exceptions may fail to print themselves
        message = "(an exception that cannot be printed)"
    return {"kind": type(error).__name__, "message": message[:4000], "line": line}
