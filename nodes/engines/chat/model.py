"""Open the chat model that a setting names: ``openai:<name>`` or ``scripted:<file>``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from stitchcuda.core.errors import ModelError, SettingsError, boundary
from stitchcuda.nodes.engines.chat.faults import PLACEHOLDER_KEY
from stitchcuda.nodes.engines.chat.profile import register_endpoint

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["HOSTED_URL", "open_chat_model"]

HOSTED_URL = "https://api.openai.com/v1"


def open_chat_model(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: SecretStr | None = None,
    temperature: float | None = None,
    timeout_s: float = 600.0,
    max_retries: int = 4,
    max_output_tokens: int | None = None,
    profile_cache: Path | None = None,
    endpoint: Mapping[str, Any] | None = None,
) -> BaseChatModel:
    """The chat model ``spec``. Nothing is sent yet.

    Args:
        spec: ``openai:<model name>`` for an OpenAI-compatible endpoint, ``scripted:<file>`` for recorded answers.
        base_url: address of the endpoint up to ``/v1``; the hosted service when ``None``.
        api_key: may be left out for an endpoint that is named by ``base_url``.
        temperature: not sent when ``None`` (reasoning models refuse it).
        timeout_s: limit of one call, whole answer included.
        max_retries: further tries of a call that failed for a passing reason.
        max_output_tokens: limit of one answer; the endpoint's own when ``None``.
        profile_cache: folder in which what is found out about endpoints is kept.
        endpoint: fields of ``EndpointProfile`` that are known and need not be found out.

    Raises:
        SettingsError: ``spec`` or ``base_url`` is not of a form that can be used.
        ModelError: the hosted service is asked without a key.
    """
    kind, _, name = spec.partition(":")
    if kind == "scripted" and name:
        from stitchcuda.nodes.engines.chat.scripted import ScriptedChatModel

        return ScriptedChatModel.from_file(Path(name), timeout_s=timeout_s, max_retries=max_retries)
    if kind != "openai" or not name.strip():
        raise SettingsError(f"model {spec!r} is not known: give openai:<model name> or scripted:<file.json>")
    url = _checked_url(base_url)
    key = api_key.get_secret_value().strip() if api_key is not None else ""
    if not key:
        if base_url is None:
            raise ModelError(
                f"model {spec!r} needs a key: set OPENAI_API_KEY, or name a local endpoint with --base-url"
            )
        key = PLACEHOLDER_KEY
    register_endpoint(url, name.strip(), profile_cache, endpoint or {})
    return _open_openai(name.strip(), url, key, temperature, timeout_s, max_retries, max_output_tokens)


def _checked_url(base_url: str | None) -> str:
    if base_url is None:
        return HOSTED_URL
    with boundary(SettingsError, f"base URL {base_url!r}", ValueError):
        parts = urlsplit(base_url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    if not usable:
        raise SettingsError(f"base URL {base_url!r} is not an address: give for example http://127.0.0.1:8000/v1")
    return base_url.strip().rstrip("/")


def _open_openai(
    name: str,
    url: str,
    key: str,
    temperature: float | None,
    timeout_s: float,
    max_retries: int,
    max_output_tokens: int | None,
) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    from stitchcuda.nodes.engines.chat.http_client import http_clients

    # The fall-back to unconstrained answers is automatic; advice on other settings would only confuse.
    for start in ("This model does not support OpenAI's structured output", "Invalid schema for OpenAI's structured"):
        warnings.filterwarnings("ignore", message=start, category=UserWarning)
    client, async_client = http_clients(url, key, timeout_s)
    return ChatOpenAI(
        model=name,
        base_url=url,
        api_key=SecretStr(key),
        temperature=temperature,
        timeout=timeout_s,
        max_retries=0,  # the conversation retries: it knows which failures end a run, and counts them
        max_completion_tokens=max_output_tokens,
        http_client=client,
        http_async_client=async_client,
        use_responses_api=False,
        disable_streaming=True,  # the caller streams when the settings and the endpoint's profile say so
        metadata={"timeout_s": timeout_s, "max_retries": max_retries},
    )
