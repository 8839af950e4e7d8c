"""HTTP clients for ``ChatOpenAI`` that keep secrets and malformed answers from travelling further.

Two things happen between the wire and the library:

- The key is taken out of the body of an error. Some endpoints echo what they were given, and the library
  puts that text into its exception, and tracers into their files.
- A streamed answer is watched while it passes (``stream_guard``); where a stream was asked for and a plain answer came,
  status 501 with the code ``no_stream`` says so.
- A success whose body is no chat completion (an HTML page, broken JSON, no choices) becomes status 502 with
  the code ``malformed_answer``. The library would raise whatever its parser stumbles over.

Connections are not kept: a call takes seconds, a new connection milliseconds, and a kept one belongs to an
event loop that may be gone at the next call.
"""

from __future__ import annotations

import json
import ssl
from typing import Any
from urllib.parse import urlsplit

import openai

from stitchcuda.nodes.engines.chat.faults import PLACEHOLDER_KEY, redact
from stitchcuda.nodes.engines.chat.stream_guard import guard_stream

__all__ = ["http_clients", "is_loopback"]


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.") or host.endswith(".localhost")


def _flaw(body: bytes) -> str:
    """Why the body of a success is no chat completion; empty when it is one."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return "the answer is not JSON"
    if not isinstance(value, dict):
        return "the answer is not a JSON object"
    if value.get("error"):
        return f"the answer is an error: {json.dumps(value['error'])[:200]}"
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        return "the answer has no choices"
    if not all(isinstance(choice, dict) and isinstance(choice.get("message"), dict) for choice in choices):
        return "the answer has a choice without a message"
    message = choices[0]["message"]
    if message.get("role", "assistant") != "assistant":
        return "the answer's message is not the assistant's"
    usage = value.get("usage")
    if not isinstance(message.get("content", ""), str | list | None) or not isinstance(usage, dict | None):
        return "the answer has a field of the wrong type"
    return ""


def _asks_for_stream(request: Any) -> bool:
    try:
        return bool(json.loads(request.content).get("stream"))
    except (ValueError, AttributeError):
        return False


def _replacement(response: Any, request: Any, body: bytes, secrets: tuple[str, ...]) -> Any:
    """``response`` with a safe body; ``None`` when it may pass as it is."""
    status: int = response.status_code
    if status >= 400:
        text = body.decode("utf-8", errors="replace")
        clean = redact(text, secrets)
        if clean == text:
            return None
    elif 200 <= status < 300 and request.url.path.endswith("/chat/completions"):
        flaw, code = _flaw(body), "malformed_answer"
        if not flaw and not _asks_for_stream(request):
            return None
        if not flaw:
            flaw, code = "the endpoint does not stream", "no_stream"
        error = {"message": redact(flaw, secrets), "code": code, "type": "server_error"}
        status, clean = 501 if code == "no_stream" else 502, json.dumps({"error": error})
    else:
        return None
    kept = ("retry-after", "x-request-id")
    headers = {name: value for name, value in response.headers.items() if name.lower() in kept}
    headers["content-type"] = "application/json"
    return type(response)(status, headers=headers, content=clean.encode(), request=request)


class _SafeClient(openai.DefaultHttpxClient):
    secrets: tuple[str, ...] = ()

    def send(self, request: Any, **options: Any) -> Any:
        response = super().send(request, **options)
        if "event-stream" in response.headers.get("content-type", ""):
            return response
        return _replacement(response, request, response.read(), self.secrets) or response


class _SafeAsyncClient(openai.DefaultAsyncHttpxClient):
    secrets: tuple[str, ...] = ()

    async def send(self, request: Any, **options: Any) -> Any:
        response = await super().send(request, **options)
        if response.status_code < 300 and "event-stream" in response.headers.get("content-type", ""):
            setattr(response, "aiter_bytes", guard_stream(response.aiter_bytes, self.secrets))  # noqa: B010  # a method
            return response
        return _replacement(response, request, await response.aread(), self.secrets) or response


def http_clients(base_url: str, key: str, timeout_s: float) -> tuple[Any, Any]:
    """The synchronous and the asynchronous client for ``base_url``, both guarding ``key``."""
    # The limits' class comes from whichever HTTP library this version of the client stands on.
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_keepalive_connections=0)
    options: dict[str, Any] = {"timeout": timeout_s, "limits": limits}
    if is_loopback(base_url):
        options["trust_env"] = False  # a proxy of the environment cannot see this machine's ports
        if urlsplit(base_url).scheme == "http":
            # No TLS here: loading the certificate store costs 70 ms. With an empty one a redirect to TLS fails closed.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    secrets = (key,) if key != PLACEHOLDER_KEY else ()
    clients = _SafeClient(**options), _SafeAsyncClient(**options)
    for client in clients:
        client.secrets = secrets
    return clients
