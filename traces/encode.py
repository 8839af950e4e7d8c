"""Any Python value as JSON: what a graph's state, a prompt or a tool result becomes in a trace.

Comes in: values of any type. Goes out: JSON-able values, secrets replaced, large strings by reference. Never
raises on a strange value: what has no JSON form is written as its ``repr``, cut.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping, Set
from datetime import date, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import BaseModel, SecretBytes, SecretStr

from stitchcuda.traces.blobs import BlobStore
from stitchcuda.traces.redact import REDACTED, Redactor

__all__ = ["Encoder"]

DEEPEST = 48
REPR_LIMIT_CHARS = 500
BYTES_LIMIT = 2048


class Encoder:
    """Turns values into JSON-able ones for one run folder."""

    def __init__(self, redactor: Redactor, blobs: BlobStore) -> None:
        self._redactor = redactor
        self._blobs = blobs

    def encode(self, value: Any) -> Any:
        """``value`` as JSON-able data."""
        return self._encode(value, set(), secret=False)

    def _encode(self, value: Any, open_ids: set[int], *, secret: bool) -> Any:
        """``open_ids`` are the containers being encoded (cycles); ``secret``: below a sensitive key."""
        if isinstance(value, Enum):
            value = value.value
        if value is None or isinstance(value, bool | int):
            # Subclasses of int print as themselves, not as numbers: IntEnum is handled above, bool is JSON's own.
            return value
        if isinstance(value, str):
            if secret and value:
                return REDACTED
            return self._blobs.put(self._redactor.text(str(value)))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, SecretStr | SecretBytes):
            return REDACTED
        if isinstance(value, UUID | PurePath):
            return self._redactor.text(str(value))
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, bytes | bytearray | memoryview):
            return REDACTED if secret else self._bytes(bytes(value))
        return self._container(value, open_ids, secret=secret)

    def _container(self, value: Any, open_ids: set[int], *, secret: bool) -> Any:
        if id(value) in open_ids or len(open_ids) >= DEEPEST:
            return f"<{type(value).__name__}>"
        own_id = id(value)
        open_ids.add(own_id)
        try:
            if isinstance(value, BaseModel):
                value = {name: getattr(value, name, None) for name in type(value).model_fields} | (
                    value.__pydantic_extra__ or {}
                )
            elif dataclasses.is_dataclass(value) and not isinstance(value, type):
                value = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
            if isinstance(value, Mapping):
                return {
                    self._redactor.text(str(key)): self._encode(
                        item, open_ids, secret=secret or self._redactor.sensitive_key(str(key))
                    )
                    for key, item in value.items()
                }
            if isinstance(value, list | tuple):
                return [self._encode(item, open_ids, secret=secret) for item in value]
            if isinstance(value, Set):
                return sorted((self._encode(item, open_ids, secret=secret) for item in value), key=repr)
            return REDACTED if secret else self._repr(value)
        finally:
            open_ids.discard(own_id)

    @staticmethod
    def _bytes(value: bytes) -> dict[str, Any]:
        return {"base64": base64.b64encode(value[:BYTES_LIMIT]).decode(), "bytes": len(value)}

    def _repr(self, value: Any) -> str:
        try:
            text = repr(value)
        except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything; the trace must go on
            text = f"<{type(value).__name__}: repr raised {type(error).__name__}>"
        return self._redactor.text(text[:REPR_LIMIT_CHARS])
