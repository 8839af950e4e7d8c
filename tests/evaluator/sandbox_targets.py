"""Entry functions of workers for tests."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path


def read_and_list(channel, _folder):  # type: ignore[no-untyped-def]
    request, _ = channel.receive()
    folder = Path(request["folder"])
    channel.send(
        {
            "reply": request["request"],
            "read": _said(lambda: (folder / "known").read_text()),
            "list": _said(lambda: str(list(folder.iterdir()))),
            "write": _said(lambda: str((folder / "new").write_text("x"))),
        }
    )


def _said(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
