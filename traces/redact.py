"""Keep secrets out of what is written: values of tell-tale keys, given strings, well-known key formats.

Comes in: strings and the keys that they stand under. Goes out: the same with secrets replaced by ``[redacted]``.
A given secret shorter than six characters is ignored: local servers take ``x`` as a key, and replacing
every ``x`` would destroy the trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["REDACTED", "Redactor"]

REDACTED = "[redacted]"
SHORTEST_SECRET_CHARS = 6

# ``input_tokens`` and ``max_tokens`` are counts and must stay, hence ``token`` only in these compounds.
_SENSITIVE_KEY = re.compile(
    r"(^|_)(api_?key|authorization|passw(or)?d|passphrase|secrets?|credentials?|private_key"
    r"|(access|auth|bearer|refresh|session|hf|hub)_token|token)$"
)
_CAMEL_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KNOWN_FORMATS = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"
    r"|\blsv2_[a-z]{2}_[A-Za-z0-9_]{16,}"
    r"|\bhf_[A-Za-z0-9]{20,}"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]+:[^/\s:@]+(?=@)"
)

_MARKS = ("sk-", "lsv2_", "hf_", "Bearer ", "://")


class Redactor:
    """Replaces secrets in strings."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found: set[str] = set()
        for secret in secrets:
            if len(secret) >= SHORTEST_SECRET_CHARS:
                # A secret inside JSON inside a string looks different when it holds a quote or a backslash.
                found |= {secret, json.dumps(secret)[1:-1]}
        # Longest first: a secret may be the beginning of another one.
        self._secrets = sorted(found, key=len, reverse=True)

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REDACTED)
        # The expression costs 50 µs per kB, the look for its literal parts almost nothing.
        return _KNOWN_FORMATS.sub(REDACTED, text) if any(mark in text for mark in _MARKS) else text

    @staticmethod
    @lru_cache(maxsize=4096)
    def sensitive_key(key: str) -> bool:
        """Whether the value under ``key`` must not be written, for example ``openai_api_key`` or ``X-Api-Key``."""
        return _SENSITIVE_KEY.search(_CAMEL_BORDER.sub("_", key).replace("-", "_").lower()) is not None
