"""A worker's stdout and stderr, read as they come, kept short."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

__all__ = ["LogReader"]

_HALF_BYTES = 16 << 10
_FLOOD_BYTES = 64 << 20


class LogReader:
    """Drains a pipe in a thread; keeps its first and last 16 kB, and calls ``on_flood`` once past 64 MB."""

    def __init__(self, descriptor: int) -> None:
        self.on_flood: Callable[[], None] | None = None
        self._descriptor = descriptor
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._thread = threading.Thread(target=self._drain, daemon=True, name="worker-log")
        self._thread.start()

    def _drain(self) -> None:
        flooded = False
        while chunk := os.read(self._descriptor, 1 << 16):
            self._total += len(chunk)
            room = max(0, _HALF_BYTES - len(self._head))
            self._head += chunk[:room]
            self._tail += chunk[room:]
            if len(self._tail) > _HALF_BYTES:
                del self._tail[: len(self._tail) - _HALF_BYTES]
            if self._total > _FLOOD_BYTES and not flooded and self.on_flood is not None:
                flooded = True
                self.on_flood()

    def text(self) -> str:
        self._thread.join(timeout=0.05)  # the last words may still be in the pipe
        head, tail = bytes(self._head), bytes(self._tail)
        cut = self._total - len(head) - len(tail)
        middle = f"\n… {cut} bytes cut …\n".encode() if cut > 0 else b""
        return (head + middle + tail).decode(errors="replace")

    def close(self) -> None:
        """Call when every writer is gone."""
        self._thread.join(timeout=2)
        os.close(self._descriptor)
