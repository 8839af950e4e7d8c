"""The worker's side of a conversation: named operations, one at a time, until the parent closes the channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stitchcuda.tools.sandbox.wire import Channel, close_all

__all__ = ["Operation", "serve"]

Operation = Callable[[dict[str, Any], list[int]], tuple[dict[str, Any], Sequence[int]]]
"""``(header, descriptors) -> (reply, descriptors)``; both lists are closed by the loop afterwards."""


def serve(channel: Channel, operations: dict[str, Operation]) -> None:
    """Answer requests for ever; an ``EOFError`` (the parent is done with us) ends it."""
    while True:
        header, descriptors = channel.receive()
        attached: Sequence[int] = ()
        try:
            reply, attached = operations[header["op"]](header, descriptors)
            channel.send(reply | {"reply": header["request"]}, attached)
        finally:
            close_all(descriptors)
            close_all(attached)
