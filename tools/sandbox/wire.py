"""Messages between processes: a length-prefixed JSON header, and file descriptors beside it.

Comes in: a JSON-able dict and descriptors (tensor bytes travel as sealed memory files, see ``tensors.py``).
Goes out: the same at the other end of a Unix stream socket. No pickle. Either end may be hostile, so lengths
are bounded and anything unexpected is a ``ProtocolError``.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["Channel", "ProtocolError"]

_PREFIX = struct.Struct("<4sI")
_MAGIC = b"SCW1"
MAX_HEADER_BYTES = 64 << 20
MAX_DESCRIPTORS = 128


class ProtocolError(Exception):
    """The other end sent something that is no message."""


class Channel:
    """One end of a conversation. Not thread-safe; the owner closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def send(self, header: dict[str, Any], descriptors: Sequence[int] = (), timeout_s: float | None = None) -> None:
        """Send one message.

        Raises:
            TimeoutError: the other end did not read within ``timeout_s``.
            OSError: the other end is gone.
        """
        data = json.dumps(header).encode()
        if len(data) > MAX_HEADER_BYTES or len(descriptors) > MAX_DESCRIPTORS:
            raise ProtocolError(f"message too large: {len(data)} bytes, {len(descriptors)} descriptors")
        self._sock.settimeout(timeout_s)
        prefix = _PREFIX.pack(_MAGIC, len(data))
        if descriptors:
            sent = socket.send_fds(self._sock, [prefix], list(descriptors))
            prefix = prefix[sent:]
        self._sock.sendall(prefix + data)

    def receive(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """Wait for one message; the caller owns the descriptors.

        Raises:
            TimeoutError: nothing whole arrived within ``timeout_s``.
            EOFError: the other end closed.
            ProtocolError: what arrived is no message.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._arm(deadline)
        try:
            first, descriptors, flags, _ = socket.recv_fds(
                self._sock, _PREFIX.size, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError as error:
            raise EOFError("connection reset") from error
        try:
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("too many descriptors in one message")
            if not first:
                raise EOFError("closed")
            prefix = first + self._read(_PREFIX.size - len(first), deadline)
            magic, length = _PREFIX.unpack(prefix)
            if magic != _MAGIC or length > MAX_HEADER_BYTES:
                raise ProtocolError("bytes that are no message on the worker's channel")
            try:
                header = json.loads(self._read(length, deadline))
            except (ValueError, RecursionError) as error:
                raise ProtocolError("a message that is no JSON on the worker's channel") from error
            if not isinstance(header, dict):
                raise ProtocolError("a message that is no JSON object on the worker's channel")
        except BaseException:
            close_all(descriptors)
            raise
        return header, descriptors

    def _arm(self, deadline: float | None) -> None:
        # A timeout of zero would mean non-blocking, and an expired one must still raise TimeoutError.
        self._sock.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))

    def _read(self, count: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < count:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError("timed out")
            self._arm(deadline)
            try:
                chunk = self._sock.recv(min(count - len(data), 1 << 20))
            except ConnectionResetError as error:
                raise EOFError("connection reset") from error
            if not chunk:
                raise EOFError("closed in the middle of a message")
            data += chunk
        return bytes(data)


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that nobody wants; one that is closed already is fine."""
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            continue
