"""What a failed call means: try again, count a failed attempt, or end the run.

Comes in: an exception of a chat model. Goes out: a ``Fault``; ``None`` for an exception that no endpoint
causes, because that one is a bug and keeps its traceback. Classified by what every client has in common
(``status_code``, standard exceptions), so that a scripted model needs no network library.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from stitchcuda.core.errors import one_line

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["PLACEHOLDER_KEY", "Fault", "classify", "endpoint_name", "redact", "secrets_of"]

PLACEHOLDER_KEY = "no-key-needed"
"""Sent to a server that was named by its address when there is no key."""

_CONTEXT = re.compile(
    r"context.?(length|window)|maximum context|prompt is too long|too many tokens|n_ctx", re.IGNORECASE
)
_REFUSED = re.compile(r"content.?(filter|policy|management)|invalid_prompt|safety", re.IGNORECASE)


@dataclass(frozen=True)
class Fault:
    """``action``: ``retry`` the call, ``fail`` this attempt, or ``end`` the run with a ``ModelError``."""

    code: str
    action: Literal["retry", "fail", "end"]
    message: str
    status_code: int | None = None
    retry_after_s: float | None = None


def secrets_of(model: BaseChatModel) -> tuple[str, ...]:
    """The values that must never be shown: every secret field of the model."""
    fields = (getattr(model, name, None) for name in type(model).model_fields)
    values = (field.get_secret_value() for field in fields if isinstance(field, SecretStr))
    return tuple(value for value in values if len(value) >= 4 and value != PLACEHOLDER_KEY)


def redact(text: str, secrets: tuple[str, ...]) -> str:
    """``text`` without the secrets, and without the masked form that endpoints echo."""
    for secret in secrets:
        text = text.replace(secret, "[key]")
    return re.sub(r"\bsk-[\w*-]{4,}", "[key]", text)


def endpoint_name(model: BaseChatModel) -> str:
    """Model and address for a message, without a password in the address."""
    name = getattr(model, "model_name", None) or type(model).__name__
    base = getattr(model, "openai_api_base", None)
    if not isinstance(base, str):
        return f"model {name!r}"
    parts = urlsplit(base)
    host = parts.netloc.rpartition("@")[2]
    return f"model {name!r} at {parts.scheme}://{host}{parts.path}"


def _error_code(error: BaseException) -> str:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else ""


def _retry_after_s(error: BaseException) -> float | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", {})
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:  # absent, or a date: our own backoff serves as well
        return None


def _of_status(status: int, error: BaseException, where: str) -> Fault:
    text = one_line(error, 300)
    code = _error_code(error)
    if status == 401:
        return Fault("wrong_key", "end", f"{where} does not accept the key (401): check OPENAI_API_KEY", status)
    if status == 403:
        return Fault("forbidden", "end", f"{where} denies access (403): check the key's rights; {text}", status)
    if status == 404:
        return Fault("no_model", "end", f"{where} is not there (404): check the model name and --base-url", status)
    if status == 429:
        if code == "insufficient_quota":
            return Fault("no_quota", "end", f"{where}: the account has no quota left (429)", status)
        return Fault("rate_limited", "retry", f"{where} limits the rate (429)", status, _retry_after_s(error))
    if code == "malformed_answer":
        return Fault(code, "retry", f"{where}: {text}", status)
    if code == "refused":
        return Fault(code, "fail", f"the model declines: {text}", status)
    if code == "no_stream":
        return Fault(code, "end", f"{where} does not stream: set stream=false", status)
    if status in (408, 409, 425) or status >= 500:
        return Fault("server_error", "retry", f"{where} answers {status}", status, _retry_after_s(error))
    if status == 413 or _CONTEXT.search(f"{code} {error}"):
        return Fault("context_too_long", "fail", f"{where}: the prompt does not fit its context ({status})", status)
    if _REFUSED.search(f"{code} {error}"):
        return Fault("refused", "fail", f"{where} refuses the prompt ({status}): {text}", status)
    return Fault("bad_request", "end", f"{where} does not accept the request ({status}): {text}", status)


def classify(error: BaseException, model: BaseChatModel) -> Fault | None:
    """What ``error``, raised by a call of ``model``, means; its message holds no secret."""
    where = endpoint_name(model)
    secrets = secrets_of(model)
    openai: Any = sys.modules.get("openai")  # if it was never imported, the error is not one of its own
    status = getattr(error, "status_code", None)
    fault: Fault | None = None
    if isinstance(status, int):
        fault = _of_status(status, error, where)
    elif isinstance(error, TimeoutError) or (openai and isinstance(error, openai.APITimeoutError)):
        fault = Fault("timeout", "retry", f"{where} did not answer in time")
    elif isinstance(error, ConnectionError) or (openai and isinstance(error, openai.APIConnectionError)):
        cause = _root_cause(error)
        if isinstance(error, ConnectionRefusedError) or type(cause).__name__ in ("ConnectError", "UnsupportedProtocol"):
            detail = one_line(cause, 120)
            fault = Fault(
                "unreachable", "end", f"{where} cannot be reached: check --base-url and the network ({detail})"
            )
        else:
            fault = Fault("connection_lost", "retry", f"{where} broke the connection ({type(cause).__name__})")
    elif openai and isinstance(error, openai.APIError):
        fault = Fault("server_error", "retry", f"{where}: {one_line(error, 300)}")
    if fault is None:
        return None
    message = redact(fault.message, secrets)
    return Fault(fault.code, fault.action, message, fault.status_code, fault.retry_after_s)


def _root_cause(error: BaseException) -> BaseException:
    """The transport's own exception: wrapped by the client and again by LangChain."""
    while error.__cause__ is not None and not isinstance(error, OSError):
        if type(error).__name__ in ("ConnectError", "UnsupportedProtocol", "RemoteProtocolError", "ReadError"):
            break
        error = error.__cause__
    return error
